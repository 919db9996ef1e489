//! [`open`]: opens a link to a peer.

use std::{error::Error, io, time::Duration};

use tokio::sync::mpsc;
use tokio_rustls::rustls;
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    codegen::{http::uri::PathAndQuery, tokio_stream::wrappers::ReceiverStream},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    Outcome, Peer,
    error::chain,
    handshake::{Seals, Transcript, nonce},
    links::Shared,
    measures,
    wire::{
        FromListener, FromOpener, Hello, ListenerSays, OpenerSays, PATH, Proof, VERSION, Verdict, Welcome,
    },
};
use crate::session::SessionId;

/// How many messages wait to be written to the connection. More wait where they can still be given up.
const WRITES_MAX: usize = 1;

/// The largest answer that is taken: those of the protocol have a fourth of it.
const ANSWER_BYTES_MAX: usize = 4096;

/// How often a connection is asked for a sign of life, so that letters to a machine that is gone do not wait for ever.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// How long such a sign may take.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Between which sessions a link is. Another route is another link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// This node.
    pub(super) from: Peer,
    /// The peer.
    pub(super) to: Peer,
    /// Where it listens.
    pub(super) address: String,
}

/// A link that is open.
pub(super) struct Opened {
    pub(super) letters: mpsc::Sender<FromOpener>,
    pub(super) receipts: Streaming<FromListener>,
    pub(super) seals: Seals,
    /// The largest body that the peer takes.
    pub(super) message_bytes_max: u64,
}

/// Why there is no link, or no longer.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// What becomes of letters that are not sent again.
    pub(super) outcome: Outcome,
    pub(super) again: Again,
}

/// Whether letters are sent again after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It would be refused again.
    Never,
    /// A few times.
    AFewTimes,
    /// Until the letter's deadline: the peer is there and will take it soon.
    UntilDeadline,
}

/// Opens a link, within the time that settings allow.
pub(super) async fn open(shared: &Shared, route: &Route) -> Result<Opened, Failure> {
    let limit = shared.settings.connect_timeout;
    let opened = match shared.env.timeout(limit, connect_and_prove(shared, route)).await {
        Ok(opened) => opened,
        Err(elapsed) => {
            Err(Failure::broken(format!("open a link to {} at {}: {elapsed}", route.to.node, route.address)))
        }
    };
    let outcome = opened.as_ref().map_or_else(|failure| failure.outcome.kind(), |_| "accepted");
    measures::handshake("opener", outcome);
    opened
}

impl Failure {
    /// The link is gone, or never was.
    pub(super) fn broken(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Unreachable(reason.into()), again: Again::AFewTimes }
    }

    /// The peer will not have it.
    pub(super) fn refused(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Refused(reason.into()), again: Again::Never }
    }

    /// The peer will not have it yet.
    fn later(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Unreachable(reason.into()), again: Again::UntilDeadline }
    }

    /// What a status means that the peer, or the connection to it, gave.
    pub(super) fn answered(route: &Route, status: &Status) -> Self {
        let words = format!("link to {} at {}: {}", route.to.node, route.address, chain(status));
        match status.code() {
            Code::Unauthenticated => Self::refused(format!("{words}: give all nodes the same secret")),
            Code::PermissionDenied | Code::Unimplemented | Code::InvalidArgument => Self::refused(words),
            Code::ResourceExhausted | Code::Aborted => Self::later(words),
            _ => Self::broken(words),
        }
    }
}

async fn connect_and_prove(shared: &Shared, route: &Route) -> Result<Opened, Failure> {
    let channel = connect(shared, route).await?;
    let mut client = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let answered = |status: Status| Failure::answered(route, &status);
    client.ready().await.map_err(|error| answered(Status::from_error(Box::new(error))))?;
    let (letters, receiver) = mpsc::channel(WRITES_MAX);
    let request = Request::new(ReceiverStream::new(receiver));
    let path = PathAndQuery::from_static(PATH);
    let answers = client.streaming(request, path, ProstCodec::default()).await.map_err(answered)?;
    prove(shared, route, letters, answers.into_inner()).await
}

