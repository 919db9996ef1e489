//! [`Link`]: what sends messages to one peer, in order, and what it does when the peer is lost.
//!
//! A link is a task with a queue. It opens a stream when there is something to send, and closes it when there has been nothing for a while. When the stream
//! breaks, it waits for a growing time and opens a new one, on which all that was not confirmed is sent again, in the same order and with the same ids. The
//! peer delivers none of them twice, and nothing from the old stream once the new one is open: so they are delivered in order, whatever breaks when.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tenure_store::Moment;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Outcome,
    handshake::Seals,
    links::Shared,
    measures::OpenLink,
    opener::{self, Again, Failure, Opened, Route},
    outgoing::Parcel,
    wire::{FromOpener, Letter, ListenerSays, OpenerSays, Receipt, Verdict},
};

/// How many messages may be on their way without a receipt: enough to keep a long line busy, and few enough to be sent again.
const SENT_MAX: usize = 64;

/// How often a message is tried when the link fails under it. A peer that is gone should be reported sooner than at the deadline.
const ATTEMPTS_MAX: u32 = 3;

/// The pause before a stream is opened again, doubled each time up to [`PAUSE_MAX`] until a receipt has come.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause before a stream is opened again. Less than the usual deadline: whatever is sent is tried once at least.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long to wait for the reason when a stream takes nothing any more.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The sending end of a link.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    route: Route,
    number: u64,
    queue: mpsc::Receiver<Parcel>,
    replaced: CancellationToken,
    /// To be sent, in order.
    backlog: VecDeque<Parcel>,
    /// On their way without a receipt, in order; before all in the backlog.
    sent: VecDeque<Parcel>,
    /// How long to wait after the next failure.
    pause: Duration,
    /// When a stream may be opened again.
    not_before: Moment,
}

impl Link {
    pub(super) fn new(
        shared: Arc<Shared>,
        route: Route,
        number: u64,
        queue: mpsc::Receiver<Parcel>,
        replaced: CancellationToken,
    ) -> Self {
        let not_before = shared.env.now();
        let (backlog, sent) = (VecDeque::new(), VecDeque::new());
        Self { shared, route, number, queue, replaced, backlog, sent, pause: PAUSE_MIN, not_before }
    }

    /// Sends until there has been nothing to send for a while, the link is replaced, or all are shut down.
    pub(super) async fn run(mut self) {
        let (stop, replaced) = (self.shared.tasks.stop().clone(), self.replaced.clone());
        let outcome = tokio::select! {
            () = stop.cancelled() => Outcome::Unreachable("the links of this node were shut down".into()),
            () = replaced.cancelled() => Outcome::WrongSession,
            () = self.work() => return,
        };
        // What is being put into the queue at this instant is told so by the sender's end being dropped.
        self.queue.close();
        self.setback(&Failure { outcome, again: Again::Never });
    }

    async fn work(&mut self) {
        while self.wait().await {
            let now = self.shared.env.now();
            self.shared.env.sleep(self.not_before - now).await;
            self.gather();
            let failure = match opener::open(&self.shared, &self.route).await {
                Err(failure) => failure,
                Ok(opened) => match self.converse(opened).await {
                    Some(failure) => failure,
                    None => return,
                },
            };
            self.setback(&failure);
        }
    }

    /// Waits until there is something to send. `false` if there was nothing for so long that the link has ended.
    async fn wait(&mut self) -> bool {
        let idle = self.shared.settings.idle;
        while self.backlog.is_empty() {
            tokio::select! {
                parcel = self.queue.recv() => match parcel {
                    Some(parcel) => self.backlog.push_back(parcel),
                    None => return false,
                },
                () = self.shared.env.sleep(idle) => if self.retire() { return false },
            }
        }
        true
    }

    /// Takes what has come meanwhile, so that all of it is tried at once, or fails at once.
    fn gather(&mut self) {
        self.backlog.retain(|parcel| !parcel.answer.is_closed());
        while self.backlog.len() < SENT_MAX
            && let Ok(parcel) = self.queue.try_recv()
        {
            self.backlog.push_back(parcel);
        }
    }

    /// Sends and takes receipts until the stream breaks. Nothing if it was closed for lack of use.
    async fn converse(&mut self, mut opened: Opened) -> Option<Failure> {
        let _open = OpenLink::outgoing();
        let (node, session) = (&self.route.to.node, self.route.to.session);
        tracing::debug!(name: "peer.link_opened", %node, %session, "a link to a peer is open");
        let idle = self.shared.settings.idle;
        let mut writable = true;
        loop {
            let quiet = self.sent.is_empty() && self.backlog.is_empty();
            let sendable = writable && !self.backlog.is_empty() && self.sent.len() < SENT_MAX;
            tokio::select! {
                said = opener::next(&self.route, &mut opened.receipts) => {
                    let taken = match said {
                        Ok(ListenerSays::Receipt(receipt)) => self.take(&mut opened.seals, &receipt),
                        Ok(_) => Err(opener::out_of_turn(&self.route)),
                        Err(failure) => Err(failure),
                    };
                    if let Err(failure) = taken {
                        return Some(failure);
                    }
                }
                permit = opened.letters.reserve(), if sendable => match permit {
                    Ok(permit) => {
                        if let Some(letter) = self.write(&mut opened.seals, opened.message_bytes_max) {
                            permit.send(letter);
                        }
                    }
                    // Why, the other direction says.
                    Err(_) => writable = false,
                },
                Some(parcel) = self.queue.recv(), if self.backlog.is_empty() => self.backlog.push_back(parcel),
                () = self.shared.env.sleep(LAST_WORDS), if !writable => {
                    return Some(self.lost("the stream ended"));
                }
                () = self.shared.env.sleep(idle), if quiet && writable => if self.retire() { return None },
            }
        }
    }

