//! [`Node`]: what all parts of one node share.

use std::{sync::Arc, time::Duration};

use tenure_store::{Env, Item, Range, Retry, Store, StoreError, StoreExt as _};

use crate::{Keys, Owner, Settings};

/// A node's way to its store, its time, its keys and its settings.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) env: Env,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
    pub(crate) owner: Owner,
}

impl Node {
    pub(crate) fn new(store: Arc<dyn Store>, env: Env, settings: Settings) -> Self {
        let keys = Keys::new(&settings.cluster);
        let owner = if settings.proof_of_death {
            Owner::this_process(settings.machine.as_deref())
        } else {
            Owner::unknown()
        };
        Self { store, env, keys, settings, owner }
    }

    /// How patiently something is tried that nobody but its caller waits for: as long as a session lives.
    pub(crate) fn retry(&self) -> Retry {
        Retry { within: self.settings.ttl, ..Retry::default() }
    }

    /// What `request` gives within the time that one may take.
    pub(crate) async fn bounded<T>(
        &self,
        doing: &str,
        request: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let asked = self.env.timeout(self.request_time(), request).await;
        asked.map_err(|elapsed| StoreError::unavailable(format!("{doing}: {elapsed}")))
    }

    /// All keys in a range, page by page: one instant, if they fit one.
    pub(crate) async fn scan(&self, range: &Range) -> Result<Vec<Item>, StoreError> {
        let (mut range, mut found) = (range.clone(), Vec::new());
        loop {
            let page = self.store.scan(&range, self.store.limits().page_items).await?;
            found.extend(page.items);
            match found.last() {
                Some(last) if page.more => range = range.after(&last.key),
                _ => return Ok(found),
            }
        }
    }

    /// The longest that one request to the store is waited for, where another may follow.
    pub(crate) fn request_time(&self) -> Duration {
        self.settings.renewal_interval.max(REQUEST_TIME_MIN)
    }
}

/// Databases that fail over answer within this, as a rule.
const REQUEST_TIME_MIN: Duration = Duration::from_millis(500);
