//! [`Feed`]: everything that the page shows, and whatever becomes of it.
//!
//! One task looks at the cluster for all who follow, and only while somebody does: at members every second, for their heartbeats; at elections when one changes hands; at
//! all else every few seconds. The more there is to look at, the longer it rests. Whoever begins is told everything, and from then on what differs: a row that is another, or of a
//! heartbeat no more than its time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tenure::{
    cluster::Onlooker,
    registry::RegistryView,
    server::Survey as _,
    store::{Moment, Name, StoreError},
};
use tokio::sync::{Notify, broadcast};

use super::{
    past::{Happened, RECENT_MAX, leads, past},
    registries::Registries,
    streams::{Teller, told},
};
use crate::views::{Election, Kind, Member, Registry, Server, State, millis};

/// The least time between two looks.
const REST_MIN: Duration = Duration::from_millis(100);

/// The most, if nothing wakes.
const REST_MAX: Duration = Duration::from_secs(1);

/// How often servers and registries are looked at, and elections of which nothing was heard: who waits, and when leases were renewed.
const SLOW: Duration = Duration::from_secs(2);

/// How many rows one event has at most.
const ROWS: usize = 500;

/// How many kinds of servers are told of.
const KINDS_MAX: usize = 1000;

/// How many servers of a kind are told of.
const SERVERS_MAX: usize = 1000;

/// How much somebody may be behind before it has to begin anew.
const BEHIND_MAX: usize = 1024;

/// An event of the stream.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) event: &'static str,
    pub(crate) data: Arc<str>,
}

/// What something happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    Member,
    Election,
    Server,
    Registry,
    Operator,
}

/// What the page shows.
#[derive(Debug)]
pub(crate) struct Feed {
    look: Onlooker,
    registries: Arc<Registries>,
    seen: Mutex<Picture>,
    /// What happened lately, the newest last.
    recent: Mutex<VecDeque<Happened>>,
    tell: broadcast::Sender<Told>,
    wanted: Notify,
}

/// Rows by their names. What was not looked at again is shared with the picture before.
type Rows<T, K = String> = Arc<BTreeMap<K, T>>;

/// Everything, as of the last look.
#[derive(Clone, Debug, Default)]
struct Picture {
    /// Whether there was a look.
    complete: bool,
    members: Rows<Member>,
    elections: Rows<Election>,
    kinds: Rows<Kind>,
    servers: Rows<Server, (String, String)>,
    registries: Rows<Registry>,
}

/// What is looked at, beside members.
#[derive(Clone, Copy, Debug)]
struct Wish {
    elections: bool,
    /// Servers and registries.
    rest: bool,
}

impl Feed {
    /// A feed, and the task that keeps it.
    pub(crate) fn start(look: Onlooker, registries: Arc<Registries>) -> Arc<Self> {
        let feed = Arc::new(Self {
            look,
            registries,
            seen: Mutex::default(),
            recent: Mutex::default(),
            tell: broadcast::Sender::new(BEHIND_MAX),
            wanted: Notify::new(),
        });
        tokio::spawn(run(Arc::clone(&feed)));
        feed
    }

    /// Tells everything, then what becomes of it, until nobody listens or it is too slow.
    pub(crate) async fn follow(self: Arc<Self>, teller: Teller) {
        let mut changes = self.tell.subscribe();
        self.wanted.notify_one();
        // Under one lock: what is told afterwards is what differs from this.
        let (picture, recent) = loop {
            {
                let seen = self.seen.lock();
                if seen.complete {
                    let recent = self.recent.lock();
                    changes = self.tell.subscribe();
                    break (seen.clone(), recent.iter().map(Happened::told).collect::<Vec<_>>());
                }
            }
            if changes.recv().await.is_err() {
                return;
            }
        };
        for event in differences(&Picture::default(), &picture).into_iter().chain(recent) {
            if !teller.tell(&event).await {
                return;
            }
        }
        if !teller.tell(&told("ready", &json!({}))).await {
            return;
        }
        while let Ok(change) = changes.recv().await {
            if !teller.tell(&change).await {
                return;
            }
        }
    }

    /// Tells that something happened.
    pub(crate) fn happened(&self, sort: Sort, subject: &Name, text: String) {
        tracing::info!(?sort, %subject, text, "happened");
        self.remember(Happened { at_ms: self.now(), sort, subject: subject.to_string(), text });
    }

    fn now(&self) -> u64 {
        millis(self.look.env().unix_time())
    }

    fn say(&self, told: Told) {
        // Nobody may listen.
        let _ = self.tell.send(told);
    }

