//! What was acknowledged against what is there.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use tenure_store::{Entry, Key, Read, Store, StoreExt as _};

/// The list that every commit appends to.
pub(crate) fn log() -> Key {
    Key::from("log")
}

/// The counter that all fight for.
pub(crate) fn shared() -> Key {
    Key::from("count/all")
}

/// The counter of one sender.
pub(crate) fn own(sender: &str) -> Key {
    Key::from(format!("count/{sender}").as_str())
}

pub(crate) fn from_count(count: u64) -> Vec<u8> {
    count.to_be_bytes().to_vec()
}

pub(crate) fn to_count(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

/// One acknowledged commit: when it was submitted, when acknowledged, and what it appended.
struct Acknowledged {
    submitted: u128,
    acknowledged: u128,
    entry: String,
}

/// What workers said was acknowledged.
#[derive(Default)]
pub(crate) struct History(Vec<Acknowledged>);

impl History {
    /// Adds the lines of one worker, whose last may have been cut short when it was killed. Returns how many commits they tell of.
    pub(crate) fn add(&mut self, lines: Vec<String>) -> usize {
        let before = self.0.len();
        for line in lines {
            let mut words = line.splitn(3, ' ');
            let (Some(submitted), Some(acknowledged), Some(entry)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            // A whole entry names its counter last, and every counter's name starts alike.
            if entry
                .split(' ')
                .nth(2)
                .is_some_and(|counter| counter.starts_with("count/") && counter.len() > 8)
            {
                let (submitted, acknowledged) = (submitted.parse().unwrap(), acknowledged.parse().unwrap());
                self.0.push(Acknowledged { submitted, acknowledged, entry: entry.into() });
            }
        }
        self.0.len() - before
    }

    /// Compares with the store: everything acknowledged is there, nothing twice, in order, and the counters agree.
    pub(crate) async fn check(&self, path: &Path) {
        let store = tenure_sqlite::SqliteStore::open(&format!("sqlite:{}", path.display())).await.unwrap();
        let entries = whole_log(&store).await;
        let place: HashMap<&str, usize> =
            entries.iter().enumerate().map(|(at, entry)| (entry.as_str(), at)).collect();
        assert_eq!(place.len(), entries.len(), "an entry is there twice");
        assert!(entries.len() >= self.0.len());
        for Acknowledged { entry, .. } in &self.0 {
            assert!(place.contains_key(entry.as_str()), "{entry:?} was acknowledged and is lost");
        }
        check_senders(&entries);
        self.check_real_time(&place);
        check_counters(&store, &entries).await;
        store.close();
        check_integrity(path);
    }

    /// What was acknowledged before another was submitted stands before it.
    fn check_real_time(&self, place: &HashMap<&str, usize>) {
        let mut in_order: Vec<&Acknowledged> = self.0.iter().collect();
        in_order.sort_by_key(|commit| place[commit.entry.as_str()]);
        let mut latest: Option<&Acknowledged> = None;
        for commit in in_order {
            if let Some(earlier) = latest {
                assert!(
                    commit.acknowledged >= earlier.submitted,
                    "{:?} was acknowledged before {:?} was submitted, and stands behind it",
                    commit.entry,
                    earlier.entry
                );
            }
            if latest.is_none_or(|latest| latest.submitted < commit.submitted) {
                latest = Some(commit);
            }
        }
    }
}

async fn whole_log(store: &tenure_sqlite::SqliteStore) -> Vec<String> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map(|entry| entry.id.clone());
        let snapshot = store.read(vec![Read::List { list: log(), after, limit: 5000 }]).await.unwrap();
        entries.extend(snapshot.list(0).items.iter().cloned());
        if !snapshot.list(0).more {
            return entries
                .into_iter()
                .map(|entry| String::from_utf8(entry.value.to_vec()).unwrap())
                .collect();
        }
    }
}

/// Each sender's numbers are all there, in order, up to its last.
fn check_senders(entries: &[String]) {
    let mut next: HashMap<&str, u64> = HashMap::new();
    for entry in entries {
        let mut words = entry.split(' ');
        let (sender, number) = (words.next().unwrap(), words.next().unwrap().parse::<u64>().unwrap());
        let expected = next.entry(sender).or_default();
        assert_eq!(number, *expected, "of {sender}");
        *expected += 1;
    }
}

/// Each counter counts just the commits that counted it.
async fn check_counters(store: &tenure_sqlite::SqliteStore, entries: &[String]) {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for entry in entries {
        *counts.entry(entry.rsplit(' ').next().unwrap()).or_default() += 1;
    }
    assert!(counts.keys().collect::<HashSet<_>>().len() > 1);
    for (counter, count) in counts {
        let found = store.get(&Key::from(counter)).await.unwrap().unwrap();
        assert_eq!(to_count(&found.value), count, "{counter}");
    }
}

fn check_integrity(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}
