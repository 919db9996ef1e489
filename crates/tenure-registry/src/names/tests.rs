//! Names, lists and subscriptions against a model.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{Event, Metadata, Subscription, batch::Change};

const NAMES: [&str; 6] = ["a", "a/1", "a/2", "b", "b/1", "c"];

fn owner(number: u8) -> Owner {
    Owner {
        node: format!("n{number}").parse().unwrap(),
        session: SessionId::from_bytes([number; SessionId::BYTES]),
    }
}

fn metadata(zone: u8, data: u8) -> Metadata {
    let metadata = Metadata::new().data(Bytes::from(vec![data]));
    match zone {
        0 => metadata,
        zone => metadata.label("zone", format!("z{}", zone % 3)).label("all", "yes"),
    }
}

fn queries() -> Vec<Query> {
    vec![
        Query::all(),
        Query::all().named("a/"),
        Query::all().label("zone", "z1"),
        Query::all().label_prefix("zone", "z"),
        Query::all().label_prefix("zone", "").label("all", "yes").named("b"),
        Query::all().label("nothing", "x"),
    ]
}

type Model = BTreeMap<String, (u8, u64, Metadata)>;

/// One change, and what it makes of the model.
fn change(model: &mut Model, step: (u8, usize, u8, u8, u8), number: u64) -> (Owner, Change) {
    let (sort, name, who, zone, data) = step;
    let name = NAMES[name];
    let held = model.get(name).cloned();
    let parsed = name.parse().unwrap();
    match (sort, held) {
        (0 | 1, None) => {
            model.insert(name.into(), (who, number, metadata(zone, data)));
            (owner(who), Change::Register { name: parsed, number, metadata: metadata(zone, data) })
        }
        (0 | 2, Some((who, number, _))) => {
            model.remove(name);
            (owner(who), Change::Unregister { name: parsed, number })
        }
        (1 | 3, Some((who, number, _))) => {
            model.insert(name.into(), (who, number, metadata(zone, data)));
            let (request, metadata) = (number, metadata(zone, data));
            (owner(who), Change::Describe { name: parsed, number, request, metadata })
        }
        (4, _) => {
            model.retain(|_, (holder, ..)| *holder != who);
            (owner(who), Change::Ended)
        }
        // Those that are too late change nothing.
        (2, None) => (owner(who), Change::Unregister { name: parsed, number }),
        (_, _) => {
            let (request, metadata) = (number, metadata(zone, data));
            (owner(who), Change::Describe { name: parsed, number: 0, request, metadata })
        }
    }
}

fn seen(model: &Model, query: &Query) -> BTreeMap<String, (u64, Metadata)> {
    let entry = |name: &str, (who, number, metadata): &(u8, u64, Metadata)| Entry {
        name: name.into(),
        owner: Arc::new(owner(*who)),
        number: *number,
        described: *number,
        metadata: metadata.clone(),
        since_ms: 0,
        epoch: 0,
        position: 0,
    };
    let meant = model.iter().filter(|(name, held)| query.matches(&entry(name, held)));
    meant.map(|(name, (_, number, metadata))| (name.clone(), (*number, metadata.clone()))).collect()
}

/// All that is there, as if it had been read from the store.
fn loaded(names: &Names, position: u64) -> Loaded {
    let state = names.state.read();
    let party = |held: &Held| (held.owner.session, (Arc::clone(&held.owner), held.floor));
    let parties = state.owners.values().map(party).collect();
    Loaded { position, epoch: 1, entries: state.ordered.clone(), parties }
}

/// What somebody knows who hears every event.
#[derive(Default)]
struct Heard {
    entries: BTreeMap<String, (u64, Metadata)>,
    position: u64,
}

impl Heard {
    /// Whether a snapshot is `due` is known.
    fn hear(&mut self, event: Event, due: bool) -> Result<(), TestCaseError> {
        prop_assert_eq!(matches!(event, Event::Snapshot { .. }), due, "a snapshot, first and only then");
        let kept = |entry: &Entry| (entry.number, entry.metadata.clone());
        let at = match event {
            Event::Snapshot { entries, position } => {
                self.entries = entries.iter().map(|one| (one.name().to_owned(), kept(one))).collect();
                position
            }
            Event::Joined { entry, position } => {
                let before = self.entries.insert(entry.name().to_owned(), kept(&entry));
                prop_assert!(before.is_none(), "it was there");
                position
            }
            Event::Changed { entry, position } => {
                prop_assert!(self.entries.insert(entry.name().to_owned(), kept(&entry)).is_some());
                position
            }
            Event::Left { entry, position } => {
                prop_assert!(self.entries.remove(entry.name()).is_some(), "it was not there");
                position
            }
        };
        prop_assert!(at >= self.position, "in order");
        self.position = at;
        Ok(())
    }
}

