//! Elections as their users see them, on simulated time.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fleet::Fleet;
use tenure_cluster::{Callbacks, Cause, ClusterError, Leadership, Role, Term, TermEnd};
use tenure_store::{Commit, CommitError, Key, Store as _};

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_next_follows_a_resignation_at_once() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let office = |seat: &fleet::Seat| seat.cluster.election("e").unwrap();
    let first = office(&a).campaign().await.unwrap();
    assert_eq!(first.term(), Term(1));
    assert!(office(&b).try_campaign().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let office = office(&b);
        async move { office.campaign().await.unwrap() }
    });
    fleet.sleep(31).await;
    assert!(!waiting.is_finished());
    let before = fleet.env.now();
    first.resign().await.unwrap();
    let second = fleet.soon("the successor", 1, waiting).await.unwrap();
    assert_eq!((second.term(), fleet.env.now() - before), (Term(2), Duration::ZERO));
    fleet.sleep(60).await;
    assert!(
        (11..=14).contains(&second.renewals()),
        "they count from the start of the term: {}",
        second.renewals()
    );
    let led = office(&a).leader().await.unwrap();
    assert_eq!(led.leader.unwrap().node.as_str(), "b");
    let history = office(&a).history().await.unwrap();
    assert_eq!((history[0].term, history[0].end), (Term(1), TermEnd::Resigned));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_leadership_resigns() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let office = a.cluster.election("e").unwrap();
    drop(office.campaign().await.unwrap());
    let again = fleet.soon("to win again", 1, office.campaign()).await.unwrap();
    assert_eq!(again.term(), Term(2));
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_process_never_hold_one_office() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    let office = a.cluster.election("e").unwrap();
    let first = office.campaign().await.unwrap();
    assert!(office.try_campaign().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let office = office.clone();
        async move { office.campaign().await.unwrap() }
    });
    fleet.sleep(60).await;
    assert!(!waiting.is_finished());
    first.resign().await.unwrap();
    assert_eq!(fleet.soon("the other task", 1, waiting).await.unwrap().term(), Term(2));
}

