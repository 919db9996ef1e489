//! A conformance test for oracles.
//!
//! ```text
//! let conduct = Conduct { lease: Some(Duration::from_secs(2)), ..Conduct::default() };
//! conforms(&conduct, |name| async move { Box::new(MyOracle::new(name)) as Box<dyn Oracle> }).await;
//! ```
//!
//! | checked | by |
//! | --- | --- |
//! | the first claim is granted, a rival's is not, the holder's own is granted again | [`one_holds`] |
//! | a refresh makes a grant longer | [`refresh_extends`] |
//! | what is given up is free at once, and only its holder can give it up | [`only_the_holder_gives_up`] |
//! | what is not refreshed is free after its validity, never before, and then not its holder's | [`time_ends_it`] |
//! | terms grow with each change of holder | [`terms_grow`] |
//! | of many who claim at once, one is granted | [`one_of_many`] |
//! | claims that were dropped half-way block nobody for good | [`dropped_claims_pass`] |
//! | an oracle that is told from elsewhere says so again and again | [`repeats_itself`] |
//!
//! All of them panic with what they found. They take real time where the oracle does: a few leases each.

use std::{future::Future, time::Duration};

use tenure_store::{Env, Moment};

use super::{Answer, Grant, Oracle, Validity};

/// How an oracle conducts itself.
#[derive(Clone, Debug)]
pub struct Conduct {
    /// How long a lease lasts, from its last refresh; `None` for what ends by a signal alone.
    pub lease: Option<Duration>,
    /// How much later than its lease something may become free: for clocks that count in seconds, and for polls.
    pub slack: Duration,
    /// Whether what is given up is free at once.
    pub frees: bool,
    /// How many claim at once.
    pub rivals: usize,
    /// Time and dice.
    pub env: Env,
}

impl Default for Conduct {
    fn default() -> Self {
        Self { lease: None, slack: Duration::from_secs(2), frees: true, rivals: 12, env: Env::system() }
    }
}

/// How long an answer may take, with or without a lease. A server may have to be connected to first.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before a question is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs all checks. `make` makes a candidate for what has this name; all of one name are rivals.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn conforms<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    one_holds(conduct, &make).await;
    refresh_extends(conduct, &make).await;
    only_the_holder_gives_up(conduct, &make).await;
    time_ends_it(conduct, &make).await;
    terms_grow(conduct, &make).await;
    one_of_many(conduct, &make).await;
    dropped_claims_pass(conduct, &make).await;
}

/// The first claim is granted, a rival's is not, the holder's own is granted again.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn one_holds<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    let name = conduct.name("one holds");
    let (mut first, mut rival) = (make(name.clone()).await, make(name).await);
    conduct.wins(&mut first, "the first claim").await;
    conduct.is_refused(&mut rival, "a rival's claim").await;
    conduct.wins_now(&mut first, "the holder's claim").await;
    conduct.is_refused(&mut rival, "a rival's claim").await;
    conduct.gives_up(&mut first).await;
}

/// A refresh makes a grant longer.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn refresh_extends<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    let name = conduct.name("refresh extends");
    let (mut holder, mut rival) = (make(name.clone()).await, make(name).await);
    let (_, won) = conduct.wins(&mut holder, "the first claim").await;
    let step = conduct.lease.unwrap_or(PAUSE) / 2;
    for _ in 0..4 {
        conduct.env.sleep(step).await;
        let (_, kept) = conduct.keeps(&mut holder, "a refresh in time").await;
        assert_eq!(kept.term, won.term, "a refresh must not change the term");
        conduct.is_refused(&mut rival, "a rival's claim after a refresh").await;
    }
    conduct.gives_up(&mut holder).await;
}

/// What is given up is free at once, and only its holder can give it up.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn only_the_holder_gives_up<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    let name = conduct.name("only the holder gives up");
    let (mut holder, mut rival) = (make(name.clone()).await, make(name).await);
    conduct.gives_up(&mut rival).await;
    conduct.wins(&mut holder, "the first claim").await;
    conduct.gives_up(&mut rival).await;
    conduct.is_refused(&mut rival, "a claim after a rival gave up what it did not have").await;
    conduct.gives_up(&mut rival).await;
    conduct.keeps(&mut holder, "a refresh after a rival gave up what it did not have").await;
    conduct.gives_up(&mut holder).await;
    if conduct.frees {
        conduct.wins_now(&mut rival, "a claim after the holder gave up").await;
        assert!(!is_granted(&conduct.ask(holder.refresh()).await), "what was given up was refreshed");
        // Twice is not once more: it is another's now.
        conduct.gives_up(&mut holder).await;
        conduct.keeps(&mut rival, "a refresh after the holder before gave up once more").await;
        conduct.gives_up(&mut rival).await;
    }
}

