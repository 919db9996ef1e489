//! What is read back from pages and log, against the names of the leader that wrote them.

use std::time::Duration;

use proptest::prelude::*;
use tenure_cluster::{Cluster, Settings};
use tenure_store::{Commit, Env, Faults, Faulty, MemoryStore, Store, StoreExt as _};

use super::*;
use crate::{Metadata, names::Names, names::Step, pages::Pages};

fn owner(session: SessionId) -> Owner {
    Owner { node: "n".parse().unwrap(), session }
}

fn entry(name: &str, session: SessionId, position: u64) -> Arc<Entry> {
    let owner = Arc::new(owner(session));
    let metadata = Metadata::new();
    let (number, since_ms, epoch) = (position, 0, 1);
    let name = name.into();
    Arc::new(Entry { name, owner, number, described: number, metadata, since_ms, epoch, position })
}

fn names(assembly: &Assembly) -> Vec<&str> {
    assembly.entries.keys().map(|name| &**name).collect()
}

#[test]
fn a_page_that_was_split_off_meanwhile_counts_over_what_was_read_before() {
    let session = SessionId::random(&Env::system());
    let mut assembly = Assembly::default();
    let old = ["a", "m", "z"].map(|name| entry(name, session, 1)).to_vec();
    assembly.take_page("", Page { position: 3, entries: old });
    // `m` was unregistered at 5, `n` registered at 6, and both are in the page of 7.
    let new = ["n", "z"].map(|name| entry(name, session, 6)).to_vec();
    assembly.take_page("m", Page { position: 7, entries: new });
    assert_eq!(names(&assembly), ["a", "n", "z"]);
}

#[test]
fn what_a_page_has_is_not_done_again() {
    let session = SessionId::random(&Env::system());
    let mut assembly = Assembly::default();
    assembly.take_page("", Page { position: 3, entries: vec![entry("a", session, 1)] });
    assembly.take_page("m", Page { position: 9, entries: vec![entry("x", session, 9)] });
    let mut batch = Batch { epoch: 1, ..Batch::default() };
    let name = |text: &str| text.parse().unwrap();
    let register = |text: &str| Change::Register { name: name(text), number: 5, metadata: Metadata::new() };
    // At 5: before the page of `m` was written, and after that of `a`.
    batch.add(&owner(session), 0, Change::Ended);
    batch.add(&owner(session), 0, register("b"));
    batch.add(&owner(session), 0, register("y"));
    assembly.take_batch(5, &batch);
    assert_eq!(names(&assembly), ["b", "x"]);
}

#[test]
fn pages_come_back_and_everything_else_is_refused() {
    let session = SessionId::random(&Env::system());
    let page = Page { position: 3, entries: vec![entry("a", session, 1), entry("b", session, 2)] };
    let (key, bytes) = (Key::from("page"), page.encode());
    assert_eq!(Page::decode(&key, &bytes).unwrap(), page);
    for end in 0..bytes.len() {
        assert!(Page::decode(&key, &bytes[..end]).is_err(), "{end}");
    }
    let mut strange = bytes.to_vec();
    for at in 0..strange.len() {
        strange[at] ^= 0xff;
        // Whatever it means now, it is no panic, and it fills no memory.
        let _ = Page::decode(&key, &strange);
        strange[at] ^= 0xff;
    }
}

/// A leader that writes what it is told, and another node's way to read it.
struct Bench {
    store: Arc<MemoryStore>,
    names: Names,
    pages: Pages,
    base: Base,
    log: Log,
    /// With a slow way to the store.
    slow: Log,
    env: Env,
    _clusters: [Cluster; 2],
}

