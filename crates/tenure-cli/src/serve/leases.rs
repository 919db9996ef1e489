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
    Json,
    body::Bytes,
    extract::{self, FromRequest, FromRequestParts as _, Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tenure::{
    cluster::{Lease, LeaseAnswer, Term},
    store::{Name, StoreError},
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Daemon,
    api::{Named, object},
    problem::{Conflicts, Problem, Refused},
};
use crate::views::millis;

/// How long a lease lives if its holder does not say.
const TTL: Duration = Duration::from_secs(15);

/// The routes of those who hold leases.
pub(super) fn routes() -> OpenApiRouter<Arc<Daemon>> {
    OpenApiRouter::new().routes(routes!(claim)).routes(routes!(refresh)).routes(routes!(release))
}

/// The route of those who look.
pub(super) fn look_routes() -> OpenApiRouter<Arc<Daemon>> {
    OpenApiRouter::new().routes(routes!(look))
}

/// What a request says of itself.
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Request {
    /// Who asks
    #[schema(min_length = 1, max_length = 255)]
    #[param(min_length = 1, max_length = 255)]
    holder: Option<String>,
    /// How long the lease lives without being refreshed
    #[schema(minimum = 1000, maximum = 86_400_000)]
    #[param(minimum = 1000, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
    /// In which term only
    #[schema(format = "uint64")]
    #[param(format = "uint64")]
    term: Option<u64>,
}

/// A lease that is held.
#[derive(Debug, Serialize, ToSchema)]
struct Held {
    name: String,
    holder: String,
    /// The fencing token: greater than that of every holder before.
    term: u64,
    ttl_ms: u64,
    refresh_after_ms: u64,
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
        let said: Request = match body.trim_ascii() {
            b"" | b"null" => Request::default(),
            body => object(body)?,
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

type Served = State<Arc<Daemon>>;

/// Take a lease, if it is free; one that is held by this holder is refreshed
#[utoipa::path(post, path = "/locks/{name}/claim", tag = "leases", params(("name" = String, Path), Request), request_body = Option<Request>, responses((status = 200, body = Held), Refused, Conflicts))]
async fn claim(State(daemon): Served, wish: Wish) -> Result<Response, Problem> {
    match daemon.leases.claim(&wish.name, &wish.holder, wish.ttl).await? {
        LeaseAnswer::Granted(lease) => Ok(held(&lease)),
        LeaseAnswer::Denied { holder, retry_after } => Err(conflict("held by another", holder, retry_after)),
    }
}

/// Refresh a lease
#[utoipa::path(post, path = "/locks/{name}/refresh", tag = "leases", params(("name" = String, Path), Request), request_body = Option<Request>, responses((status = 200, body = Held), Refused, Conflicts))]
async fn refresh(State(daemon): Served, wish: Wish) -> Result<Response, Problem> {
    match daemon.leases.refresh(&wish.name, &wish.holder, wish.term).await? {
        LeaseAnswer::Granted(lease) => Ok(held(&lease)),
        LeaseAnswer::Denied { holder, retry_after } => Err(conflict("lost", holder, retry_after)),
    }
}

/// Give a lease up
#[utoipa::path(delete, path = "/locks/{name}", tag = "leases", params(("name" = String, Path), Request), request_body = Option<Request>, responses((status = 204), Refused, Conflicts))]
async fn release(State(daemon): Served, wish: Wish) -> Result<Response, Problem> {
    match daemon.leases.release(&wish.name, &wish.holder, wish.term).await? {
        LeaseAnswer::Denied { holder: Some(holder), retry_after } => {
            Err(conflict("held by another", Some(holder), retry_after))
        }
        _ => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Who holds a lease
#[utoipa::path(get, path = "/locks/{name}", tag = "leases", params(("name" = String, Path)), responses((status = 200, body = Held), Refused))]
async fn look(State(daemon): Served, Named(name): Named<String>) -> Result<Response, Problem> {
    let name = parse(&name)?;
    match daemon.leases.look(&name).await? {
        Some(lease) => Ok(held(&lease)),
        None => Err(Problem::new(StatusCode::NOT_FOUND, "nobody holds it", format!("nobody holds {name}"))),
    }
}

fn held(lease: &Lease) -> Response {
    let ttl_ms = millis(lease.ttl);
    Json(Held {
        name: lease.election.to_string(),
        holder: lease.holder.to_string(),
        term: lease.term.0,
        ttl_ms,
        refresh_after_ms: ttl_ms / 3,
    })
    .into_response()
}

/// The answer to whoever does not hold an office.
pub(super) fn conflict(title: &'static str, holder: Option<Name>, retry_after: Duration) -> Problem {
    let detail = match &holder {
        Some(holder) => format!("{holder} holds it, or is next"),
        None => "it has ended".to_owned(),
    };
    Problem::new(StatusCode::CONFLICT, title, detail)
        .with("holder", holder.map(|holder| holder.to_string()))
        .with("retry_after_ms", millis(retry_after))
        .retry_after(retry_after)
}