    /// The next message as it is said. Nothing if nobody waits for it any more, or it is answered already.
    fn write(&mut self, seals: &mut Seals, most: u64) -> Option<FromOpener> {
        let mut parcel = self.backlog.pop_front()?;
        if parcel.answer.is_closed() {
            return None;
        }
        let (draft, size) = (&parcel.draft, parcel.draft.body.len());
        if size as u64 > most {
            let node = &self.route.to.node;
            parcel.end(Outcome::Refused(format!(
                "the message has {size} bytes, and {node} takes at most {most}: send less, or raise message_bytes_max there"
            )));
            return None;
        }
        let (id, topic) = (draft.id.to_bytes(), draft.topic.as_str());
        let (number, seal) = seals.opener.close(&[&id, topic.as_bytes(), &draft.body]);
        let letter = Letter {
            number,
            id: id.to_vec().into(),
            topic: topic.to_owned(),
            body: draft.body.clone(),
            seal,
        };
        parcel.sent += 1;
        self.sent.push_back(parcel);
        Some(OpenerSays::Letter(letter).into())
    }

    /// Takes a receipt: that of the oldest message without one.
    fn take(&mut self, seals: &mut Seals, receipt: &Receipt) -> Result<(), Failure> {
        let sealed = seals.listener.open(receipt.number, &[&receipt.verdict.to_be_bytes()], &receipt.seal);
        if sealed.is_err() {
            return Err(self.lost("a receipt was changed on its way, or is not from the peer"));
        }
        let outcome = match Verdict::try_from(receipt.verdict) {
            Ok(Verdict::Accepted) => Outcome::Delivered,
            Ok(Verdict::Duplicate) => Outcome::Duplicate,
            Ok(Verdict::NoSubscriber) => Outcome::NoSubscriber,
            Ok(Verdict::Full) => Outcome::Refused(format!(
                "the inbox for the topic is full at {}: receive faster there, or send less",
                self.route.to.node
            )),
            // It stays with the others: if it was sent before, it may have been delivered then.
            Ok(Verdict::WrongSession) => {
                if let Some(parcel) = self.sent.front_mut() {
                    parcel.sent -= 1;
                }
                return Err(Failure { outcome: Outcome::WrongSession, again: Again::Never });
            }
            _ => return Err(opener::out_of_turn(&self.route)),
        };
        let parcel = self.sent.pop_front().ok_or_else(|| opener::out_of_turn(&self.route))?;
        self.pause = PAUSE_MIN;
        parcel.end(outcome);
        Ok(())
    }

    /// After a failure: what is sent again goes back in order, the rest is told what became of it.
    fn setback(&mut self, failure: &Failure) {
        let (node, outcome) = (&self.route.to.node, failure.outcome.to_string());
        tracing::debug!(name: "peer.link_failed", %node, outcome, "a link to a peer failed");
        let env = &self.shared.env;
        let now = env.now();
        self.not_before = now.after(self.pause - env.random_time(self.pause / 2));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        let mut parcels = std::mem::take(&mut self.sent);
        parcels.append(&mut self.backlog);
        while failure.again == Again::Never
            && let Ok(parcel) = self.queue.try_recv()
        {
            parcels.push_back(parcel);
        }
        for mut parcel in parcels {
            parcel.attempts += u32::from(failure.again == Again::AFewTimes);
            let hopeless = failure.again == Again::Never
                || parcel.attempts >= ATTEMPTS_MAX
                || parcel.draft.deadline <= self.not_before;
            match hopeless {
                true => parcel.fail(failure),
                false => self.backlog.push_back(parcel),
            }
        }
    }

    fn lost(&self, why: &str) -> Failure {
        Failure::broken(format!("link to {} at {}: {why}", self.route.to.node, self.route.address))
    }

    fn retire(&self) -> bool {
        self.shared.outgoing.retire(&self.route.to.node, self.number, &self.queue)
    }
}

impl Parcel {
    fn end(self, outcome: Outcome) {
        // Whoever does not wait any more has decided for itself.
        let _ = self.answer.send(outcome);
    }

    fn fail(self, failure: &Failure) {
        let outcome = match (&failure.outcome, self.sent) {
            (outcome @ Outcome::Unreachable(_), _) | (outcome, 0) => outcome.clone(),
            (outcome, _) => Outcome::Unreachable(format!("it was sent and not confirmed, then: {outcome}")),
        };
        self.end(outcome);
    }
}
