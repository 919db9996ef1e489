//! Messages to durable servers.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure::server::{AnyServer, CallOptions};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{
    Routes,
    extract::{Named, Said},
};
use crate::serve::{
    Daemon,
    problem::{Conflicts, Problem, Refused},
};

/// The longest that an answer is waited for.
const CALL_MS_MAX: u64 = 60_000;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(call)).routes(routes!(cast))
}

/// A request that is answered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Call {
    /// Any JSON that the server understands: enums by the names of their variants, structs by those of their fields.
    #[schema(value_type = Value)]
    message: Value,
    /// How long to wait for the answer.
    #[schema(minimum = 1, maximum = 60_000)]
    #[serde(default = "usual_timeout")]
    timeout_ms: u64,
    /// Makes a repeated call return the first answer.
    #[schema(min_length = 1, max_length = 128)]
    idempotency_key: Option<String>,
    /// Past the queue.
    #[serde(default)]
    priority: bool,
}

fn usual_timeout() -> u64 {
    5000
}

/// A request that is not.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Cast {
    /// Any JSON that the server understands.
    #[schema(value_type = Value)]
    message: Value,
    /// Past the queue.
    #[serde(default)]
    priority: bool,
}

/// What a server answered.
#[derive(Debug, Serialize, ToSchema)]
struct Answer {
    #[schema(value_type = Value)]
    reply: Value,
}

/// Ask a server, and wait for its answer
#[utoipa::path(post, path = "/v1/servers/{kind}/{id}/call", tag = "take part", params(("kind" = String, Path), ("id" = String, Path)), request_body = Call, responses((status = 200, body = Answer), Refused, Conflicts))]
async fn call(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id)): Named<(String, String)>,
    Said(call): Said<Call>,
) -> Result<Json<Answer>, Problem> {
    if !(1..=CALL_MS_MAX).contains(&call.timeout_ms) {
        let words = format!("timeout_ms is {}: it may be from 1 to {CALL_MS_MAX}", call.timeout_ms);
        return Err(Problem::invalid(words));
    }
    let mut options = CallOptions::default().timeout(Duration::from_millis(call.timeout_ms));
    options.idempotency_key = call.idempotency_key;
    let server = AnyServer::new(&daemon.cluster, &kind, &id)?;
    let reply = server.call(tenure::server::Json(call.message), options, call.priority).await?;
    Ok(Json(Answer { reply: reply.0 }))
}

/// Send to a server; it is durable when that is answered
#[utoipa::path(post, path = "/v1/servers/{kind}/{id}/cast", tag = "take part", params(("kind" = String, Path), ("id" = String, Path)), request_body = Cast, responses((status = 202), Refused, Conflicts))]
async fn cast(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id)): Named<(String, String)>,
    Said(cast): Said<Cast>,
) -> Result<StatusCode, Problem> {
    let server = AnyServer::new(&daemon.cluster, &kind, &id)?;
    server.cast(tenure::server::Json(cast.message), cast.priority).await?;
    Ok(StatusCode::ACCEPTED)
}
