//! What tests with real processes share: the stores that these open, and how a test program starts itself again as one of them.

pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod worker;
