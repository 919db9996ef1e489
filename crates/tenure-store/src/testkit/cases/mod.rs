//! The cases, by what they are about.

pub(super) mod commits;
