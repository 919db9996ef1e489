//! Tests of the test: a lease in memory passes it, and none of its flaws does.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{super::SignalsOracle, *};

const LEASE: Duration = Duration::from_secs(3);

/// What may be wrong with a lease.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    GrantsAll,
    GrantsEarly,
    RefusesItsHolder,
    NeverExtends,
    FreesNothing,
    FreesAnybodys,
    NeverEnds,
    RefreshesWhatIsAnothers,
    TermStands,
    GrantsTooLong,
}

/// Who holds what, until when, in which term.
type Leases = Arc<Mutex<HashMap<String, (u64, Moment, u64)>>>;

struct Lease {
    leases: Leases,
    env: Env,
    name: String,
    me: u64,
    flaw: Flaw,
}

impl Lease {
    fn grant(&self, claim: bool) -> Answer {
        let (now, flaw) = (self.env.now(), self.flaw);
        let mut leases = self.leases.lock();
        let (holder, end, term) = leases.get(&self.name).copied().unwrap_or((0, now, 0));
        let early = if flaw == Flaw::GrantsEarly { LEASE / 2 } else { Duration::ZERO };
        let free = end <= now.after(early) && (flaw != Flaw::NeverEnds || holder == 0);
        let mine = holder == self.me && !(claim && flaw == Flaw::RefusesItsHolder);
        let may = mine && end > now
            || claim && (free || flaw == Flaw::GrantsAll)
            || !claim && flaw == Flaw::RefreshesWhatIsAnothers;
        if !may {
            return Answer::denied(PAUSE);
        }
        let end = if mine && flaw == Flaw::NeverExtends { end } else { now.after(LEASE) };
        let term = term + u64::from(claim && !(mine && end > now) && flaw != Flaw::TermStands);
        leases.insert(self.name.clone(), (self.me, end, term));
        let time = if flaw == Flaw::GrantsTooLong { LEASE * 2 } else { end - now };
        Answer::Granted(Grant::lasting(time).with_term(term))
    }
}

#[async_trait]
impl Oracle for Lease {
    async fn claim(&mut self) -> Answer {
        self.env.sleep(Duration::from_micros(500)).await;
        self.grant(true)
    }

    async fn refresh(&mut self) -> Answer {
        self.grant(false)
    }

    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        let mut leases = self.leases.lock();
        if let Some((holder, end, _)) = leases.get_mut(&self.name)
            && self.flaw != Flaw::FreesNothing
            && (*holder == self.me || self.flaw == Flaw::FreesAnybodys)
        {
            (*holder, *end) = (0, self.env.now());
        }
        Answer::Denied { retry_after: None, holder: None }
    }
}

async fn check(flaw: Flaw) -> bool {
    let env = Env::simulated(7);
    let conduct = Conduct { lease: Some(LEASE), env: env.clone(), ..Conduct::default() };
    let leases = Leases::default();
    let run = async move {
        let make = |name| {
            let (leases, env) = (Arc::clone(&leases), env.clone());
            async move { Box::new(Lease { leases, me: env.random_u64(), env, name, flaw }) as Box<dyn Oracle> }
        };
        conforms(&conduct, make).await;
    };
    tokio::spawn(run).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_keeps_the_contract_passes() {
    assert!(check(Flaw::None).await);
}

#[tokio::test(start_paused = true)]
async fn every_flaw_is_found() {
    let flaws = [
        Flaw::GrantsAll,
        Flaw::GrantsEarly,
        Flaw::RefusesItsHolder,
        Flaw::NeverExtends,
        Flaw::FreesNothing,
        Flaw::FreesAnybodys,
        Flaw::NeverEnds,
        Flaw::RefreshesWhatIsAnothers,
        Flaw::TermStands,
        Flaw::GrantsTooLong,
    ];
    for flaw in flaws {
        assert!(!check(flaw).await, "{flaw:?} was not found");
    }
}

#[tokio::test(start_paused = true)]
async fn an_oracle_of_signals_repeats_itself() {
    let conduct = Conduct { env: Env::simulated(7), ..Conduct::default() };
    let (signaller, oracle) = SignalsOracle::new();
    let mut oracle: Box<dyn Oracle> = Box::new(oracle);
    assert!(!is_granted(&oracle.claim().await));
    signaller.grant(Some(7));
    repeats_itself(&conduct, &mut oracle).await;
    signaller.revoke();
    assert!(!is_granted(&oracle.refresh().await));
}
