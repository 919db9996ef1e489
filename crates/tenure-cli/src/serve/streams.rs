//! Streams of server-sent events. Each ends when its reader goes, or the daemon stops.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::response::{
    Sse,
    sse::{Event, KeepAlive},
};
use serde::Serialize;
use serde_json::{Value, json};
use tenure::{
    cluster::{Onlooker, peer::Subscription},
    store::{Env, Name},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Daemon, connections::Line, feed::Told};
use crate::views::Election;

/// How often a stream shows that it lives.
const BEAT: Duration = Duration::from_secs(5);

/// How much is told ahead of a reader.
const AHEAD: usize = 16;

/// When a store that is away is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a reader may take nothing.
const STALL: Duration = Duration::from_secs(30);

/// What is answered.
pub(crate) type Stream = Sse<axum::response::sse::KeepAliveStream<ReceiverStream<Result<Event, Infallible>>>>;

/// Where a stream's events go.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    send: mpsc::Sender<Result<Event, Infallible>>,
    line: Arc<Line>,
    env: Env,
}

impl Teller {
    /// Tells this; whether somebody still listens.
    pub(crate) async fn tell(&self, told: &Told) -> bool {
        let event = Event::default().event(told.event).data(&*told.data);
        match self.env.timeout(STALL, self.send.send(Ok(event))).await {
            Ok(sent) => sent.is_ok(),
            Err(_) => {
                // What is sent already would wait to be read for ever.
                tracing::debug!("nobody reads a stream: its connection is closed");
                self.line.hang_up.cancel();
                false
            }
        }
    }
}

/// A stream of what `told` tells.
pub(crate) fn stream<T: Future<Output = ()> + Send + 'static>(
    daemon: &Daemon,
    line: Arc<Line>,
    told: impl FnOnce(Teller) -> T,
) -> Stream {
    let (send, events) = mpsc::channel(AHEAD);
    let (stop, env) = (daemon.stop.clone(), daemon.look.env().clone());
    let telling = told(Teller { send: send.clone(), line, env });
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = send.closed() => {}
            () = telling => {}
        }
    });
    Sse::new(ReceiverStream::new(events)).keep_alive(KeepAlive::new().interval(BEAT).text("beat"))
}

/// What is told under a name.
pub(crate) fn told(event: &'static str, data: &impl Serialize) -> Told {
    // Our own shapes have no part that JSON can't say.
    let data = serde_json::to_string(data).unwrap_or_default();
    Told { event, data: Arc::from(data) }
}

/// Who leads an election, now and whenever that changes.
pub(crate) async fn leaders(look: Onlooker, election: Name, teller: Teller) {
    let mut observation = look.observe(&election);
    while observation.next().await.is_ok() {
        let data = loop {
            match look.election(&election).await {
                Ok(Some((seen, _))) => break told("led", &Election::from(&seen)),
                Ok(None) => break told("led", &Election::never(&election)),
                // The store is away. Who leads may not change again for long: it must be told when the store is back.
                Err(_) => look.env().sleep(AGAIN).await,
            }
        };
        if !teller.tell(&data).await {
            return;
        }
    }
}

/// What members send on a topic.
pub(crate) async fn messages(mut subscription: Subscription, teller: Teller) {
    while let Some(message) = subscription.recv().await {
        let text = String::from_utf8_lossy(&message.body);
        let said: Value = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()));
        let data = json!({
            "id": message.id.to_string(),
            "from": message.from.node.as_str(),
            "session": message.from.session.to_string(),
            "message": said,
        });
        if !teller.tell(&told("message", &data)).await {
            return;
        }
    }
}
