//! [`RegistryView`]: the names of a registry, for whoever looks at a cluster without taking part.

use std::sync::Arc;

use tenure_cluster::Onlooker;
use tenure_server::Survey as _;
use tenure_store::{Name, StoreError};
use tokio::sync::Mutex;

use crate::{
    Elector, Entry, Led, Page, Query,
    keys::RegistryKeys,
    log::Log,
    names::{Names, Step},
};

/// The names of a registry, as of the last [look](RegistryView::refresh).
#[derive(Debug)]
pub struct RegistryView {
    name: Name,
    log: Log,
    names: Names,
    led: Mutex<Led>,
}

impl RegistryView {
    /// The names of all registries that ever had a member.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn all(onlooker: &Onlooker) -> Result<Vec<Name>, StoreError> {
        let kind = Elector::kind();
        let (mut names, mut after): (Vec<Name>, Option<Name>) = (Vec::new(), None);
        loop {
            let page = onlooker.servers(&kind, after.as_ref(), usize::MAX).await?;
            let Some(last) = page.last() else { return Ok(names) };
            after = Some(last.id.clone());
            names.extend(page.into_iter().map(|seen| seen.id));
        }
    }

    /// A view of this registry; nothing is read yet.
    #[must_use]
    pub fn new(onlooker: &Onlooker, name: Name) -> Self {
        let leader = onlooker.field_key(&Elector::kind(), &name, "leader");
        let keys = Arc::new(RegistryKeys::new(onlooker.keys(), &name, leader));
        let log = Log { store: Arc::clone(onlooker.store()), keys };
        Self { name, log, names: Names::default(), led: Mutex::default() }
    }

    /// The registry.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Reads what was committed since the last look: all that was before this began.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn refresh(&self) -> Result<Led, StoreError> {
        let mut led = self.led.lock().await;
        let tail = loop {
            let after = self.names.position();
            let tail = self.log.tail(after).await?;
            if tail.base.position <= after {
                break tail;
            }
            self.names.replace(self.log.load().await?);
        };
        for (position, bytes) in &tail.batches {
            let batch = self.log.batch(*position, bytes)?;
            if matches!(self.names.apply(*position, batch), Step::Gap) {
                let words = format!("the log of registry {} has nothing before {position}", self.name);
                return Err(StoreError::corrupt(words));
            }
        }
        *led = tail.led;
        Ok(led.clone())
    }

    /// Whose a name is.
    #[must_use]
    pub fn whereis(&self, name: &str) -> Option<Arc<Entry>> {
        self.names.get(name)
    }

    /// What a query means; as [`Registry::list`](crate::Registry::list).
    #[must_use]
    pub fn list(&self, query: &Query, after: Option<&str>, limit: usize) -> Page {
        Page::of(&self.names, query, after, limit)
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.size().0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to which batch of the log it goes.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.names.position()
    }
}
