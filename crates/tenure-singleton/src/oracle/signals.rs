//! [`SignalsOracle`]: leads when the application says so.

use async_trait::async_trait;
use tenure_store::latest;

use super::{Answer, Grant, Oracle, Validity};

/// An oracle without any question to anybody: a [`Signaller`] decides, such as the handler of a webhook or of a message.
#[derive(Debug)]
pub struct SignalsOracle {
    verdict: latest::Receiver<Verdict>,
    /// Whether it was noticed that nobody decides any more.
    orphaned: bool,
}

/// Decides for a [`SignalsOracle`]. When the last clone is dropped, nobody leads any more.
#[derive(Clone, Debug)]
pub struct Signaller {
    verdict: latest::Sender<Verdict>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    leads: bool,
    term: Option<u64>,
}

impl SignalsOracle {
    /// An oracle that says no, until its signaller says otherwise.
    #[must_use]
    pub fn new() -> (Signaller, Self) {
        let (tell, verdict) = latest::channel(Verdict::default());
        (Signaller { verdict: tell }, Self { verdict, orphaned: false })
    }

    fn answer(&mut self) -> Answer {
        let Verdict { leads, term } = *self.verdict.borrow_and_update();
        if leads && !self.verdict.has_ended() {
            Answer::Granted(Grant { validity: Validity::Unlimited, refresh_after: None, term, guard: None })
        } else {
            Answer::Denied { retry_after: None, holder: None }
        }
    }
}

impl Signaller {
    /// This node leads from now on, under this fencing token if there is one.
    pub fn grant(&self, term: Option<u64>) {
        self.set(Verdict { leads: true, term });
    }

    /// This node does not lead any more.
    pub fn revoke(&self) {
        self.set(Verdict::default());
    }

    fn set(&self, verdict: Verdict) {
        self.verdict.send_if_modified(|present| std::mem::replace(present, verdict) != verdict);
    }
}

#[async_trait]
impl Oracle for SignalsOracle {
    async fn claim(&mut self) -> Answer {
        self.answer()
    }

    async fn refresh(&mut self) -> Answer {
        self.answer()
    }

    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        Answer::Denied { retry_after: None, holder: None }
    }

    async fn signal(&mut self) {
        if self.orphaned {
            std::future::pending::<()>().await;
        }
        // The end of the last signaller is a signal too, and the last one.
        self.orphaned = self.verdict.changed().await.is_err();
    }
}