impl Bench {
    async fn new(seed: u64) -> Self {
        let (env, store) = (Env::simulated(seed), Arc::new(MemoryStore::new()));
        let inner = Arc::clone(&store) as Arc<dyn Store>;
        let delay = Duration::from_millis(10);
        let slow = Arc::new(Faulty::new(Arc::clone(&inner), env.fork(), Faults { delay, ..Faults::NONE }));
        let settings = |node: &str| {
            let mut settings = Settings::new("bench", node).unwrap();
            settings.proof_of_death = false;
            settings
        };
        let fast = Cluster::join_in(inner, settings("fast"), env.fork()).await.unwrap();
        let slow = Cluster::join_in(slow as Arc<dyn Store>, settings("slow"), env.fork()).await.unwrap();
        let registry = "names".parse().unwrap();
        let log = |cluster: &Cluster| {
            let ground = cluster.ground();
            let keys = Arc::new(RegistryKeys::new(ground.keys(), &registry, Key::from("leader")));
            Log { store: Arc::clone(ground.store()), keys }
        };
        Self {
            names: Names::default(),
            pages: Pages::default(),
            base: Base::default(),
            log: log(&fast),
            slow: log(&slow),
            _clusters: [fast, slow],
            store,
            env,
        }
    }

    /// Commits a batch as a leader does, with the pages that are due.
    async fn write(&mut self, batch: &Batch, budget: usize, most: usize) {
        if self.pages.needs_firsts(&self.names, self.base) {
            self.pages.set_firsts(self.log.firsts().await.unwrap());
        }
        self.pages.begin(&self.names, self.base);
        let position = self.names.position() + 1;
        let (pages, base) = self.pages.take(&self.names, budget, most);
        let (keys, bytes) = (Arc::clone(&self.log.keys), batch.encode(0));
        let mut commit = Commit::new().set(keys.batch(position), bytes.clone());
        for write in pages {
            let key = keys.page(&write.first);
            commit = match write.page {
                Some(page) => commit.set(key, page.encode()),
                None => commit.delete(key),
            };
        }
        if let Some(base) = base {
            commit = commit.set(keys.base.clone(), base.encode());
            commit = commit.set(keys.floors.clone(), encode_floors(&self.names.parties()));
            commit = commit.delete_range(keys.log_through(base.position));
            self.base = base;
        }
        self.store.commit(commit).await.unwrap();
        let Step::Applied(moved) = self.names.apply(position, batch.clone()) else { panic!("out of order") };
        self.pages.note(&moved, bytes.len());
    }

    /// Another leader, which knows nothing of pages.
    fn depose(&mut self) {
        self.pages = Pages::default();
    }

    fn check(&self, loaded: &Loaded) {
        let (listed, position) = self.names.list(&crate::Query::all(), None, usize::MAX);
        assert_eq!((loaded.position, loaded.epoch), (position, self.names.epoch()));
        assert_eq!(loaded.entries.values().cloned().collect::<Vec<_>>(), listed);
        // Whoever loads knows as well as the leader what is a copy.
        let party = |(owner, floor): &(Arc<Owner>, u64)| Party { owner: (**owner).clone(), floor: *floor };
        assert_eq!(loaded.parties.values().map(party).collect::<Vec<_>>(), self.names.parties());
    }

    async fn keys(&self) -> (usize, usize) {
        let count = async |range: Range| {
            let page = self.store.scan(&range, 1000).await.unwrap();
            assert!(!page.more);
            page.items.len()
        };
        (count(self.log.keys.log()).await, count(self.log.keys.pages()).await)
    }
}

/// A change of one of some names.
#[derive(Clone, Copy, Debug)]
struct Turn {
    sort: u8,
    name: u16,
    session: u8,
    kilobytes: u8,
}

fn turns() -> impl Strategy<Value = Vec<Vec<Turn>>> {
    let turn = (0..20_u8, 0..150_u16, 0..4_u8, 0..9_u8).prop_map(|(sort, name, session, kilobytes)| Turn {
        sort,
        name,
        session,
        kilobytes,
    });
    prop::collection::vec(prop::collection::vec(turn, 0..8), 100..400)
}

