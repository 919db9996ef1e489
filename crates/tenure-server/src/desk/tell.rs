//! What follows a commit: callers are told, effects begin, what goes through the queue is sent.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Desk,
    item::{Item, Local, Origin, Told},
    refuse,
    run::{Came, Run},
};
use crate::{
    Server, ServerError,
    courier::{Sending, Way},
    effects,
};

impl<S: Server> Desk<S> {
    /// Tells callers what came of it, and begins what comes after the commit.
    pub(super) fn tell(
        &mut self,
        items: Vec<Item<S>>,
        run: &mut Run<S>,
        mut died: BTreeMap<usize, ServerError>,
        token: Option<u64>,
    ) {
        metrics::counter!("tenure_server_commits_total", "kind" => S::KIND).increment(1);
        metrics::counter!("tenure_server_messages_total", "kind" => S::KIND).increment(run.came.len() as u64);
        #[allow(clippy::cast_precision_loss, reason = "a histogram is approximate")]
        metrics::histogram!("tenure_server_batch_messages", "kind" => S::KIND).record(run.came.len() as f64);
        let env = self.kind.ground.env().clone();
        for run in run.after_commit.drain(..) {
            env.spawn(run);
        }
        for sent in run.sent.drain(..).filter(|sent| sent.later.is_none()) {
            (self.kind.told)(&sent.kind, &sent.id);
        }
        if !run.effects.is_empty() {
            self.start_effects();
        }
        for (at, (mut item, came)) in items.into_iter().zip(run.came.drain(..)).enumerate() {
            if let Came::Locked = came {
                match (item.parcel(), token) {
                    (Ok(mut parcel), Some(token)) => {
                        parcel.locked = true;
                        self.begin_work(token, parcel, &item.body);
                    }
                    _ => self.look = true,
                }
                continue;
            }
            if let Came::Queued = came {
                self.send_through_queue(item);
                continue;
            }
            let waiting = item.waiting.take();
            let Origin::Local { told, .. } = item.origin else { continue };
            let died = died.remove(&at);
            // Callers may have given up.
            match (told, came) {
                (Local::Call(told), _) if died.is_some() => {
                    drop(told.send(died.map_or(Err(ServerError::Left), Err)));
                }
                (Local::Call(told), Came::Done(Some(reply))) => drop(told.send(Ok(Told::Reply(reply)))),
                (Local::Call(told), Came::Again(Some(reply))) => drop(told.send(Ok(Told::Again(reply)))),
                (Local::Call(told), _) => {
                    let waiting = waiting.unwrap_or_else(|| self.kind.room.wait());
                    drop(told.send(Ok(Told::Later(waiting))));
                }
                (Local::Cast(Some(told)), _) => drop(told.send(Ok(()))),
                (Local::Cast(None), _) => {}
            }
        }
    }

    /// Does effects, or tells who does some that there are more.
    pub(super) fn start_effects(&mut self) {
        if self.effects {
            self.more_effects = true;
            self.effects_told.notify_one();
        } else {
            self.effects = true;
            effects::start(&self.kind, &self.id, &self.keys, &self.effects_told, self.own.clone());
        }
    }

    /// Sends what callers in this process want through the queue.
    pub(super) fn send_waiting(&mut self) {
        for item in std::mem::take(&mut self.waiting) {
            self.send_through_queue(item);
        }
    }

    pub(super) fn send_through_queue(&self, mut item: Item<S>) {
        if item.is_call() && item.waiting.is_none() {
            item.waiting = Some(self.kind.room.wait());
        }
        let parcels = match item.many.take().map_or_else(|| item.parcel().map(|one| vec![one]), Ok) {
            Ok(parcels) => parcels,
            Err(error) => return refuse(item, error),
        };
        let mut sending = Sending {
            kind: self.kind.name.clone(),
            id: self.id.clone(),
            keys: Arc::clone(&self.keys),
            way: Way::Queue,
            parcels,
            queue_max: S::POLICY.queue_max,
            done: None,
            under_way: Some(Arc::clone(&self.under_way)),
        };
        let waiting = item.waiting.take();
        let (courier, env) = (self.kind.courier.clone(), self.kind.ground.env());
        let Origin::Local { told, .. } = item.origin else { return };
        // In a task, since it may have to wait; in order, since its place in the lane is taken here.
        match (told, waiting) {
            (Local::Call(told), Some(waiting)) => {
                let (done, sent) = super::question();
                sending.done = Some(done);
                if let Err(error) = courier.send_soon(sending) {
                    drop(told.send(Err(error)));
                    return;
                }
                env.spawn(async move {
                    let outcome = sent.await.unwrap_or(Err(ServerError::Left));
                    drop(told.send(outcome.map(|()| Told::Later(waiting))));
                });
            }
            (Local::Cast(told), _) => {
                sending.done = told;
                if let Err(error) = courier.send_soon(sending) {
                    tracing::warn!(kind = S::KIND, server = %self.id, %error, "a message could not be sent");
                }
            }
            (Local::Call(told), None) => drop(told.send(Err(ServerError::Left))),
        }
    }
}
