//! [`Members`]: connections to the members of the cluster, and which of them is asked.
//!
//! Each member has one HTTP/2 connection, made when it is first needed, on which all requests pass at once. Requests go to one member;
//! when it fails, to the next, where they stay. A connection on which anything went wrong but an answer of etcd's is not used again.
//!
//! To make a connection and to send a request are two steps here, since all that fails in the first leaves nothing done.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenure_store::{Env, Host, Reason, StoreError};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codegen::{http::uri::PathAndQuery, tokio_stream::Stream},
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;

use crate::{
    Settings,
    error::{Failure, Meaning, chain},
    messages::Method,
    rounds::Rounds,
    settings::PORT,
};

/// How often a connection that has been silent is asked for a sign of life. etcd hangs up on clients that ask more than every 5 s.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// How long such a sign may take.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest answer that is taken, a guard against nonsense: what a read asks for has at most half of it.
const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How many bytes of an answer may be under way before they are confirmed: a full page and more, so that it comes in one go.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;

/// The same for all answers on a connection together.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// A token that a login gave.
pub(crate) type Token = MetadataValue<Ascii>;

/// Whether a request may be made again when its answer got lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing.
    Safe,
    /// Once may be enough.
    Never,
}

/// The members of a cluster.
#[derive(Debug)]
pub(crate) struct Members {
    members: Vec<Member>,
    /// The one that is asked.
    current: AtomicUsize,
    env: Env,
    request_timeout: Duration,
}

#[derive(Debug)]
struct Member {
    name: String,
    link: Slot,
    connecting: Rounds<Link>,
}

/// The connection to a member, while there is one.
type Slot = Arc<Mutex<Option<Link>>>;

/// A connection, and a number that tells it from others to the same member.
#[derive(Clone, Debug)]
struct Link {
    number: u64,
    channel: Channel,
}

impl Members {
    /// Members as the settings say. Nothing is connected yet, but files are read.
    pub(crate) fn new(settings: &Settings, env: Env) -> Result<Self, StoreError> {
        let tls = settings.tls.then(|| tls(settings)).transpose()?;
        let members = settings.hosts.iter().map(|host| Member::new(host, settings, tls.as_ref(), &env));
        let members: Vec<Member> = members.collect::<Result<_, _>>()?;
        let first = env.random_in(0..members.len() as u64);
        let current = AtomicUsize::new(usize::try_from(first).unwrap_or(0));
        Ok(Self { members, current, env, request_timeout: settings.request_timeout })
    }

    /// Asks the current member; if it can't be reached or refuses for itself alone, each of the others once. A request that may be made
    /// again goes to the next member also when its answer got lost.
    pub(crate) async fn ask<M: Method>(
        &self,
        doing: &str,
        request: &M,
        token: Option<&Token>,
        repeat: Repeat,
    ) -> Result<M::Answer, Failure> {
        let mut failures: Vec<Failure> = Vec::new();
        let first = self.current.load(Ordering::Relaxed);
        for turn in 0..self.members.len() {
            let index = (first + turn) % self.members.len();
            let failure = match self.ask_one(index, doing, request, token).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match failure.meaning {
                Meaning::Elsewhere => {}
                Meaning::Lost if repeat == Repeat::Safe => {}
                _ => return Err(failure),
            }
            failures.push(failure);
        }
        Err(together(failures))
    }

    async fn ask_one<M: Method>(
        &self,
        index: usize,
        doing: &str,
        request: &M,
        token: Option<&Token>,
    ) -> Result<M::Answer, Failure> {
        let member = &self.members[index];
        let link = member.link().await.inspect_err(|_| self.leave(index))?;
        let mut client = member.client(&link);
        let request = prepare(request.clone(), token);
        let sent = AtomicBool::new(false);
        let call = async {
            client.ready().await.map_err(|error| {
                let words = format!("{doing} at {}: {}", member.name, chain(&error));
                Failure::unsent(Reason::caused(words, error))
            })?;
            sent.store(true, Ordering::Relaxed);
            let answer =
                client.unary(request, PathAndQuery::from_static(M::PATH), ProstCodec::default()).await;
            answer.map_err(|status| Failure::answered(doing, &member.name, status))
        };
        let failure = match self.env.timeout(self.request_timeout, call).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(failure)) => failure,
            Err(elapsed) => {
                let reason = format!("{doing} at {}: no answer: {elapsed}", member.name);
                if sent.into_inner() { Failure::unanswered(reason) } else { Failure::unsent(reason) }
            }
        };
        if failure.broken {
            member.forget(&link);
        }
        if matches!(failure.meaning, Meaning::Elsewhere | Meaning::Lost) {
            self.leave(index);
        }
        Err(failure)
    }

    /// Opens a stream at the current member: what is sent on it, and what comes. Returns the member's index too, to be given to
    /// [`leave`](Self::leave) if the stream breaks.
    pub(crate) async fn stream<M: Method>(
        &self,
        doing: &str,
        requests: impl Stream<Item = M> + Send + 'static,
        token: Option<&Token>,
    ) -> Result<(usize, Streaming<M::Answer>), Failure> {
        let index = self.current.load(Ordering::Relaxed);
        let member = &self.members[index];
        let link = member.link().await.inspect_err(|_| self.leave(index))?;
        let mut client = member.client(&link);
        let request = prepare(requests, token);
        let call = async {
            client.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            client.streaming(request, PathAndQuery::from_static(M::PATH), ProstCodec::default()).await
        };
        let failure = match self.env.timeout(self.request_timeout, call).await {
            Ok(Ok(answers)) => return Ok((index, answers.into_inner())),
            Ok(Err(status)) => Failure::answered(doing, &member.name, status),
            Err(elapsed) => Failure::unsent(format!("{doing} at {}: no answer: {elapsed}", member.name)),
        };
        member.forget(&link);
        self.leave(index);
        Err(failure)
    }

    /// Asks another member from now on, if this one is asked.
    pub(crate) fn leave(&self, index: usize) {
        let next = (index + 1) % self.members.len();
        // Whoever was first has moved it already.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What a member is called.
    pub(crate) fn name(&self, index: usize) -> &str {
        &self.members[index].name
    }
}