impl Turn {
    fn change(self, names: &Names, number: u64) -> (Owner, Change) {
        let session = SessionId::from_bytes([self.session; SessionId::BYTES]);
        let name: tenure_store::Name = format!("name/{:03}", self.name).parse().unwrap();
        let metadata = Metadata::new().data(vec![0; usize::from(self.kilobytes) * 1024]);
        let held = names.get(name.as_str());
        match (self.sort, held) {
            (0, _) => (owner(session), Change::Ended),
            (1..12, None) => (owner(session), Change::Register { name, number, metadata }),
            (1..5, Some(held)) => {
                let (request, number) = (number, held.number);
                ((*held.owner).clone(), Change::Describe { name, number, request, metadata })
            }
            (_, Some(held)) => ((*held.owner).clone(), Change::Unregister { name, number: held.number }),
            (_, None) => (owner(session), Change::Unregister { name, number }),
        }
    }
}

fn run(seed: u64, test: impl AsyncFnOnce(Bench)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { test(Bench::new(seed).await).await });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_read_back_is_what_was_written(batches in turns(), budget in 1..200_000_usize, most in 1..9_usize) {
        run(1, async |mut bench: Bench| {
            let mut number = 0;
            for (at, turns) in batches.into_iter().enumerate() {
                let mut batch = Batch { epoch: 1 + at as u64 / 100, at_ms: at as u64, ..Batch::default() };
                let mut touched = BTreeSet::new();
                for turn in turns {
                    number += 1;
                    // One change of a name a batch, so that what is there decides.
                    if turn.sort > 0 && touched.insert(turn.name) {
                        let (owner, change) = turn.change(&bench.names, number);
                        batch.add(&owner, number, change);
                    }
                }
                if at % 37 == 0 {
                    let (owner, change) = Turn { sort: 0, name: 0, session: 1, kilobytes: 0 }.change(&bench.names, 0);
                    batch = Batch { epoch: batch.epoch, at_ms: batch.at_ms, ..Batch::default() };
                    batch.add(&owner, 0, change);
                }
                bench.write(&batch, budget, most).await;
                if at % 100 == 99 {
                    bench.depose();
                }
                if at % 3 == 0 {
                    let loaded = bench.log.load().await.unwrap();
                    bench.check(&loaded);
                }
            }
            // As many batches as are due, and those that came while pages were written.
            let (log, pages) = bench.keys().await;
            let (count, bytes) = bench.names.size();
            assert!(log < 64 + count / 8 + 150 + 64, "{log} batches of {count} names");
            assert!(pages <= 2 + 40 * bytes / (32 * 1024) + 150, "{pages} pages of {bytes} bytes");
        });
    }

    #[test]
    fn what_is_read_while_it_is_rewritten_is_what_was_written(seed in 0..1000_u64) {
        run(seed, async |mut bench: Bench| {
            let (mut number, dice) = (0, bench.env.fork());
            let slow = bench.slow.clone();
            let reading = tokio::spawn(async move {
                let mut loaded = Vec::new();
                for _ in 0..6 {
                    loaded.push(slow.load().await.unwrap());
                }
                loaded
            });
            let mut history = BTreeMap::new();
            while !reading.is_finished() || bench.names.position() < 200 {
                let mut batch = Batch { epoch: 1, at_ms: number, ..Batch::default() };
                for name in 0..dice.random_in(1..5) {
                    number += 1;
                    let turn = Turn {
                        sort: u8::try_from(dice.random_in(1..20)).unwrap(),
                        // Each its own part, so that no name is changed twice in a batch.
                        name: u16::try_from(name * 30 + dice.random_in(0..30)).unwrap(),
                        session: 1,
                        kilobytes: u8::try_from(dice.random_in(0..6)).unwrap(),
                    };
                    let (owner, change) = turn.change(&bench.names, number);
                    batch.add(&owner, number, change);
                }
                bench.write(&batch, 40_000, 2).await;
                let (listed, position) = bench.names.list(&crate::Query::all(), None, usize::MAX);
                history.insert(position, listed);
                bench.env.sleep(Duration::from_millis(1)).await;
            }
            for loaded in reading.await.unwrap() {
                let expected = history.get(&loaded.position).cloned().unwrap_or_default();
                assert_eq!(loaded.entries.into_values().collect::<Vec<_>>(), expected, "at {}", loaded.position);
            }
        });
    }
}
