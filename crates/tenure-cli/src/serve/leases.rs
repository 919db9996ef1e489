//! The lease routes: elections for programs that speak nothing but HTTP.
//!
//! | route | answers |
//! | --- | --- |
//! | `POST /locks/{name}/claim` | 200 held, 409 held by another |
//! | `POST /locks/{name}/refresh` | 200 held, 409 lost |
//! | `DELETE /locks/{name}` | 204 not held any more, 409 held by another |
//! | `GET /locks/{name}` | 200 who holds it, 404 nobody |
//!
//! A request names its holder in a JSON body, or behind a `?`, since some proxies drop the body of a DELETE. A holder that names its `term` is refused in every other.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{self, FromRequest, FromRequestParts as _, Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::json;
use tenure::{
    cluster::{Lease, LeaseAnswer, Leases, Term},
    store::{Name, StoreError},
};

use super::problem::Problem;

/// How long a lease lives if its holder does not say.
const TTL: Duration = Duration::from_secs(15);

/// The routes.
pub(crate) fn routes(leases: Arc<Leases>) -> Router {
    Router::new()
        .route("/locks/{name}/claim", post(claim))
        .route("/locks/{name}/refresh", post(refresh))
        .route("/locks/{name}", get(look).delete(release))
        .with_state(leases)
}

/// What a request says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Request {
    holder: Option<String>,
    ttl_ms: Option<u64>,
    term: Option<u64>,
}

/// A request that was understood.
struct Wish {
    name: Name,
    holder: Name,
    ttl: Duration,
    term: Option<Term>,
}

impl Wish {
    fn read(name: &str, query: Request, body: &[u8]) -> Result<Self, Problem> {
        let said: Request = if body.is_empty() {
            Request::default()
        } else {
            serde_json::from_slice(body).map_err(|error| {
                Problem::invalid(format!("the body is no request: {error}: send {{\"holder\": \"...\"}}"))
            })?
        };
        let holder = said.holder.or(query.holder).ok_or_else(|| {
            Problem::invalid(
                "there is no holder: name it in the body, {\"holder\": \"...\"}, or as ?holder=...",
            )
        })?;
        Ok(Self {
            name: parse(name)?,
            holder: parse(&holder)?,
            ttl: said.ttl_ms.or(query.ttl_ms).map_or(TTL, Duration::from_millis),
            term: said.term.or(query.term).map(Term),
        })
    }
}

impl<S: Send + Sync> FromRequest<S> for Wish {
    type Rejection = Response;

    async fn from_request(request: extract::Request, state: &S) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let refused =
            |rejection: &dyn std::fmt::Display| Problem::invalid(rejection.to_string()).into_response();
        let name =
            Path::<String>::from_request_parts(&mut parts, state).await.map_err(|error| refused(&error))?;
        let query =
            Query::<Request>::from_request_parts(&mut parts, state).await.map_err(|error| refused(&error))?;
        // A body that is too large has a status of its own.
        let body = Bytes::from_request(extract::Request::from_parts(parts, body), state).await;
        let body = body.map_err(IntoResponse::into_response)?;
        Self::read(&name, query.0, &body).map_err(IntoResponse::into_response)
    }
}

fn parse(name: &str) -> Result<Name, Problem> {
    name.parse().map_err(|error: StoreError| Problem::invalid(error.to_string()))
}

type Served = State<Arc<Leases>>;

async fn claim(State(leases): Served, wish: Wish) -> Result<Response, Problem> {
    match leases.claim(&wish.name, &wish.holder, wish.ttl).await? {
        LeaseAnswer::Granted(lease) => Ok(held(&lease)),
        LeaseAnswer::Denied { holder, retry_after } => Err(conflict("held by another", holder, retry_after)),
    }
}

async fn refresh(State(leases): Served, wish: Wish) -> Result<Response, Problem> {
    match leases.refresh(&wish.name, &wish.holder, wish.term).await? {
        LeaseAnswer::Granted(lease) => Ok(held(&lease)),
        LeaseAnswer::Denied { holder, retry_after } => Err(conflict("lost", holder, retry_after)),
    }
}

async fn release(State(leases): Served, wish: Wish) -> Result<Response, Problem> {
    match leases.release(&wish.name, &wish.holder, wish.term).await? {
        LeaseAnswer::Denied { holder: Some(holder), retry_after } => {
            Err(conflict("held by another", Some(holder), retry_after))
        }
        _ => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

async fn look(State(leases): Served, Path(name): Path<String>) -> Result<Response, Problem> {
    let name = parse(&name)?;
    match leases.look(&name).await? {
        Some(lease) => Ok(held(&lease)),
        None => Err(Problem::new(StatusCode::NOT_FOUND, "nobody holds it", format!("nobody holds {name}"))),
    }
}

fn held(lease: &Lease) -> Response {
    let ttl = u64::try_from(lease.ttl.as_millis()).unwrap_or(u64::MAX);
    Json(json!({
        "name": lease.election.as_str(),
        "holder": lease.holder.as_str(),
        "term": lease.term.0,
        "ttl_ms": ttl,
        "refresh_after_ms": ttl / 3,
    }))
    .into_response()
}

fn conflict(title: &'static str, holder: Option<Name>, retry_after: Duration) -> Problem {
    let detail = match &holder {
        Some(holder) => format!("{holder} holds it, or is next"),
        None => "it has ended".to_owned(),
    };
    let retry_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
    Problem::new(StatusCode::CONFLICT, title, detail)
        .with("holder", holder.map(|holder| holder.to_string()))
        .with("retry_after_ms", retry_ms)
        .retry_after(retry_after)
}
