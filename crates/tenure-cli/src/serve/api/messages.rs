//! Messages to all members, and from them.

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure::cluster::peer::{Links, SendError};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{
    Routes,
    extract::{Named, Said, name},
};
use crate::serve::{
    Daemon,
    connections::Line,
    problem::{Conflicts, Problem, Refused},
    streams::{self, Stream, stream},
};

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(broadcast))
}

pub(super) fn streams() -> Routes {
    Routes::new().routes(routes!(listen))
}

/// A message to all members.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Broadcast {
    /// Who subscribes to it gets the message.
    #[schema(min_length = 1, max_length = 255)]
    topic: String,
    #[schema(value_type = Value)]
    message: Value,
}

/// What came of a message.
#[derive(Debug, Serialize, ToSchema)]
struct Delivery {
    id: String,
    outcomes: Vec<Outcome>,
}

/// What came of it at one member.
#[derive(Debug, Serialize, ToSchema)]
struct Outcome {
    node: String,
    /// `delivered`, `duplicate`, `no_subscriber`, `no_address`, `wrong_session`, `timed_out`, `refused` or `unreachable`.
    outcome: String,
    delivered: bool,
}

fn links(daemon: &Daemon) -> Result<&Links, Problem> {
    daemon.cluster.links().ok_or_else(|| {
        let words =
            "this daemon has no links to other nodes: start it with --links ADDRESS and --links-secret FILE";
        Problem::new(StatusCode::CONFLICT, "no links", words)
    })
}

/// Send a message to all members but the daemon, as JSON
#[utoipa::path(post, path = "/v1/broadcast", tag = "take part", request_body = Broadcast, responses((status = 200, body = Delivery), Refused, Conflicts))]
async fn broadcast(
    State(daemon): State<Arc<Daemon>>,
    Said(Broadcast { topic, message }): Said<Broadcast>,
) -> Result<Json<Delivery>, Problem> {
    let (links, topic) = (links(&daemon)?, name(&topic)?);
    let outcomes = links.broadcast(&topic, message.to_string()).await.map_err(|error| match error {
        SendError::TooLarge { .. } => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too large", error.to_string())
        }
        error => Problem::unavailable("not sent", error.to_string()),
    })?;
    let each = outcomes.iter().map(|(peer, outcome)| Outcome {
        node: peer.node.to_string(),
        outcome: outcome.kind().to_owned(),
        delivered: outcome.is_delivered(),
    });
    Ok(Json(Delivery { id: outcomes.id().to_string(), outcomes: each.collect() }))
}

/// What members send on a topic, from now on, as server-sent events `message`
#[utoipa::path(get, path = "/v1/topics/{topic}", tag = "look", params(("topic" = String, Path)), responses((status = 200, body = String, content_type = "text/event-stream"), Refused, Conflicts))]
async fn listen(
    State(daemon): State<Arc<Daemon>>,
    Extension(line): Extension<Arc<Line>>,
    Named(topic): Named<String>,
) -> Result<Stream, Problem> {
    let subscription = links(&daemon)?.subscribe(&name(&topic)?);
    Ok(stream(&daemon, line, |teller| streams::messages(subscription, teller)))
}
