//! Whether the daemon is well, what it measures, and what it can do.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State, http::header, response::IntoResponse};
use tenure::store::{Range, StoreExt as _};
use utoipa_axum::routes;

use super::Routes;
use crate::serve::{
    Daemon,
    metrics::Gauges,
    problem::{Problem, Refused},
};

/// How long the store may take to answer.
const STORE_TIME: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(openapi))
}

pub(super) fn read_routes() -> Routes {
    Routes::new().routes(routes!(metrics))
}

/// Whether the process runs
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, body = String, content_type = "text/plain"), Refused))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the daemon can serve: its session holds, and the store answers
#[utoipa::path(get, path = "/readyz", tag = "health", security(()), responses((status = 200, body = String, content_type = "text/plain"), Refused))]
async fn readyz(State(daemon): State<Arc<Daemon>>) -> Result<&'static str, Problem> {
    if daemon.stop.is_cancelled() {
        return Err(Problem::unavailable("stopping", "the daemon is stopping"));
    }
    if daemon.cluster.session().remaining().is_zero() {
        return Err(Problem::unavailable(
            "no session",
            "the daemon's session has lapsed: it joins again by itself",
        ));
    }
    let look = async { daemon.look.store().scan(&Range::all(), 1).await };
    match daemon.look.env().timeout(STORE_TIME, look).await {
        Ok(Ok(_)) => Ok("ready\n"),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => {
            Err(Problem::unavailable("no store", format!("the store did not answer within {STORE_TIME:?}")))
        }
    }
}

/// This document
#[utoipa::path(get, path = "/openapi.json", tag = "health", security(()), responses((status = 200, body = Object), Refused))]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(super::document())
}

/// What is measured, for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String, content_type = "text/plain"), Refused))]
async fn metrics(State(daemon): State<Arc<Daemon>>) -> impl IntoResponse {
    let mut gauges = Gauges::default();
    let settings = daemon.cluster.settings();
    let (node, cluster) = (settings.node.as_str(), settings.cluster.as_str());
    let build = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("store", &daemon.store),
        ("cluster", cluster),
        ("node", node),
    ];
    gauges.tell("tenure_build_info", &build, 1.0);
    let remaining = daemon.cluster.session().remaining();
    gauges.tell("tenure_session_remaining_seconds", &[("node", node)], remaining.as_secs_f64());
    daemon.census.tell(&mut gauges).await;
    let text = daemon.metrics.render() + &gauges.into_text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}
