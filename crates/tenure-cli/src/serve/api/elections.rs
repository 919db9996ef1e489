//! Leading, for programs that have a session.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use tenure::cluster::{LeaseAnswer, Term};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{
    Routes,
    extract::{Named, Said, name},
    sessions::{ended, session},
};
use crate::{
    serve::{
        Daemon,
        leases::conflict,
        problem::{Conflicts, Problem, Refused},
    },
    views::millis,
};

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(claim)).routes(routes!(resign))
}

/// Who claims.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// The session that is to lead.
    session: String,
}

/// An office that is held.
#[derive(Debug, Serialize, ToSchema)]
struct Office {
    name: String,
    /// The fencing token: greater than that of every leader before.
    term: u64,
    holder: String,
    ttl_ms: u64,
    /// When to renew the session.
    renew_after_ms: u64,
}

/// Who resigns.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Resignation {
    session: String,
    /// In which term only.
    #[schema(format = "uint64")]
    term: Option<u64>,
}

/// Take an office, if it is free and nobody waits for it
#[utoipa::path(post, path = "/v1/elections/{name}/claim", tag = "take part", params(("name" = String, Path)), request_body = Claim, responses((status = 200, body = Office), Refused, Conflicts))]
async fn claim(
    State(daemon): State<Arc<Daemon>>,
    Named(election): Named<String>,
    Said(claim): Said<Claim>,
) -> Result<Json<Office>, Problem> {
    let (election, id) = (name(&election)?, session(&claim.session)?);
    match daemon.leases.claim_for(id, &election).await? {
        Some(LeaseAnswer::Granted(lease)) => Ok(Json(Office {
            name: lease.election.to_string(),
            term: lease.term.0,
            holder: lease.holder.to_string(),
            ttl_ms: millis(lease.ttl),
            renew_after_ms: millis(lease.ttl) / 3,
        })),
        Some(LeaseAnswer::Denied { holder, retry_after }) => {
            Err(conflict("held by another", holder, retry_after))
        }
        None => Err(ended(id)),
    }
}

/// Give an office up
#[utoipa::path(post, path = "/v1/elections/{name}/resign", tag = "take part", params(("name" = String, Path)), request_body = Resignation, responses((status = 204), Refused, Conflicts))]
async fn resign(
    State(daemon): State<Arc<Daemon>>,
    Named(election): Named<String>,
    Said(Resignation { session: id, term }): Said<Resignation>,
) -> Result<StatusCode, Problem> {
    match daemon.leases.resign_for(session(&id)?, &name(&election)?, term.map(Term)).await? {
        LeaseAnswer::Denied { holder: Some(holder), retry_after } => {
            Err(conflict("held by another", Some(holder), retry_after))
        }
        _ => Ok(StatusCode::NO_CONTENT),
    }
}