/// What is not refreshed is free some time after its validity, never before, and not its holder's any more.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn time_ends_it<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    let Some(lease) = conduct.lease else { return };
    let name = conduct.name("time ends it");
    let (mut late, mut rival) = (make(name.clone()).await, make(name).await);
    let (asked, grant) = conduct.wins(&mut late, "the first claim").await;
    let end = valid_until(asked, &grant);
    let most = asked.after(lease + conduct.slack);
    loop {
        let answer = conduct.ask(rival.claim()).await;
        let now = conduct.env.now();
        if is_granted(&answer) {
            let early = end - now;
            assert!(early.is_zero(), "a rival was granted what was valid for another {early:?}");
            break;
        }
        assert!(now <= most, "nobody refreshed it for {:?}, and it is not free: {answer:?}", now - asked);
        conduct.env.sleep(PAUSE).await;
    }
    let answer = conduct.ask(late.refresh()).await;
    assert!(!is_granted(&answer), "what a rival has was refreshed: {answer:?}");
    conduct.is_refused(&mut late, "a claim to what a rival has").await;
    conduct.gives_up(&mut late).await;
    conduct.keeps(&mut rival, "a refresh after the holder before gave up late").await;
    conduct.gives_up(&mut rival).await;
}

/// Terms grow with each change of holder, if there are any.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn terms_grow<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    let name = conduct.name("terms grow");
    let mut last: Option<Option<u64>> = None;
    let mut oracles = [make(name.clone()).await, make(name.clone()).await, make(name).await];
    let rounds = if conduct.frees { 12 } else { 2 };
    for round in 0..rounds {
        let oracle = &mut oracles[round % 3];
        let (_, grant) = conduct.wins(oracle, "a claim to what was given up").await;
        if let Some(before) = last {
            assert_eq!(before.is_some(), grant.term.is_some(), "there are terms, or there are none");
            assert!(grant.term > before || before.is_none(), "term {:?} after {before:?}", grant.term);
        }
        last = Some(grant.term);
        conduct.gives_up(oracle).await;
    }
}

/// Of many who claim at once, one is granted.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn one_of_many<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    let name = conduct.name("one of many");
    let mut oracles = Vec::new();
    for _ in 0..conduct.rivals {
        oracles.push(make(name.clone()).await);
    }
    for round in 0..3 {
        let mut claims = tokio::task::JoinSet::new();
        for mut oracle in oracles.drain(..) {
            let conduct = conduct.clone();
            claims.spawn(async move {
                let answer = conduct.ask(oracle.claim()).await;
                (oracle, answer)
            });
        }
        let answered = claims.join_all().await;
        let granted = answered.iter().filter(|(_, answer)| is_granted(answer)).count();
        assert!(granted <= 1, "{granted} of {} were granted in round {round}", answered.len());
        // Those whose claim may have been cut short give up too, as whoever asked would.
        for (mut oracle, answer) in answered {
            let cut_short = matches!(answer, Answer::Unknown { .. });
            if is_granted(&answer) || cut_short {
                conduct.gives_up(&mut oracle).await;
            }
            oracles.push(oracle);
        }
        let (mut last, _) = conduct.any_wins(&mut oracles).await;
        conduct.gives_up(&mut last).await;
        oracles.push(last);
    }
}

/// Claims that were dropped half-way block nobody for good.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn dropped_claims_pass<F, W>(conduct: &Conduct, make: F)
where
    F: Fn(String) -> W,
    W: Future<Output = Box<dyn Oracle>>,
{
    let name = conduct.name("dropped claims pass");
    let (mut fickle, mut rival) = (make(name.clone()).await, make(name).await);
    for round in 0..20 {
        let time = Duration::from_micros(100) * round;
        // Whatever it says in this time, it is not heard.
        let _ = conduct.env.timeout(time, fickle.claim()).await;
        conduct.gives_up(&mut fickle).await;
    }
    conduct.wins(&mut rival, "a claim after others were dropped").await;
    conduct.is_refused(&mut fickle, "a claim to what a rival has").await;
    conduct.gives_up(&mut rival).await;
}

