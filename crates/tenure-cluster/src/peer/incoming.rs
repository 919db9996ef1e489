//! [`Service`]: serves the links that peers open.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use tenure_store::Name;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
};
use tonic::{
    Code, Request, Response, Status, Streaming,
    body::Body,
    codegen::{
        BoxFuture, Context, Poll, Service as TowerService, http, tokio_stream::wrappers::ReceiverStream,
    },
    server::{Grpc, StreamingService},
    transport::Server,
};
use tonic_prost::ProstCodec;

use super::{
    Sender,
    door::{Admission, Door, HANDSHAKE_TIME},
    handshake::{Seals, Transcript, nonce},
    inboxes::Admitted,
    links::Shared,
    measures,
    wire::{
        Challenge, FromListener, FromOpener, Hello, LETTER_BYTES_MORE, Letter, ListenerSays, OpenerSays,
        PATH, Receipt, VERSION, Verdict, Welcome, message_id, name, session,
    },
};

/// How many handshakes may be under way. Until it is over, who is at the other end is not known, and may make us hold the bytes of the largest message.
const HANDSHAKES_MAX: usize = 64;

/// How many streams a connection may have: a link is one, and its opener makes a connection for each.
const STREAMS_MAX: u32 = 4;

/// How many receipts wait to be sent. When a peer does not take them, its letters have to wait.
const RECEIPTS_MAX: usize = 64;

/// How many bytes of letters may be under way on a link before they are confirmed: enough for a few MB/s across a continent.
const WINDOW: u32 = 256 * 1024;

/// How often a connection that has been silent is asked for a sign of life, so that one to a machine that is gone does not stay for ever.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// How long such a sign may take.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves peers on a socket until the links are shut down.
pub(super) fn serve(listener: TcpListener, shared: &Arc<Shared>) {
    let connections = Door::new(listener, shared).open(&shared.tasks);
    let service =
        Service { shared: Arc::clone(shared), handshakes: Arc::new(Semaphore::new(HANDSHAKES_MAX)) };
    let stop = shared.tasks.stop().clone();
    let server = Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .serve_with_incoming_shutdown(service, ReceiverStream::new(connections), stop.cancelled_owned());
    shared.tasks.spawn(async move {
        if let Err(error) = server.await {
            tracing::error!(name: "peer.serving_failed", %error, "peers are not served any more");
        }
    });
}

/// What answers calls of gRPC: there is one method.
#[derive(Clone)]
struct Service {
    shared: Arc<Shared>,
    handshakes: Arc<Semaphore>,
}

impl TowerService<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Method(self.clone());
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(Status::unimplemented("there is only the link between peers here").into_http());
            }
            let largest = method.0.shared.settings.message_bytes_max + LETTER_BYTES_MORE;
            let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(largest);
            Ok(grpc.streaming(method, request).await)
        })
    }
}

struct Method(Service);

impl StreamingService<FromOpener> for Method {
    type Response = FromListener;
    type ResponseStream = ReceiverStream<Result<FromListener, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<FromOpener>>) -> Self::Future {
        let Service { shared, handshakes } = self.0.clone();
        Box::pin(async move {
            let admission = request.extensions().get::<Admission>().cloned();
            let admission =
                admission.ok_or_else(|| Status::internal("a connection came in by another door"))?;
            let (answers, receiver) = mpsc::channel(RECEIPTS_MAX);
            let side = Listener { shared: Arc::clone(&shared), letters: request.into_inner(), answers };
            shared.tasks.spawn(side.run(handshakes, admission));
            Ok(Response::new(ReceiverStream::new(receiver)))
        })
    }
}

/// This node's end of a link that a peer has opened.
struct Listener {
    shared: Arc<Shared>,
    letters: Streaming<FromOpener>,
    answers: mpsc::Sender<Result<FromListener, Status>>,
}

impl Listener {
    async fn run(mut self, handshakes: Arc<Semaphore>, admission: Admission) {
        let stop = self.shared.tasks.stop().clone();
        let answers = self.answers.clone();
        let end = tokio::select! {
            () = stop.cancelled() => Status::unavailable("this node shuts its links down"),
            end = self.serve(&handshakes, &admission) => end,
        };
        // The opener is told, unless it does not listen.
        let _ = answers.try_send(Err(end));
    }

    /// Serves the link to its end.
    async fn serve(&mut self, handshakes: &Semaphore, admission: &Admission) -> Status {
        let Ok(place) = handshakes.try_acquire() else {
            measures::handshake("listener", "busy");
            return Status::resource_exhausted("too many links are being opened here: try again");
        };
        let env = self.shared.env.clone();
        let shaken = match env.timeout(HANDSHAKE_TIME, self.shake_hands(admission)).await {
            Ok(shaken) => shaken,
            Err(elapsed) => Err(Status::deadline_exceeded(format!("the handshake is not over: {elapsed}"))),
        };
        drop(place);
        let (admitted, seals) = match shaken {
            Ok(shaken) => shaken,
            Err(status) => {
                let (remote, reason) = (admission.remote, status.message());
                match status.code() {
                    // A peer that came for another session, or too early.
                    Code::FailedPrecondition => {
                        tracing::debug!(name: "peer.link_refused", %remote, reason, "a peer's link was refused");
                    }
                    _ => tracing::warn!(name: "peer.refused", %remote, reason, "a link was refused"),
                }
                measures::handshake("listener", "refused");
                return status;
            }
        };
        measures::handshake("listener", "accepted");
        let from = admitted.from();
        tracing::debug!(name: "peer.link_opened", node = %from.node, session = %from.session, "a peer opened a link");
        let end = tokio::select! {
            () = admitted.superseded.cancelled() => superseded(),
            end = self.receive(&admitted, seals) => end,
        };
        tracing::debug!(name: "peer.link_closed", node = %from.node, reason = end.message(), "a peer's link ended");
        end
    }

