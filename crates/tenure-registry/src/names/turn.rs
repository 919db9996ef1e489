//! [`Turn`]: names that are being changed, from one position of the log to the next.

use std::{collections::BTreeMap, sync::Arc};

use super::{Moved, Pinned, State};
use crate::{Entry, Owner, batch::Change};

/// Names that are being changed.
pub(super) struct Turn<'a> {
    pub(super) state: &'a mut State,
    pub(super) table: Pinned<'a>,
    /// When, in which epoch and at which position.
    pub(super) batch: (u64, u64, u64),
    /// What has become of names.
    pub(super) moved: Vec<Moved>,
}

impl Turn<'_> {
    /// Does what a batch says.
    pub(super) fn change(&mut self, owner: &Arc<Owner>, change: Change) {
        match change {
            Change::Register { name, number, metadata } => {
                let (since_ms, epoch, position) = self.batch;
                let (name, owner) = (name.into_shared(), Arc::clone(owner));
                let entry =
                    Entry { name, owner, number, described: number, metadata, since_ms, epoch, position };
                let entry = Arc::new(entry);
                let before = self.insert(Arc::clone(&entry));
                self.moved.extend(before.map(Moved::Left));
                self.moved.push(Moved::Joined(entry));
            }
            Change::Unregister { name, number } => {
                if self.state.has(name.as_str(), owner, number) {
                    self.remove(name.as_str());
                }
            }
            Change::Describe { name, number, request, metadata } => {
                if self.state.has(name.as_str(), owner, number)
                    && let Some(before) = self.state.ordered.get(name.as_str()).cloned()
                {
                    let entry = Arc::new(Entry { described: request, metadata, ..(*before).clone() });
                    self.insert(Arc::clone(&entry));
                    self.moved.push(Moved::Changed(before, entry));
                }
            }
            Change::Left { through } => {
                let held = self.state.owners.get(&owner.session).map(|held| held.names.range(..=through));
                let names: Vec<Arc<str>> =
                    held.into_iter().flatten().map(|(_, name)| Arc::clone(name)).collect();
                names.iter().for_each(|name| self.remove(name));
            }
            Change::Ended => {
                // Taken out as a whole: one by one, many names would take several times as long.
                let held = self.state.owners.remove(&owner.session);
                for (_, name) in held.into_iter().flat_map(|held| held.names) {
                    self.remove(&name);
                }
            }
        }
    }

    /// What has become of names.
    pub(super) fn end(self) -> Vec<Moved> {
        self.moved
    }

    /// Puts these entries in place of all that are there.
    pub(super) fn replace(&mut self, entries: BTreeMap<Arc<str>, Arc<Entry>>) {
        let gone: Vec<Arc<str>> =
            self.state.ordered.keys().filter(|name| !entries.contains_key(*name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
        for entry in entries.into_values() {
            match self.state.ordered.get(&entry.name).cloned() {
                Some(before) if before == entry => {}
                Some(before) => {
                    self.insert(Arc::clone(&entry));
                    if (&before.owner, before.number) == (&entry.owner, entry.number) {
                        self.moved.push(Moved::Changed(before, entry));
                    } else {
                        self.moved.extend([Moved::Left(before), Moved::Joined(entry)]);
                    }
                }
                None => {
                    self.insert(Arc::clone(&entry));
                    self.moved.push(Moved::Joined(entry));
                }
            }
        }
    }

    /// Puts an entry in, and returns the one that had its name before.
    fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let state = &mut *self.state;
        let before = state.ordered.insert(Arc::clone(&entry.name), Arc::clone(&entry));
        if let Some(before) = &before {
            state.forget(before);
        }
        for (key, value) in &entry.metadata.labels {
            let place = (key.clone(), value.clone());
            state.labels.entry(place).or_default().insert(Arc::clone(&entry.name));
        }
        state.held(&entry.owner).names.insert(entry.number, Arc::clone(&entry.name));
        state.bytes += entry.weight();
        self.table.insert(Arc::clone(&entry.name), entry);
        before
    }

    /// Takes an entry out, if there is one of this name.
    fn remove(&mut self, name: &str) {
        if let Some(entry) = self.state.ordered.remove(name) {
            self.state.forget(&entry);
            self.table.remove(name);
            self.moved.push(Moved::Left(entry));
        }
    }
}
