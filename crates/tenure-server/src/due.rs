//! Timers of a server that is deleted.

use tenure_store::{Commit, Key, Store};

use crate::{
    ServerError,
    dead::scan,
    error::of_commit,
    keys::{ServerKeys, numbers_of},
};

/// How many timers one commit takes along: two operations each, with room for the rest.
const TIMERS_MAX: usize = 20;

/// Deletes all timers of a server but for a few, and returns the keys of `due` that are to go with these.
pub(crate) async fn clear_timers(store: &dyn Store, keys: &ServerKeys) -> Result<Vec<Key>, ServerError> {
    let mut timers = scan(store, &keys.timers()).await?;
    while timers.len() > TIMERS_MAX {
        let mut commit = Commit::new();
        for item in timers.drain(..TIMERS_MAX) {
            let (timer, at) = numbers_of(&item.key)?;
            commit = commit.delete(keys.due(at, timer)).delete(item.key);
        }
        store.commit(commit).await.map_err(|error| of_commit(&error))?;
    }
    let due = |key: &Key| numbers_of(key).map(|(timer, at)| keys.due(at, timer));
    Ok(timers.iter().map(|item| due(&item.key)).collect::<Result<_, _>>()?)
}