    /// The listener's part of a handshake.
    async fn shake_hands(&mut self, admission: &Admission) -> Result<(Admitted, Seals), Status> {
        let hello = match self.next().await? {
            OpenerSays::Hello(hello) => hello,
            _ => return Err(out_of_turn()),
        };
        let (from, to_node) = self.read(&hello)?;
        let to = session(&hello.to_session).ok_or_else(out_of_turn)?;
        let me = self.shared.directory.me();
        let challenge = Challenge {
            nonce: nonce(&self.shared.env),
            node: me.node.as_str().to_owned(),
            session: me.session.to_bytes().to_vec().into(),
        };
        let transcript = Transcript::new(&hello, &challenge).ok_or_else(out_of_turn)?;
        self.say(ListenerSays::Challenge(challenge)).await?;
        let proof = match self.next().await? {
            OpenerSays::Proof(proof) => proof.proof,
            _ => return Err(out_of_turn()),
        };
        let key = &self.shared.key;
        key.check_opener(&transcript, &proof)
            .map_err(|_| Status::unauthenticated("the opener has not proven that it knows our secret"))?;
        admission.admit();
        // From here on the other side is a peer, and is told by a proof what is wrong.
        let admitted = self.shared.inboxes.admit(from, &to_node, to);
        let verdict = admitted.as_ref().map_or_else(|verdict| *verdict, |_| Verdict::Accepted);
        let most = self.shared.settings.message_bytes_max as u64;
        let proof = key.listener_proof(&transcript, verdict, most);
        let seals = key.seals(&transcript);
        self.say(ListenerSays::Welcome(Welcome { verdict: verdict as i32, message_bytes_max: most, proof }))
            .await?;
        admitted.map(|admitted| (admitted, seals)).map_err(|verdict| {
            Status::failed_precondition(format!("the link was refused: {}", verdict.kind()))
        })
    }

    /// Who says hello, and to which node.
    fn read(&self, hello: &Hello) -> Result<(Sender, Name), Status> {
        if hello.version != VERSION {
            return Err(Status::unimplemented(format!(
                "version {} of the protocol is not spoken here, but {VERSION}: run the same release on all nodes",
                hello.version
            )));
        }
        if hello.cluster != self.shared.cluster.as_str() {
            return Err(Status::permission_denied(
                "this is another cluster: look at the address of the peer, and at the name of the cluster",
            ));
        }
        let node = name(&hello.from_node).ok_or_else(out_of_turn)?;
        let session = session(&hello.from_session).ok_or_else(out_of_turn)?;
        let to = name(&hello.to_node).ok_or_else(out_of_turn)?;
        Ok((Sender { node, session }, to))
    }

    /// Takes letters until the link ends.
    async fn receive(&mut self, admitted: &Admitted, mut seals: Seals) -> Status {
        loop {
            let letter = match self.next().await {
                Ok(OpenerSays::Letter(letter)) => letter,
                Ok(_) => return out_of_turn(),
                Err(status) => return status,
            };
            let number = letter.number;
            let verdict = match judge(admitted, &mut seals, letter) {
                Ok(verdict) => verdict,
                Err(status) => return status,
            };
            measures::received(verdict);
            match verdict {
                // No receipt, and no other letter either: the opener sends them again, in order.
                Verdict::NotKnown => return Status::aborted("the opener's session is not known here"),
                Verdict::Superseded => return superseded(),
                _ => {}
            }
            let (_, seal) = seals.listener.close(&[&(verdict as i32).to_be_bytes()]);
            let receipt = Receipt { number, verdict: verdict as i32, seal };
            if let Err(status) = self.say(ListenerSays::Receipt(receipt)).await {
                return status;
            }
            if verdict == Verdict::WrongSession {
                return Status::failed_precondition("this node has joined again");
            }
        }
    }

    /// What the opener says next.
    async fn next(&mut self) -> Result<OpenerSays, Status> {
        match self.letters.message().await? {
            Some(FromOpener { says: Some(says) }) => Ok(says),
            Some(FromOpener { says: None }) => Err(out_of_turn()),
            None => Err(Status::cancelled("the opener closed the link")),
        }
    }

    async fn say(&self, says: ListenerSays) -> Result<(), Status> {
        let gone = |_| Status::cancelled("the opener is gone");
        self.answers.send(Ok(says.into())).await.map_err(gone)
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

/// Checks a letter's seal and delivers it.
fn judge(admitted: &Admitted, seals: &mut Seals, letter: Letter) -> Result<Verdict, Status> {
    let parts = [&letter.id[..], letter.topic.as_bytes(), &letter.body];
    seals
        .opener
        .open(letter.number, &parts, &letter.seal)
        .map_err(|_| Status::unauthenticated("a letter was changed on its way, or is not from the opener"))?;
    let id = message_id(&letter.id).ok_or_else(out_of_turn)?;
    let topic = name(&letter.topic).ok_or_else(out_of_turn)?;
    Ok(admitted.deliver(id, topic, &letter.body))
}

fn superseded() -> Status {
    Status::aborted("the opener has opened a newer link")
}

fn out_of_turn() -> Status {
    Status::invalid_argument(
        "this is not what the protocol has at this point: run the same release on all nodes",
    )
}