/// An oracle that is told from elsewhere says so again and again. It is to be granted when this is called.
///
/// # Panics
/// If the oracle does not keep the contract.
pub async fn repeats_itself(conduct: &Conduct, oracle: &mut Box<dyn Oracle>) {
    let (_, won) = conduct.wins_now(oracle, "a claim").await;
    let (_, again) = conduct.wins_now(oracle, "another claim").await;
    let (_, kept) = conduct.keeps(oracle, "a refresh").await;
    assert_eq!((won.term, again.term), (again.term, kept.term), "nothing has happened, and the term changed");
}

fn is_granted(answer: &Answer) -> bool {
    matches!(answer, Answer::Granted(_))
}

fn valid_until(asked: Moment, grant: &Grant) -> Moment {
    match grant.validity {
        Validity::For(time) => asked.after(time),
        Validity::Until(end) => end,
        Validity::Unlimited => asked.after(Duration::MAX),
    }
}

impl Conduct {
    /// A name that nobody else has.
    fn name(&self, check: &str) -> String {
        format!("{check} {:016x}", self.env.random_u64())
    }

    /// What it says. A claim may wait until there is a chance; then it is dropped, as whoever loses patience would do.
    async fn ask(&self, question: impl Future<Output = Answer>) -> Answer {
        let time = self.lease.map_or(PATIENCE, |lease| lease / 3);
        self.env.timeout(time, question).await.unwrap_or_else(Answer::unknown)
    }

    /// It is granted, sooner or later, whoever had it before.
    async fn wins(&self, oracle: &mut Box<dyn Oracle>, what: &str) -> (Moment, Grant) {
        let end = self.env.now().after(PATIENCE + self.lease.unwrap_or_default() + self.slack);
        loop {
            let asked = self.env.now();
            match self.ask(oracle.claim()).await {
                Answer::Granted(grant) => return (asked, self.admit(grant)),
                answer => assert!(self.env.now() < end, "{what} is never granted: {answer:?}"),
            }
            self.env.sleep(PAUSE).await;
        }
    }

    /// One of them is granted, sooner or later; it is taken out.
    async fn any_wins(&self, oracles: &mut Vec<Box<dyn Oracle>>) -> (Box<dyn Oracle>, Grant) {
        let mut oracle = oracles.swap_remove(0);
        let (_, grant) = self.wins(&mut oracle, "a claim to what all others gave up").await;
        (oracle, grant)
    }

    /// It is granted, but for answers that got lost.
    async fn wins_now(&self, oracle: &mut Box<dyn Oracle>, what: &str) -> (Moment, Grant) {
        let end = self.env.now().after(PATIENCE);
        loop {
            let asked = self.env.now();
            match self.ask(oracle.claim()).await {
                Answer::Granted(grant) => return (asked, self.admit(grant)),
                Answer::Unknown { reason } => assert!(self.env.now() < end, "{what} is unknown: {reason}"),
                answer @ Answer::Denied { .. } => panic!("{what} is refused: {answer:?}"),
            }
            self.env.sleep(PAUSE).await;
        }
    }

    async fn keeps(&self, oracle: &mut Box<dyn Oracle>, what: &str) -> (Moment, Grant) {
        let asked = self.env.now();
        match self.ask(oracle.refresh()).await {
            Answer::Granted(grant) => (asked, self.admit(grant)),
            answer => panic!("{what} is not granted: {answer:?}"),
        }
    }

    async fn is_refused(&self, oracle: &mut Box<dyn Oracle>, what: &str) {
        let answer = self.ask(oracle.claim()).await;
        assert!(!is_granted(&answer), "{what} is granted, and another holds it: {answer:?}");
    }

    async fn gives_up(&self, oracle: &mut Box<dyn Oracle>) {
        let answer = self.env.timeout(PATIENCE, oracle.abdicate(None)).await;
        assert!(!matches!(answer, Ok(Answer::Granted(_))), "giving up is granted: {answer:?}");
    }

    /// No grant is longer than the lease.
    fn admit(&self, grant: Grant) -> Grant {
        if let (Some(lease), Validity::For(time)) = (self.lease, grant.validity) {
            assert!(time <= lease, "a lease of {lease:?} was granted for {time:?}");
        }
        grant
    }
}

#[cfg(test)]
mod tests;