impl Member {
    fn new(
        host: &Host,
        settings: &Settings,
        tls: Option<&ClientTlsConfig>,
        env: &Env,
    ) -> Result<Self, StoreError> {
        let host = Host { name: host.name.clone(), port: Some(host.port.unwrap_or(PORT)) };
        let name = host.to_string();
        let endpoint = endpoint(&name, settings, tls)
            .map_err(|error| StoreError::invalid(format!("{name} is no host: {}", chain(&error))))?;
        let link = Slot::default();
        let connecting = Rounds::start({
            let (slot, name, env, limit) =
                (Arc::clone(&link), name.clone(), env.clone(), settings.connect_timeout);
            let numbers = AtomicU64::new(0);
            move || {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let (slot, name, env) = (Arc::clone(&slot), name.clone(), env.clone());
                let endpoint = endpoint.clone();
                async move { connect(&slot, number, &name, endpoint, &env, limit).await }
            }
        });
        Ok(Self { name, link, connecting })
    }

    async fn link(&self) -> Result<Link, Failure> {
        let link = self.link.lock().clone();
        match link {
            Some(link) => Ok(link),
            None => self
                .connecting
                .join()
                .await
                .map_err(|error| Failure::unsent(Reason::caused(error.to_string(), error))),
        }
    }

    fn client(&self, link: &Link) -> Grpc<Channel> {
        Grpc::new(link.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// Makes a new connection next time, unless there is a newer one already.
    fn forget(&self, link: &Link) {
        let mut slot = self.link.lock();
        if slot.as_ref().is_some_and(|current| current.number == link.number) {
            *slot = None;
        }
    }
}

async fn connect(
    slot: &Slot,
    number: u64,
    name: &str,
    endpoint: Endpoint,
    env: &Env,
    limit: Duration,
) -> Result<Link, StoreError> {
    // Somebody who came too late for the round before waits for this one, for nothing.
    let made = slot.lock().clone();
    if let Some(link) = made {
        return Ok(link);
    }
    let channel = match env.timeout(limit, endpoint.connect()).await {
        Ok(Ok(channel)) => channel,
        Ok(Err(error)) => {
            let words = format!("connect to {name}: {}", chain(&error));
            return Err(StoreError::unavailable(Reason::caused(words, error)));
        }
        Err(elapsed) => return Err(StoreError::unavailable(format!("connect to {name}: {elapsed}"))),
    };
    let link = Link { number, channel };
    *slot.lock() = Some(link.clone());
    Ok(link)
}

fn endpoint(
    name: &str,
    settings: &Settings,
    tls: Option<&ClientTlsConfig>,
) -> Result<Endpoint, tonic::transport::Error> {
    let scheme = if settings.tls { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{name}"))?
        .connect_timeout(settings.connect_timeout)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    tls.map_or(Ok(endpoint.clone()), |tls| endpoint.tls_config(tls.clone()))
}

fn tls(settings: &Settings) -> Result<ClientTlsConfig, StoreError> {
    let file = |name: &str, path: &Path| {
        fs::read(path).map_err(|error| {
            StoreError::invalid(format!("{name} is {}, which can't be read: {error}", path.display()))
        })
    };
    let config = match &settings.tls_ca {
        Some(path) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(file("tls_ca", path)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    Ok(match &settings.tls_identity {
        None => config,
        Some((certificate, key)) => {
            config.identity(Identity::from_pem(file("tls_cert", certificate)?, file("tls_key", key)?))
        }
    })
}

/// A request that a member without a leader refuses at once, instead of letting it wait.
fn prepare<T>(message: T, token: Option<&Token>) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token.clone());
    }
    request
}

/// What all members said, as one. If any answer got lost, the whole request did.
fn together(mut failures: Vec<Failure>) -> Failure {
    match failures.len() {
        1 => failures.remove(0),
        _ => {
            let lost = failures.iter().any(|failure| failure.meaning == Meaning::Lost);
            let words: Vec<String> = failures.iter().map(|failure| failure.reason.to_string()).collect();
            let reason = format!("no member could be asked: {}", words.join("; "));
            if lost { Failure::unanswered(reason) } else { Failure::unsent(reason) }
        }
    }
}
