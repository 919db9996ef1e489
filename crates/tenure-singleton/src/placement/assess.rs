//! [`Ledger`]: what a census means, and what the placer remembers of what it has decided.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tenure_cluster::SessionId;
use tenure_store::{Moment, Name};

use super::{
    census::Census,
    plan::{NodeIndex, Place, Plan, Spot, Work, plan},
    record::{Heir, Post},
};

/// What a placer remembers. A new placer knows nothing of it, and does without.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Who is to take a singleton and has not yet, since when that is known.
    waiting: BTreeMap<Name, (SessionId, Moment)>,
    /// Who did not take it, until when it is not asked again.
    barred: BTreeMap<(Name, SessionId), Moment>,
    /// When moves were begun, the latest last.
    begun: VecDeque<Moment>,
    /// Which singletons nobody may run, so that each is told of once.
    homeless: BTreeSet<Name>,
}

/// How patient a placer is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long a node has to take what it was given.
    pub(crate) patience: Duration,
    /// How long it is not asked again, if it did not.
    pub(crate) barred: Duration,
    /// How many moves may be begun in one interval, and be under way at once.
    pub(crate) moves: usize,
    pub(crate) interval: Duration,
}

/// What all nodes are to run.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) posts: BTreeMap<SessionId, BTreeMap<Name, Post>>,
    /// When to decide again though nothing has changed.
    pub(crate) again: Option<Moment>,
}

impl Ledger {
    /// Decides who is to run what.
    pub(crate) fn decide(&mut self, census: &Census, pace: Pace, now: Moment) -> Decision {
        let mut nodes: Vec<SessionId> = census.nodes.keys().copied().collect();
        nodes.sort_by_key(|session| &census.nodes[session].node);
        let places: Vec<Place> = nodes
            .iter()
            .map(|session| &census.nodes[session])
            .map(|seen| Place { capacity: seen.capacity, ready: seen.ready })
            .collect();
        let mut works = works(census, &nodes);
        self.barred.retain(|_, until| *until > now);
        self.waiting.retain(|name, _| works.contains_key(name));
        for (name, work) in &mut works {
            self.review(name, work, &nodes, pace, now);
        }
        let under_way = works.values().filter(|work| matches!(work.spot, Spot::Moving(..))).count();
        while self.begun.front().is_some_and(|begun| begun.after(pace.interval) <= now) {
            self.begun.pop_front();
        }
        let moves = pace.moves.saturating_sub(under_way.max(self.begun.len()));
        let Plan { moves, more } = plan(&places, &mut works, moves);
        self.begun.extend(std::iter::repeat_n(now, moves));
        metrics::counter!("tenure_placement_moves_total").increment(moves as u64);
        // With moves still under way, the end of one of them is what is waited for.
        let turn = self.begun.front().filter(|_| more).map(|begun| begun.after(pace.interval));
        self.tell_homeless(&works);
        let posts = posts(census, &nodes, &works);
        for (name, work) in &works {
            self.await_target(name, work, &nodes, now);
        }
        let overdue = self.waiting.values().map(|(_, since)| since.after(pace.patience)).min();
        Decision { posts, again: [turn, overdue].into_iter().flatten().min() }
    }

    /// Gives up on a node that has not taken this for too long.
    fn review(&mut self, name: &Name, work: &mut Work, nodes: &[SessionId], pace: Pace, now: Moment) {
        if let Some((session, since)) = self.waiting.get(name)
            && target(work.spot).is_some_and(|node| nodes[node] == *session)
            && since.after(pace.patience) <= now
        {
            tracing::warn!(singleton = %name, %session, "a node has not taken what it was given: another is tried");
            self.barred.insert((name.clone(), *session), now.after(pace.barred));
            self.waiting.remove(name);
            work.spot = match work.spot {
                Spot::Moving(from, _) => Spot::Runs(from),
                _ => Spot::Nowhere,
            };
        }
        let barred = |node: &usize| self.barred.contains_key(&(name.clone(), nodes[*node]));
        if !self.barred.is_empty() {
            work.avoid = work.fit.iter().copied().filter(barred).collect();
        }
    }