proptest! {
    #[test]
    fn whatever_happens_lists_and_subscriptions_tell_what_is_there(
        batches in prop::collection::vec(
            prop::collection::vec((0..5_u8, 0..NAMES.len(), 1..4_u8, 0..4_u8, any::<u8>()), 0..6), 1..30),
        starts in prop::collection::vec(0..30_usize, 6),
        replaced in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let (names, mut model) = (Arc::new(Names::default()), Model::new());
        let others = Names::default();
        let replaced: BTreeSet<usize> = replaced.iter().map(|at| at.index(batches.len())).collect();
        let mut heard: Vec<(Query, Option<(Subscription, Heard)>)> =
            queries().into_iter().map(|query| (query, None)).collect();
        let mut number = 0;
        for (at, steps) in batches.iter().enumerate() {
            for (place, start) in starts.iter().enumerate() {
                if at == *start {
                    let mut subscription = Subscription::new(Arc::clone(&names), heard[place].0.clone());
                    let mut first = Heard::default();
                    first.hear(subscription.try_next().unwrap(), true)?;
                    heard[place].1 = Some((subscription, first));
                }
            }
            let position = at as u64 + 1;
            let mut batch = Batch { epoch: 1, ..Batch::default() };
            for step in steps {
                number += 1;
                let (owner, change) = change(&mut model, *step, number);
                batch.add(&owner, number, change);
            }
            others.apply(position, batch.clone());
            if replaced.contains(&at) {
                names.replace(loaded(&others, position));
            } else {
                prop_assert!(matches!(names.apply(position, batch.clone()), Step::Applied(_)));
            }
            prop_assert_eq!(names.apply(position, batch.clone()), Step::Known);
            prop_assert_eq!(names.apply(position + 2, batch.clone()), Step::Gap);
            for (query, listening) in &mut heard {
                let expected = seen(&model, query);
                let (listed, _) = names.list(query, None, 100);
                let listed: BTreeMap<String, (u64, Metadata)> =
                    listed.iter().map(|one| (one.name().to_owned(), (one.number, one.metadata.clone()))).collect();
                prop_assert_eq!(&listed, &expected);
                if let Some((subscription, heard)) = listening {
                    let mut due = replaced.contains(&at);
                    while let Some(event) = subscription.try_next() {
                        heard.hear(event, std::mem::take(&mut due))?;
                    }
                    prop_assert!(!due, "what came and went meanwhile can't be told");
                    prop_assert_eq!(&heard.entries, &expected);
                }
            }
        }
        let state = names.state.read();
        prop_assert_eq!(state.ordered.len(), names.table.pin().len());
        let weight: usize = state.ordered.values().map(|entry| entry.weight()).sum();
        prop_assert_eq!(state.bytes, weight);
        let owned: usize = state.owners.values().map(|held| held.names.len()).sum();
        prop_assert_eq!(owned, state.ordered.len());
        prop_assert_eq!(names.parties(), others.parties(), "whether heard or read");
        let labelled: usize = state.ordered.values().map(|entry| entry.metadata.labels.len()).sum();
        prop_assert_eq!(state.labels.values().map(BTreeSet::len).sum::<usize>(), labelled);
    }
}

#[test]
fn pages_of_a_list_begin_behind_the_one_before() {
    let names = Names::default();
    let mut batch = Batch::default();
    for (number, name) in NAMES.into_iter().enumerate() {
        let name = name.parse().unwrap();
        batch.add(&owner(1), 0, Change::Register { name, number: number as u64, metadata: metadata(1, 0) });
    }
    names.apply(1, batch.clone());
    for query in [Query::all(), Query::all().label("zone", "z1"), Query::all().label_prefix("zone", "")] {
        let listed = |after: Option<&str>, limit| -> Vec<String> {
            names.list(&query, after, limit).0.iter().map(|entry| entry.name().to_owned()).collect()
        };
        assert_eq!(listed(None, 2), ["a", "a/1"]);
        assert_eq!(listed(Some("a/1"), 2), ["a/2", "b"]);
        assert_eq!(listed(Some("a/15"), 1), ["a/2"], "behind a name that nobody has");
        assert_eq!(listed(Some("c"), 2), Vec::<String>::new());
        let within = query.clone().named("a/");
        let (found, _) = names.list(&within, Some("a"), 9);
        assert_eq!(found.len(), 2, "what is before the prefix is before all of it");
        assert_eq!(names.list(&within, Some("b"), 9).0.len(), 0);
    }
}

#[test]
fn what_an_owner_has_told_is_remembered_by_whoever_reads_it_and_as_long_as_its_session_lasts() {
    let names = Names::default();
    let parties =
        [(owner(1), 7), (owner(2), 8)].map(|(owner, floor)| (owner.session, (Arc::new(owner), floor)));
    names.replace(Loaded { position: 3, epoch: 1, entries: BTreeMap::new(), parties: parties.into() });
    let floors = || names.parties().iter().map(|party| party.floor).collect::<Vec<_>>();
    assert_eq!((floors(), names.floor(owner(2).session), names.floor(owner(3).session)), (vec![7, 8], 8, 0));
    let mut batch = Batch::default();
    let name = "a".parse().unwrap();
    // An earlier word that comes late counts for nothing.
    batch.add(&owner(2), 5, Change::Unregister { name, number: 3 });
    batch.add(&owner(1), 0, Change::Ended);
    names.apply(4, batch.clone());
    assert_eq!(floors(), [8]);
    // It had ended before what is read.
    names.replace(Loaded { position: 9, epoch: 1, entries: BTreeMap::new(), parties: BTreeMap::new() });
    assert_eq!((floors(), names.owners().len()), (vec![], 0));
}

#[tokio::test]
async fn whoever_waits_while_all_is_read_anew_is_given_all_of_it() {
    let names = Arc::new(Names::default());
    let mut subscription = Subscription::new(Arc::clone(&names), Query::all());
    assert!(matches!(subscription.next().await, Event::Snapshot { position: 0, .. }));
    let mut batch = Batch::default();
    let name = "a".parse().unwrap();
    batch.add(&owner(1), 0, Change::Register { name, number: 1, metadata: metadata(0, 0) });
    names.apply(1, batch.clone());
    let waiting = tokio::spawn(async move {
        assert!(matches!(subscription.next().await, Event::Joined { position: 1, .. }));
        subscription.next().await
    });
    tokio::task::yield_now().await;
    // Nothing is different, and yet something may have come and gone.
    let anew = loaded(&names, 9);
    assert!(names.replace(anew).is_empty());
    let told = waiting.await.unwrap();
    assert!(matches!(&told, Event::Snapshot { entries, position: 9 } if entries.len() == 1), "{told:?}");
}