async fn connect(shared: &Shared, route: &Route) -> Result<Channel, Failure> {
    let scheme = if shared.tls.is_some() { "https" } else { "http" };
    let (node, address) = (&route.to.node, &route.address);
    let unusable = |error: tonic::transport::Error| {
        Failure::refused(format!(
            "the address of {node} is {address:?}, which is not host:port: correct it where {node} joins: {}",
            chain(&error)
        ))
    };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .map_err(unusable)?
        .connect_timeout(shared.settings.connect_timeout)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    if let Some(tls) = &shared.tls {
        endpoint = endpoint.tls_config(tls.connector.clone()).map_err(unusable)?;
    }
    endpoint.connect().await.map_err(|error| {
        let words = format!("connect to {node} at {address}: {}", chain(&error));
        match is_tls(&error) {
            true => Failure::refused(format!("{words}: give all nodes certificates of the same authority")),
            false => Failure::broken(words),
        }
    })
}

/// The opener's part of a handshake.
async fn prove(
    shared: &Shared,
    route: &Route,
    letters: mpsc::Sender<FromOpener>,
    mut answers: Streaming<FromListener>,
) -> Result<Opened, Failure> {
    let hello = hello(shared, route);
    say(&letters, OpenerSays::Hello(hello.clone())).await;
    let challenge = match next(route, &mut answers).await? {
        ListenerSays::Challenge(challenge) => challenge,
        _ => return Err(out_of_turn(route)),
    };
    let transcript = Transcript::new(&hello, &challenge).ok_or_else(|| out_of_turn(route))?;
    let proof = shared.key.opener_proof(&transcript);
    say(&letters, OpenerSays::Proof(Proof { proof })).await;
    let Welcome { verdict, message_bytes_max, proof } = match next(route, &mut answers).await? {
        ListenerSays::Welcome(welcome) => welcome,
        _ => return Err(out_of_turn(route)),
    };
    shared.key.check_listener(&transcript, verdict, message_bytes_max, &proof).map_err(|_| {
        Failure::refused(format!(
            "link to {} at {}: who listens there has not proven that it knows the secret: give all nodes the same, or look who it is",
            route.to.node, route.address
        ))
    })?;
    match Verdict::try_from(verdict) {
        Ok(Verdict::Accepted) => {
            Ok(Opened { letters, receipts: answers, seals: shared.key.seals(&transcript), message_bytes_max })
        }
        Ok(verdict) => Err(turned_away(route, verdict, &challenge.node)),
        Err(_) => Err(out_of_turn(route)),
    }
}

fn hello(shared: &Shared, route: &Route) -> Hello {
    let bytes = |session: SessionId| session.to_bytes().to_vec().into();
    Hello {
        version: VERSION,
        cluster: shared.cluster.as_str().to_owned(),
        nonce: nonce(&shared.env),
        from_node: route.from.node.as_str().to_owned(),
        from_session: bytes(route.from.session),
        to_node: route.to.node.as_str().to_owned(),
        to_session: bytes(route.to.session),
    }
}

/// What it means that a peer has not welcomed us.
fn turned_away(route: &Route, verdict: Verdict, found: &str) -> Failure {
    let (node, address) = (&route.to.node, &route.address);
    match verdict {
        Verdict::WrongSession => Failure { outcome: Outcome::WrongSession, again: Again::Never },
        Verdict::WrongNode => Failure::refused(format!(
            "at the address of {node}, {address}, is node {found:?}: correct the address where {node} joins"
        )),
        Verdict::NotKnown => Failure::later(format!(
            "{node} does not know this node's session, not yet or no longer: send later"
        )),
        Verdict::Busy => {
            Failure::later(format!("{node} has as many links as it takes: raise links_max there"))
        }
        _ => out_of_turn(route),
    }
}

/// Says something. If the stream has ended, what comes next tells why.
async fn say(letters: &mpsc::Sender<FromOpener>, says: OpenerSays) {
    let _ = letters.send(says.into()).await;
}

/// What the listener says next.
pub(super) async fn next(
    route: &Route,
    answers: &mut Streaming<FromListener>,
) -> Result<ListenerSays, Failure> {
    match answers.message().await {
        Ok(Some(FromListener { says: Some(says) })) => Ok(says),
        Ok(Some(FromListener { says: None })) => Err(out_of_turn(route)),
        Ok(None) => Err(Failure::answered(route, &Status::unavailable("the peer closed the link"))),
        Err(status) => Err(Failure::answered(route, &status)),
    }
}

/// The peer says what the protocol does not have at this point.
pub(super) fn out_of_turn(route: &Route) -> Failure {
    Failure::refused(format!(
        "link to {} at {}: the peer does not keep to the protocol: run the same release on all nodes",
        route.to.node, route.address
    ))
}

/// Whether it was TLS that failed, which it will again.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |cause| (*cause).source());
    causes.into_iter().any(|cause| {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>())
    })
}
