//! Commits: all or nothing, and what each check means. Obligations 2 and 5.

use crate::{
    Commit,
    testkit::{Handles, tools::*},
};

/// A value is read as it was written.
pub(in crate::testkit) async fn a_value_is_read_as_it_was_written(handles: Handles) {
    let store = handles.one();
    commit(store, Commit::new().set(key("k"), "v")).await;
    assert_eq!(value(store, &key("k")).await.unwrap(), "v");
}