#[tokio::test(start_paused = true)]
async fn candidates_are_served_by_priority_then_arrival() {
    let fleet = Fleet::new();
    let leader = fleet.join("leader").await;
    let held = leader.cluster.election("e").unwrap().campaign().await.unwrap();
    let won = Arc::new(Mutex::new(Vec::new()));
    let mut seats = Vec::new();
    let mut tasks = Vec::new();
    for (node, priority) in [("c", 0), ("d", 0), ("urgent", 5), ("late", -1), ("e", 0)] {
        let seat = fleet.join(node).await;
        let (office, won) = (seat.cluster.election("e").unwrap(), Arc::clone(&won));
        tasks.push(tokio::spawn(async move {
            let leadership = office.campaign_with(priority).await.unwrap();
            won.lock().unwrap().push((node, leadership.term().0));
            leadership.resign().await.unwrap();
        }));
        seats.push(seat);
        fleet.sleep(1).await;
    }
    held.resign().await.unwrap();
    for task in tasks {
        fleet.soon("everybody's turn", 5, task).await.unwrap();
    }
    assert_eq!(*won.lock().unwrap(), [("urgent", 2), ("c", 3), ("d", 4), ("e", 5), ("late", 6)]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_within_its_ttl_and_a_margin() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let guard = first.guard();
    let office = b.cluster.election("e").unwrap();
    let waiting = tokio::spawn(async move { office.campaign().await.unwrap() });
    fleet.sleep(20).await;
    let death = fleet.env.now();
    a.gate.kill();
    let second = fleet.soon("a successor", 30, waiting).await.unwrap();
    let gap = fleet.env.now() - death;
    assert!(gap > Duration::from_secs(10) && gap < Duration::from_secs(20), "{gap:?}");
    assert_eq!(second.term(), Term(2));
    let late = Commit { checks: guard, writes: vec![] }.set(Key::from("k"), "v");
    assert!(matches!(fleet.store.commit(late).await, Err(CommitError::Conflict(_))));
    fleet.store.commit(second.guarded(Commit::new().set(Key::from("k"), "v"))).await.unwrap();
    let history = b.cluster.election("e").unwrap().history().await.unwrap();
    assert_eq!(history[0].end, TermEnd::SessionEnded(Some(Cause::Expired)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_stops_before_another_starts() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let office = b.cluster.election("e").unwrap();
    let waiting = tokio::spawn(async move { office.campaign().await.unwrap() });
    fleet.sleep(20).await;
    a.link.cut();
    fleet.soon("the loss", 15, first.lost()).await;
    assert!(first.remaining().is_zero() && !waiting.is_finished());
    let second = fleet.soon("a successor", 10, waiting).await.unwrap();
    a.link.heal();
    fleet.sleep(30).await;
    assert!(first.remaining().is_zero());
    drop(first);
    fleet.sleep(60).await;
    assert_eq!(a.cluster.election("e").unwrap().leader().await.unwrap().term, Some(second.term()));
    assert!(!second.remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn an_outage_for_all_ends_no_term() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let office = a.cluster.election("e").unwrap();
    let first = office.campaign().await.unwrap();
    let session = a.cluster.session().id();
    let other = b.cluster.election("e").unwrap();
    let waiting = tokio::spawn(async move { other.campaign().await.unwrap() });
    fleet.sleep(20).await;
    a.link.cut();
    b.link.cut();
    fleet.soon("the loss", 15, first.lost()).await;
    drop(first);
    fleet.sleep(600).await;
    a.link.heal();
    b.link.heal();
    let again = fleet.soon("to go on", 20, office.campaign()).await.unwrap();
    assert_eq!((again.term(), again.session().id()), (Term(1), session));
    assert!(!waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_term_that_nobody_takes_up_again_after_an_outage_is_given_up() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let other = b.cluster.election("e").unwrap();
    let waiting = tokio::spawn(async move { other.campaign().await.unwrap() });
    fleet.sleep(20).await;
    a.link.cut();
    b.link.cut();
    fleet.soon("the loss", 15, first.lost()).await;
    // On a thread without a runtime, as it may happen to anybody.
    std::thread::spawn(move || drop(first)).join().unwrap();
    a.link.heal();
    b.link.heal();
    assert_eq!(fleet.soon("another", 60, waiting).await.unwrap().term(), Term(2));
}

#[tokio::test(start_paused = true)]
async fn a_leader_hands_over_to_a_candidate_and_to_nobody_else() {
    let fleet = Fleet::new();
    let (a, b, c) = (fleet.join("a").await, fleet.join("b").await, fleet.join("c").await);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let stand = |seat: &fleet::Seat| {
        let office = seat.cluster.election("e").unwrap();
        tokio::spawn(async move { office.campaign().await.unwrap() })
    };
    let (_waiting, named) = (stand(&b), stand(&c));
    fleet.sleep(1).await;
    let (error, first) = first.hand_over(&"nobody".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, ClusterError::NoCandidate { .. }), "{error}");
    let first = first.unwrap();
    assert!(!first.remaining().is_zero());
    first.hand_over(&"c".parse().unwrap()).await.unwrap();
    let second = fleet.soon("the named one", 1, named).await.unwrap();
    assert_eq!(second.term(), Term(2));
    let history = b.cluster.election("e").unwrap().history().await.unwrap();
    assert_eq!(history[0].end, TermEnd::HandedOver);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_is_told_and_fenced() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let holder = b.cluster.election("e").unwrap().depose().await.unwrap().unwrap();
    assert_eq!(holder.node.as_str(), "a");
    fleet.soon("the loss", 1, first.lost()).await;
    assert!(first.remaining().is_zero());
    assert!(matches!(first.publish("x").await, Err(ClusterError::Fenced(_))));
    let second = fleet.soon("the next", 1, b.cluster.election("e").unwrap().campaign()).await.unwrap();
    drop(first);
    fleet.sleep(60).await;
    assert_eq!((second.term(), second.remaining().is_zero()), (Term(2), false));
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_is_dropped_leaves_the_queue() {
    let fleet = Fleet::new();
    let (a, b, c) = (fleet.join("a").await, fleet.join("b").await, fleet.join("c").await);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let stand = |seat: &fleet::Seat| {
        let office = seat.cluster.election("e").unwrap();
        tokio::spawn(async move { office.campaign().await.unwrap() })
    };
    let dropped = stand(&b);
    fleet.sleep(1).await;
    let stays = stand(&c);
    fleet.sleep(1).await;
    dropped.abort();
    fleet.sleep(1).await;
    first.resign().await.unwrap();
    assert_eq!(fleet.soon("the other", 1, stays).await.unwrap().term(), Term(2));
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_who_leads_what_they_publish_and_that_nobody_does() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let mut observation = b.cluster.election("e").unwrap().observe();
    assert_eq!(observation.next().await.unwrap().term, None);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let led = fleet.soon("the leader", 1, observation.next()).await.unwrap();
    assert_eq!((led.term, led.leader.unwrap().node.as_str()), (Some(Term(1)), "a"));
    first.publish("here").await.unwrap();
    let led = fleet.soon("the payload", 1, observation.next()).await.unwrap();
    assert_eq!(led.payload.unwrap(), "here");
    // Renewals are counted, and wake nobody.
    assert!(fleet.env.timeout(Duration::from_secs(52), observation.next()).await.is_err());
    let renewals = b.cluster.election("e").unwrap().leader().await.unwrap().renewals;
    assert!((10..=12).contains(&renewals) && first.renewals() == renewals, "{renewals}");
    a.gate.kill();
    let led = fleet.soon("the end", 30, observation.next()).await.unwrap();
    assert_eq!((led.term, led.leader, led.payload), (Some(Term(1)), None, None));
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Callbacks for Log {
    fn on_elected(&self, leadership: &Arc<Leadership>) {
        self.0.lock().unwrap().push(format!("+{}", leadership.term()));
    }

    fn on_deposed(&self, leadership: &Arc<Leadership>) {
        self.0.lock().unwrap().push(format!("-{}", leadership.term()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_participant_is_told_of_each_rise_and_fall_once() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let (ours, theirs) = (Arc::new(Log::default()), Arc::new(Log::default()));
    let first = a.cluster.election("e").unwrap().participate(0, Role::Candidate, Arc::<Log>::clone(&ours));
    fleet.sleep(1).await;
    let _second =
        b.cluster.election("e").unwrap().participate(0, Role::Candidate, Arc::<Log>::clone(&theirs));
    fleet.sleep(1).await;
    first.set_role(Role::Observer);
    fleet.sleep(1).await;
    assert!(first.leadership().is_none());
    b.link.cut();
    fleet.sleep(60).await;
    assert!(first.leadership().is_none(), "an observer never stands");
    first.set_role(Role::Candidate);
    fleet.sleep(60).await;
    b.link.heal();
    fleet.sleep(60).await;
    assert_eq!(*ours.0.lock().unwrap(), ["+1", "-1", "+3"]);
    assert_eq!(*theirs.0.lock().unwrap(), ["+2", "-2"]);
    assert_eq!(first.leadership().unwrap().term(), Term(3));
}

#[tokio::test(start_paused = true)]
async fn leaving_gives_everything_up_at_once() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let first = a.cluster.election("e").unwrap().campaign().await.unwrap();
    let office = b.cluster.election("e").unwrap();
    let waiting = tokio::spawn(async move { office.campaign().await.unwrap() });
    fleet.sleep(1).await;
    a.cluster.leave().await;
    assert!(first.remaining().is_zero());
    assert_eq!(fleet.soon("the next", 1, waiting).await.unwrap().term(), Term(2));
    assert!(matches!(a.cluster.election("e").unwrap().campaign().await, Err(ClusterError::Left)));
}
