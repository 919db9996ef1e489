//! What a request may cost: bytes, time, and how many there are at once.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::{Body, HttpBody as _, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tenure::store::Env;
use tokio::sync::Semaphore;
use tokio_stream::StreamExt as _;

use super::{
    connections::{CONNECTIONS_MAX, Line},
    metrics::Raised,
    problem::Problem,
};

/// The most bytes of a body, but for messages to servers.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// The most bytes of a message to a server: what every store takes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 512 * 1024;

/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

/// How long a request may take that waits for nobody.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// How many requests are served at once.
const AT_ONCE: usize = 256;

/// How many KiB of bodies are read and served at once, beside those that are small.
const BODIES_KIB: usize = 64 * 1024;

/// A body of so few bytes needs no room: all connections together have no more than 8 MiB of them. So large ones that come slowly keep nobody from renewing.
const SMALL: usize = 4 * 1024;

/// How many streams are read at once: half of all connections, so that they never take all.
const STREAMS_MAX: usize = CONNECTIONS_MAX / 2;

/// How long a request waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(2);

/// What is left for others.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    turns: Arc<Semaphore>,
    /// Room for bodies, in KiB.
    room: Arc<Semaphore>,
    bytes: usize,
    time: Duration,
    env: Env,
}

impl Limits {
    pub(crate) fn new(env: Env) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            room: Arc::new(Semaphore::new(BODIES_KIB)),
            bytes: BODY_BYTES_MAX,
            time: REQUEST_TIME,
            env,
        }
    }

    /// For messages to servers, whose answers are waited for as long as is asked. They have turns of their own: a server that does not answer must not keep anybody from renewing.
    pub(crate) fn of_messages(env: Env) -> Self {
        Self { bytes: MESSAGE_BYTES_MAX + 4096, time: REQUEST_TIME * 3, ..Self::new(env) }
    }

    fn too_large(&self) -> Response {
        let words = format!("the body has more than {} bytes, or broke off: send less", self.bytes);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too large", words).into_response()
    }
}

/// Reads the body, waits for a turn, and has the request served in time.
pub(crate) async fn keep(
    State(limits): State<Limits>,
    Extension(line): Extension<Arc<Line>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    // Who says how much it is need not wait for room for the most that it could be.
    let declared =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let size = match body.is_end_stream() {
        true => 0,
        false => declared.unwrap_or(limits.bytes),
    };
    if size > limits.bytes {
        return limits.too_large();
    }
    let room = if size <= SMALL { 0 } else { size.div_ceil(1024) };
    let kib = u32::try_from(room).unwrap_or(u32::MAX);
    let Ok(Ok(_room)) = limits.env.timeout(TURN_TIME, limits.room.acquire_many(kib)).await else {
        return Problem::unavailable("too much to do", "too many large requests are being served: try again")
            .into_response();
    };
    let body = match limits.env.timeout(BODY_TIME, to_bytes(body, limits.bytes)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return limits.too_large(),
        Err(_) => {
            let words = format!("the body took more than {BODY_TIME:?} to arrive: send it faster");
            return Problem::new(StatusCode::REQUEST_TIMEOUT, "too slow", words).into_response();
        }
    };
    let _work = line.work();
    let Ok(Ok(_turn)) = limits.env.timeout(TURN_TIME, limits.turns.acquire()).await else {
        let words = format!("{AT_ONCE} requests are being served: try again");
        return Problem::unavailable("too much to do", words).into_response();
    };
    let request = Request::from_parts(parts, Body::from(body));
    match limits.env.timeout(limits.time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let words = format!("it took more than {:?}: look what came of it", limits.time);
            Problem::unavailable("took too long", words).into_response()
        }
    }
}

/// Places for those who read streams.
#[derive(Clone, Debug)]
pub(crate) struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STREAMS_MAX)))
    }
}

/// Has a stream read if there is a place for it, which it keeps until its end.
pub(crate) async fn keep_stream(
    State(Streams(places)): State<Streams>,
    Extension(line): Extension<Arc<Line>>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(place) = places.try_acquire_owned() else {
        let words = format!("{STREAMS_MAX} streams are being read: end one, or ask another daemon");
        return Problem::unavailable("too many streams", words).into_response();
    };
    let response = next.run(request).await;
    if !response.status().is_success() {
        return response;
    }
    let kept = (place, line.work(), Raised::new("tenure_http_streams"));
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |data| {
            let _ = &kept;
            data
        }))
    })
}
