//! What only operators may do.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use tenure::server::AnyServer;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{
    Routes,
    extract::{Named, Said, name},
};
use crate::{
    serve::{
        Daemon,
        feed::Sort,
        problem::{Conflicts, Problem, Refused},
    },
    views::Leader,
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(depose))
        .routes(routes!(ask))
        .routes(routes!(replay))
        .routes(routes!(discard))
        .routes(routes!(unlock))
        .routes(routes!(delete))
}

/// Who was deposed.
#[derive(Debug, Serialize, ToSchema)]
struct Deposed {
    deposed: Option<Leader>,
}

/// Take an office from whoever holds it, at once
#[utoipa::path(post, path = "/v1/elections/{name}/depose", tag = "operate", params(("name" = String, Path)), responses((status = 200, body = Deposed), Refused))]
async fn depose(
    State(daemon): State<Arc<Daemon>>,
    Named(election): Named<String>,
) -> Result<Json<Deposed>, Problem> {
    let election = name(&election)?;
    let holder = daemon.look.depose(&election).await?;
    if let Some(holder) = &holder {
        daemon.feed.happened(Sort::Operator, &election, format!("{} was deposed", holder.node));
    }
    Ok(Json(Deposed { deposed: holder.as_ref().map(Leader::from) }))
}

/// What is asked of a leader.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// The node that is to lead; null for whoever waits first.
    to: Option<String>,
}

/// Whom it was asked of.
#[derive(Debug, Serialize, ToSchema)]
struct AskedOf {
    leader: Leader,
    term: u64,
}

/// Ask a leader to give its office up: it stops its work first
#[utoipa::path(post, path = "/v1/elections/{name}/ask", tag = "operate", params(("name" = String, Path)), request_body = Wish, responses((status = 202, body = AskedOf), Refused, Conflicts))]
async fn ask(
    State(daemon): State<Arc<Daemon>>,
    Named(election): Named<String>,
    Said(Wish { to }): Said<Wish>,
) -> Result<(StatusCode, Json<AskedOf>), Problem> {
    let election = name(&election)?;
    let to = to.as_deref().map(name).transpose()?;
    let Some((holder, term)) = daemon.look.ask(&election, to.clone()).await? else {
        let words = format!("nobody leads election {election}: there is nobody to ask");
        return Err(Problem::new(StatusCode::CONFLICT, "nobody leads", words));
    };
    let text = match to {
        Some(to) => format!("{} was asked to hand over to {to}", holder.node),
        None => format!("{} was asked to resign", holder.node),
    };
    daemon.feed.happened(Sort::Operator, &election, text);
    Ok((StatusCode::ACCEPTED, Json(AskedOf { leader: Leader::from(&holder), term: term.0 })))
}

fn server(daemon: &Daemon, kind: &str, id: &str) -> Result<AnyServer, Problem> {
    Ok(AnyServer::new(&daemon.cluster, kind, id)?)
}

fn no_letter(id: &str, number: u64) -> Problem {
    Problem::absent(format!("server {id} has no dead letter {number}"))
}

/// Put a dead letter back into the queue
#[utoipa::path(post, path = "/v1/servers/{kind}/{id}/dead-letters/{number}/replay", tag = "operate", params(("kind" = String, Path), ("id" = String, Path), ("number" = u64, Path)), responses((status = 204), Refused))]
async fn replay(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id, number)): Named<(String, String, u64)>,
) -> Result<StatusCode, Problem> {
    let server = server(&daemon, &kind, &id)?;
    if !server.replay(number).await? {
        return Err(no_letter(&id, number));
    }
    daemon.feed.happened(Sort::Operator, server.id(), format!("dead letter {number} was replayed"));
    Ok(StatusCode::NO_CONTENT)
}

/// Drop a dead letter
#[utoipa::path(delete, path = "/v1/servers/{kind}/{id}/dead-letters/{number}", tag = "operate", params(("kind" = String, Path), ("id" = String, Path), ("number" = u64, Path)), responses((status = 204), Refused))]
async fn discard(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id, number)): Named<(String, String, u64)>,
) -> Result<StatusCode, Problem> {
    let server = server(&daemon, &kind, &id)?;
    if !server.drop_dead_letter(number).await? {
        return Err(no_letter(&id, number));
    }
    daemon.feed.happened(Sort::Operator, server.id(), format!("dead letter {number} was dropped"));
    Ok(StatusCode::NO_CONTENT)
}

/// Whether there was a claim.
#[derive(Debug, Serialize, ToSchema)]
struct Unlocked {
    unlocked: bool,
}

/// Take the claim from whoever does locked work for a server
#[utoipa::path(post, path = "/v1/servers/{kind}/{id}/unlock", tag = "operate", params(("kind" = String, Path), ("id" = String, Path)), responses((status = 200, body = Unlocked), Refused, Conflicts))]
async fn unlock(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id)): Named<(String, String)>,
) -> Result<Json<Unlocked>, Problem> {
    let server = server(&daemon, &kind, &id)?;
    let unlocked = server.unlock().await?;
    if unlocked {
        daemon.feed.happened(Sort::Operator, server.id(), "it was unlocked".to_owned());
    }
    Ok(Json(Unlocked { unlocked }))
}

/// Delete a server, with its state and its queue
#[utoipa::path(delete, path = "/v1/servers/{kind}/{id}", tag = "operate", params(("kind" = String, Path), ("id" = String, Path)), responses((status = 204), Refused, Conflicts))]
async fn delete(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    let server = server(&daemon, &kind, &id)?;
    if !server.delete().await? {
        return Err(Problem::absent(format!("there is no server {id} of kind {kind}")));
    }
    daemon.feed.happened(Sort::Operator, server.id(), "it was deleted".to_owned());
    Ok(StatusCode::NO_CONTENT)
}
