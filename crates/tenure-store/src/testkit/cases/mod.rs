//! The cases, by what they are about.

pub(super) mod bytes;
pub(super) mod cancel;
pub(super) mod commits;
pub(super) mod limits;
pub(super) mod lists;
pub(super) mod present;
pub(super) mod ranges;
pub(super) mod serializable;
pub(super) mod versions;
pub(super) mod watches;