    /// Tells what happened, and keeps it for those who come later. Under one lock: nobody who begins meanwhile misses it, or hears it twice.
    fn remember(&self, happened: Happened) {
        let mut recent = self.recent.lock();
        self.say(happened.told());
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(happened);
    }

    async fn look(&self, wish: Wish) -> Result<(), StoreError> {
        let before = self.seen.lock().clone();
        let mut next = before.clone();
        let members = self.look.members().list().await?.into_iter().map(Member::from);
        next.members = Arc::new(members.map(|member| (member.node.clone(), member)).collect());
        let mut earlier = Vec::new();
        if wish.elections || !before.complete {
            let elections = self.look.elections(None, usize::MAX).await?;
            let rows = elections.iter().map(|seen| (seen.name.to_string(), Election::from(seen)));
            next.elections = Arc::new(rows.collect());
            if !before.complete {
                earlier = past(&elections, next.members.values());
            }
        }
        if wish.rest {
            self.look_at_servers(&mut next).await?;
            self.look_at_registries(&mut next).await?;
        }
        next.complete = true;
        let news = if before.complete { news(&before, &next, self.now()) } else { Vec::new() };
        let differences = differences(&before, &next);
        let mut seen = self.seen.lock();
        *seen = next;
        differences.into_iter().for_each(|event| self.say(event));
        news.into_iter().for_each(|happened| self.remember(happened));
        if !before.complete {
            self.recall(earlier);
            self.say(told("ready", &json!({})));
        }
        Ok(())
    }

    /// Nobody looked for a while: what members and elections tell of that time takes the place of what was seen of them.
    fn recall(&self, mut earlier: Vec<Happened>) {
        let mut recent = self.recent.lock();
        earlier.extend(recent.drain(..).filter(|one| !matches!(one.sort, Sort::Member | Sort::Election)));
        earlier.sort_by_key(|one| one.at_ms);
        let old = earlier.len().saturating_sub(RECENT_MAX);
        recent.extend(earlier.drain(old..));
    }

    async fn look_at_servers(&self, next: &mut Picture) -> Result<(), StoreError> {
        let (mut kinds, mut servers) = (BTreeMap::new(), BTreeMap::new());
        for kind in self.look.kinds(None, KINDS_MAX).await? {
            for seen in self.look.servers(&kind.kind, None, SERVERS_MAX).await? {
                let server = Server::new(&kind.kind, seen);
                servers.insert((server.kind.clone(), server.id.clone()), server);
            }
            kinds.insert(kind.kind.to_string(), Kind::read(&self.look, kind).await?);
        }
        next.servers = Arc::new(servers);
        next.kinds = Arc::new(kinds);
        Ok(())
    }

    async fn look_at_registries(&self, next: &mut Picture) -> Result<(), StoreError> {
        let mut registries = BTreeMap::new();
        for name in RegistryView::all(&self.look).await? {
            let view = self.registries.view(&name);
            let led = view.refresh().await?;
            registries.insert(name.to_string(), Registry::new(&view, &led));
        }
        next.registries = Arc::new(registries);
        Ok(())
    }
}

/// Looks, for as long as somebody listens.
async fn run(feed: Arc<Feed>) {
    let [mut offices, mut sessions] = feed.look.watch_elections();
    let env = feed.look.env().clone();
    let mut slow_at: Option<Moment> = None;
    let mut woken = true;
    loop {
        if feed.tell.receiver_count() == 0 {
            // What is old by then must not be taken for what is.
            feed.seen.lock().complete = false;
            slow_at = None;
            feed.wanted.notified().await;
        }
        let begun = env.now();
        let slow = slow_at.is_none_or(|at| at <= begun);
        match feed.look(Wish { elections: woken || slow, rest: slow }).await {
            Ok(()) => woken = false,
            Err(error) => tracing::debug!(%error, "the cluster can't be looked at: it is tried again"),
        }
        let took = env.now() - begun;
        if slow {
            slow_at = Some(env.now().after(SLOW.max(took * 10)));
        }
        env.sleep((took * 2).clamp(REST_MIN, REST_MAX)).await;
        woken |= tokio::select! {
            () = offices.changed() => true,
            () = sessions.changed() => true,
            () = env.sleep(REST_MAX.saturating_sub(took)) => false,
        };
    }
}

