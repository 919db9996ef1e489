//! [`Sender`]: sends messages of all sorts, one after the other, and keeps a journal of what came of each.

use std::{sync::Arc, time::Duration};

use tenure::{
    prelude::{CallOptions, ServerError, ServerRef},
    store::Env,
};
use tokio::sync::watch;

use crate::{
    journal::Journal,
    log::{Ask, Id, Log, Sort},
    support::worker::say,
};

/// What it says whenever something was acknowledged.
pub(crate) const ACKNOWLEDGED: &str = "acknowledged";

/// How long it waits for an answer: longer than any fault lasts that is not meant to be seen.
const CALL_TIME: Duration = Duration::from_secs(5);

/// The longest pause between two requests: the states should stay small enough to be read again after every fault.
const PAUSE_MAX: Duration = Duration::from_millis(90);

/// How often a request follows another at once, to the same server.
const AT_ONCE: f64 = 0.2;

/// The longest delay of a message that is sent with one.
const DELAY_MAX: Duration = Duration::from_millis(300);

/// One task of a process that sends.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) logs: Vec<ServerRef<Log>>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) dice: Env,
    /// The id of its next message.
    pub(crate) next: Id,
}

impl Sender {
    /// Sends until it is told to rest.
    pub(crate) async fn run(mut self, rest: watch::Receiver<bool>) {
        let env = Env::system();
        while !*rest.borrow() {
            let (server, sort) = (self.draw(self.logs.len()), Sort::CHOICE[self.draw(Sort::CHOICE.len())]);
            self.send(server, sort).await;
            // What comes behind one that nobody waited for should find it under way.
            if sort == Sort::Nowait || self.dice.chance(AT_ONCE) {
                let sort = Sort::CHOICE[self.draw(Sort::CHOICE.len())];
                self.send(server, sort).await;
            }
            env.sleep(self.dice.random_time(PAUSE_MAX)).await;
        }
    }

    fn draw(&self, count: usize) -> usize {
        usize::try_from(self.dice.random_in(0..count as u64)).expect("it is below another")
    }

    async fn send(&mut self, server: usize, sort: Sort) {
        let log = self.logs[server].clone();
        let within = CallOptions::default().timeout(CALL_TIME);
        match sort {
            Sort::Call | Sort::Lock => {
                let ask = self.begin(server, sort);
                self.end(&ask, log.call_with(ask, within).await.map(Some));
            }
            Sort::Urgent => {
                let ask = self.begin(server, sort);
                self.end(&ask, log.priority_call(ask, within).await.map(Some));
            }
            Sort::UrgentCast => {
                let ask = self.begin(server, sort);
                self.end(&ask, log.priority_cast(ask).await.map(|()| None));
            }
            Sort::Cast | Sort::Effect | Sort::Forward | Sort::Fail | Sort::Copy => {
                let ask = self.begin(server, sort);
                self.end(&ask, log.cast(ask).await.map(|()| None));
            }
            Sort::Later => {
                let (ask, delay) = (self.begin(server, sort), self.dice.random_time(DELAY_MAX));
                self.end(&ask, log.cast_after(delay, ask).await.map(|_| None));
            }
            Sort::Nowait => {
                let ask = self.begin(server, sort);
                // It is not acknowledged when this returns.
                if let Err(error) = log.cast_nowait(ask) {
                    self.end(&ask, Err(error));
                }
            }
            Sort::CastAll => {
                let asks = [(); 3].map(|()| self.begin(server, sort));
                let outcome = log.cast_all(asks).await.map(|()| None);
                asks.iter().for_each(|ask| self.end(ask, outcome.clone()));
            }
            Sort::Burst => {
                let asks = [(); 3].map(|()| self.begin(server, sort));
                let [a, b, c] = asks.map(|ask| {
                    let (this, log) = (&*self, &log);
                    async move { this.end(&ask, log.cast(ask).await.map(|()| None)) }
                });
                tokio::join!(a, b, c);
            }
            Sort::Once => self.send_again(server, &log, &within).await,
        }
    }

    /// A call that is made more than once, at once or one after the other.
    async fn send_again(&mut self, server: usize, log: &ServerRef<Log>, within: &CallOptions) {
        let ask = self.begin(server, Sort::Once);
        let options = within.clone().idempotency_key(ask.id.to_string());
        let call = async || self.end(&ask, log.call_with(ask, options.clone()).await.map(Some));
        if self.dice.chance(0.5) {
            self.journal.begin(ask.id, server, Sort::Once);
            tokio::join!(call(), call());
        } else {
            call().await;
        }
        self.journal.begin(ask.id, server, Sort::Once);
        call().await;
    }

    /// The next message, which is about to be sent.
    fn begin(&mut self, server: usize, sort: Sort) -> Ask {
        let id = self.next;
        self.next.number += 1;
        self.journal.begin(id, server, sort);
        Ask { id, sort, server }
    }

    fn end(&self, ask: &Ask, outcome: Result<Option<u64>, ServerError>) {
        self.journal.end(ask.id, &outcome);
        if outcome.is_ok() {
            say(ACKNOWLEDGED);
        }
    }
}
