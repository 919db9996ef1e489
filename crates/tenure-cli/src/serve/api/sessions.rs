//! Sessions of programs that are no nodes: one heartbeat for all that a program leads.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use tenure::cluster::{LeaseSession, SessionId};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{
    Routes,
    extract::{Named, Said, name},
};
use crate::{
    serve::{
        Daemon,
        problem::{Problem, Refused},
    },
    views::millis,
};

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(open)).routes(routes!(renew)).routes(routes!(close))
}

/// A session that is wanted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSession {
    /// What the program calls itself.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// How long the session lives without being renewed.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    #[serde(default = "usual_ttl")]
    ttl_ms: u64,
}

fn usual_ttl() -> u64 {
    15_000
}

/// A session. Its id is what acts for it: keep it to yourself.
#[derive(Debug, Serialize, ToSchema)]
struct Session {
    session: String,
    name: String,
    ttl_ms: u64,
    /// When to renew it: a third of its ttl. Stop all that it leads when the ttl is over since before it was renewed last.
    renew_after_ms: u64,
}

impl From<LeaseSession> for Session {
    fn from(session: LeaseSession) -> Self {
        let ttl_ms = millis(session.ttl);
        Self {
            session: session.id.to_string(),
            name: session.name.to_string(),
            ttl_ms,
            renew_after_ms: ttl_ms / 3,
        }
    }
}

/// A session by its id.
pub(super) fn session(text: &str) -> Result<SessionId, Problem> {
    Ok(text.parse::<SessionId>()?)
}

pub(super) fn ended(id: SessionId) -> Problem {
    Problem::absent(format!("session {id} has ended, or there never was one: begin another"))
}

/// Begin a session
#[utoipa::path(post, path = "/v1/sessions", tag = "take part", request_body = NewSession, responses((status = 201, body = Session), Refused))]
async fn open(
    State(daemon): State<Arc<Daemon>>,
    Said(wanted): Said<NewSession>,
) -> Result<(StatusCode, Json<Session>), Problem> {
    let opened = daemon.leases.open(&name(&wanted.name)?, Duration::from_millis(wanted.ttl_ms)).await?;
    Ok((StatusCode::CREATED, Json(opened.into())))
}

/// Renew a session, and with it all that it leads
#[utoipa::path(post, path = "/v1/sessions/{session}/renew", tag = "take part", params(("session" = String, Path)), responses((status = 200, body = Session), Refused))]
async fn renew(
    State(daemon): State<Arc<Daemon>>,
    Named(id): Named<String>,
) -> Result<Json<Session>, Problem> {
    let id = session(&id)?;
    match daemon.leases.renew(id).await? {
        Some(renewed) => Ok(Json(renewed.into())),
        None => Err(ended(id)),
    }
}

/// End a session, and with it all that it leads
#[utoipa::path(delete, path = "/v1/sessions/{session}", tag = "take part", params(("session" = String, Path)), responses((status = 204), Refused))]
async fn close(State(daemon): State<Arc<Daemon>>, Named(id): Named<String>) -> Result<StatusCode, Problem> {
    let id = session(&id)?;
    match daemon.leases.close(id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ended(id)),
    }
}