/// What makes one picture into another.
fn differences(before: &Picture, after: &Picture) -> Vec<Told> {
    let mut told = Vec::new();
    rows("members", &before.members, &after.members, Member::differs_by_beat, &mut told);
    rows("elections", &before.elections, &after.elections, Election::differs_by_beat, &mut told);
    rows("kinds", &before.kinds, &after.kinds, |_, _| false, &mut told);
    rows("servers", &before.servers, &after.servers, |_, _| false, &mut told);
    rows("registries", &before.registries, &after.registries, |_, _| false, &mut told);
    beats(before, after, &mut told);
    told
}

/// Rows that are others, but for those that `small` says differ too little, and rows that are gone.
fn rows<K: Ord + Serialize, T: PartialEq + Serialize>(
    event: &'static str,
    before: &Rows<T, K>,
    after: &Rows<T, K>,
    small: fn(&T, &T) -> bool,
    events: &mut Vec<Told>,
) {
    if Arc::ptr_eq(before, after) {
        return;
    }
    let other = |(key, row): &(&K, &T)| before.get(key).is_none_or(|old| old != *row && !small(old, row));
    let set: Vec<&T> = after.iter().filter(other).map(|(_, row)| row).collect();
    let gone: Vec<&K> = before.keys().filter(|key| !after.contains_key(key)).collect();
    for set in set.chunks(ROWS) {
        events.push(told(event, &json!({ "set": set, "gone": [] })));
    }
    for gone in gone.chunks(ROWS) {
        events.push(told(event, &json!({ "set": [], "gone": gone })));
    }
}

/// Heartbeats, in as few bytes as they need: there are more of them than of all else. Those of a leader that is a member are the member's.
fn beats(before: &Picture, after: &Picture, events: &mut Vec<Told>) {
    let members = after.members.iter().filter_map(|(node, new)| {
        let old = before.members.get(node)?;
        (old.last_seen_ms != new.last_seen_ms && Member::differs_by_beat(old, new))
            .then(|| json!([node, new.last_seen_ms, new.renewals]))
    });
    let members: Vec<_> = members.collect();
    for members in members.chunks(ROWS) {
        events.push(told("beats", &json!({ "members": members })));
    }
    if Arc::ptr_eq(&before.elections, &after.elections) {
        return;
    }
    let elections = after.elections.iter().filter_map(|(name, new)| {
        let old = before.elections.get(name)?;
        let leased = new.leader.as_ref().is_some_and(|leader| leader.lease);
        (leased && old.last_seen_ms != new.last_seen_ms && Election::differs_by_beat(old, new))
            .then(|| json!([name, new.last_seen_ms]))
    });
    let elections: Vec<_> = elections.collect();
    for elections in elections.chunks(ROWS) {
        events.push(told("beats", &json!({ "elections": elections })));
    }
}

/// What happened between two looks, in words.
fn news(before: &Picture, after: &Picture, at_ms: u64) -> Vec<Happened> {
    let mut told = Vec::new();
    let mut tell = |sort, subject: &str, text: String| {
        told.push(Happened { at_ms, sort, subject: subject.to_owned(), text });
    };
    let nodes: BTreeSet<&String> = before.members.keys().chain(after.members.keys()).collect();
    for node in nodes {
        match (before.members.get(node), after.members.get(node)) {
            (Some(old), Some(new)) if old.session == new.session && old.state == new.state => {}
            (Some(old), Some(new)) if old.session == new.session && new.state == State::Live => {
                if old.state == State::Suspect {
                    tell(Sort::Member, node, "is back".to_owned());
                }
            }
            (_, Some(new)) => tell(Sort::Member, node, new.in_words()),
            (_, None) => tell(Sort::Member, node, "is forgotten".to_owned()),
        }
    }
    for (name, new) in &*after.elections {
        let old = before.elections.get(name);
        if old.is_some_and(|old| old.term == new.term && old.leader == new.leader) {
            continue;
        }
        let text = match (&new.leader, old.and_then(|old| old.leader.as_ref())) {
            (Some(leader), _) => leads(&leader.node, new.term),
            (None, Some(was)) => format!("{} leads no longer; nobody does", was.node),
            (None, None) => format!("nobody leads, after term {}", new.term),
        };
        tell(Sort::Election, name, text);
    }
    for (key, new) in &*after.servers {
        let died = before.servers.get(key).map_or(new.died, |old| old.died);
        if new.died > died {
            tell(Sort::Server, &new.id, format!("{} more dead letters", new.died - died));
        }
    }
    for (name, new) in &*after.registries {
        if before.registries.get(name).is_some_and(|old| old.epoch != new.epoch) {
            let leader = new.leader.as_deref().unwrap_or("nobody");
            tell(Sort::Registry, name, format!("{leader} leads it in epoch {}", new.epoch));
        }
    }
    told
}