    /// Remembers since when somebody is to take this.
    fn await_target(&mut self, name: &Name, work: &Work, nodes: &[SessionId], now: Moment) {
        let Some(session) = target(work.spot).map(|node| nodes[node]) else {
            self.waiting.remove(name);
            return;
        };
        if self.waiting.get(name).is_none_or(|(known, _)| *known != session) {
            self.waiting.insert(name.clone(), (session, now));
        }
    }

    fn tell_homeless(&mut self, works: &BTreeMap<Name, Work>) {
        let homeless = works.iter().filter(|(_, work)| work.spot == Spot::Nowhere);
        let homeless: BTreeSet<Name> = homeless.map(|(name, _)| name.clone()).collect();
        for name in homeless.difference(&self.homeless) {
            tracing::warn!(
                singleton = %name,
                "no node may run it, so it does not run: start a node with the labels that it asks for"
            );
        }
        #[allow(clippy::cast_precision_loss, reason = "a gauge is approximate")]
        metrics::gauge!("tenure_placement_homeless").set(homeless.len() as f64);
        self.homeless = homeless;
    }
}

/// Who is to take it.
fn target(spot: Spot) -> Option<NodeIndex> {
    match spot {
        Spot::Given(node) | Spot::Moving(_, node) => Some(node),
        Spot::Nowhere | Spot::Runs(_) => None,
    }
}

/// All singletons that any node knows, and where they are.
pub(crate) fn works(census: &Census, nodes: &[SessionId]) -> BTreeMap<Name, Work> {
    let mut works: BTreeMap<Name, Work> = BTreeMap::new();
    let new = || Work { load: 0, fit: BTreeSet::new(), avoid: BTreeSet::new(), spot: Spot::Nowhere };
    let seen = || nodes.iter().map(|session| &census.nodes[session]).enumerate();
    for (node, seen) in seen() {
        for (name, offer) in seen.offers.iter() {
            let work = works.entry(name.clone()).or_insert_with(new);
            // Nodes of different releases may differ in this.
            work.load = work.load.max(offer.load);
            if offer.fit {
                work.fit.insert(node);
            }
        }
    }
    let mut terms: BTreeMap<&Name, u64> = BTreeMap::new();
    for (node, seen) in seen() {
        for (name, run) in seen.runs.iter() {
            let work = works.entry(name.clone()).or_insert_with(new);
            // One that has just handed it over may not have told so yet: the later term is right.
            let term = terms.entry(name).or_default();
            if work.spot == Spot::Nowhere || run.term > *term {
                (*term, work.spot) = (run.term, Spot::Runs(node));
            }
        }
    }
    let index: BTreeMap<SessionId, NodeIndex> = nodes.iter().copied().zip(0..).collect();
    for (node, seen) in seen() {
        for (name, post) in seen.posts.iter() {
            let Some(work) = works.get_mut(name) else { continue };
            work.spot = match (work.spot, &post.heir) {
                (Spot::Nowhere, None) if work.fit.contains(&node) => Spot::Given(node),
                (Spot::Runs(from), Some(heir)) if from == node => {
                    let to = index.get(&heir.session).copied();
                    let to = to.filter(|to| *to != node && work.fit.contains(to));
                    to.map_or(Spot::Runs(from), |to| Spot::Moving(from, to))
                }
                (spot, _) => spot,
            };
        }
    }
    // What nobody offers any more, and somebody still runs, counts like any other.
    works.values_mut().for_each(|work| work.load = work.load.max(1));
    works
}

/// What each node is to be told.
fn posts(
    census: &Census,
    nodes: &[SessionId],
    works: &BTreeMap<Name, Work>,
) -> BTreeMap<SessionId, BTreeMap<Name, Post>> {
    let mut posts: BTreeMap<_, BTreeMap<Name, Post>> =
        nodes.iter().map(|session| (*session, BTreeMap::new())).collect();
    let mut tell = |node: NodeIndex, name: &Name, post: Post| {
        posts.entry(nodes[node]).or_default().insert(name.clone(), post);
    };
    for (name, work) in works {
        if let Some(node) = work.spot.bearer() {
            tell(node, name, Post::default());
        }
        if let Spot::Moving(from, to) = work.spot {
            let session = nodes[to];
            let heir = Heir { node: census.nodes[&session].node.clone(), session };
            tell(from, name, Post { heir: Some(heir) });
        }
    }
    posts
}
