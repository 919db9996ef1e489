//! The routes, and the document that describes them: both come from the same lines.

#[cfg(test)]
mod document;
mod elections;
mod extract;
mod health;
mod look;
mod messages;
mod operate;
mod servers;
mod sessions;

use std::sync::Arc;

use axum::{Router, middleware};
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::router::OpenApiRouter;

use super::{
    Daemon,
    access::{Access, Role, check_host, check_role},
    leases,
    limits::{Limits, Streams, keep, keep_stream},
    metrics, page,
    problem::Problem,
};
use crate::views::{Change, Diagnosis, Event, Explained, Operated, Reply, StoreSchema, Why};

/// The document, but for its routes. It has the shapes that only commands print, too.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tenure",
        description = "Leader election, membership, durable servers and a registry, for programs in any language."
    ),
    components(schemas(Problem, Change, Diagnosis, Event, Explained, Operated, Reply, StoreSchema, Why)),
    security(("token" = []), ()),
    modifiers(&Tokens)
)]
struct Document;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let token = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        document.components.get_or_insert_default().add_security_scheme("token", token);
    }
}

pub(super) use self::extract::{Named, object};

type Routes = OpenApiRouter<Arc<Daemon>>;

/// What a request may cost.
enum Cost {
    /// It is answered within a time.
    Brief,
    /// It has a large message, and waits for a server.
    Message,
    /// It goes on.
    Stream,
}

/// All routes that need a role, by it and by what they cost.
fn groups() -> [(Role, Cost, Routes); 5] {
    [
        (Role::Read, Cost::Brief, look::routes().merge(leases::look_routes()).merge(health::read_routes())),
        (Role::Read, Cost::Stream, look::streams().merge(messages::streams())),
        (Role::TakePart, Cost::Brief, sessions::routes().merge(elections::routes()).merge(leases::routes())),
        (Role::TakePart, Cost::Message, servers::routes().merge(messages::routes())),
        (Role::Operate, Cost::Brief, operate::routes()),
    ]
}

/// The document that describes the routes.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let mut whole = Document::openapi();
    whole.merge(health::routes().into_openapi());
    for (_, _, routes) in groups() {
        whole.merge(routes.into_openapi());
    }
    whole
}

/// The whole service.
pub(crate) fn service(daemon: Arc<Daemon>, access: &Arc<Access>) -> Router {
    let env = daemon.look.env().clone();
    let (limits, messages) = (Limits::new(env.clone()), Limits::of_messages(env.clone()));
    let mut whole = Router::new();
    for (role, cost, routes) in groups() {
        let kept = |limits| middleware::from_fn_with_state(limits, keep);
        let routes = match cost {
            Cost::Brief => Router::from(routes).route_layer(kept(limits.clone())),
            Cost::Message => Router::from(routes).route_layer(kept(messages.clone())),
            Cost::Stream => Router::from(routes)
                .route_layer(middleware::from_fn_with_state(Streams::default(), keep_stream)),
        };
        let checked = middleware::from_fn_with_state((Arc::clone(access), role), check_role);
        whole = whole.merge(routes.route_layer(checked));
    }
    whole
        .merge(Router::from(health::routes()))
        .merge(page::routes())
        .method_not_allowed_fallback(extract::no_such_method)
        .fallback(extract::no_such_route)
        .with_state(daemon)
        .layer(middleware::from_fn_with_state(Arc::clone(access), check_host))
        .layer(middleware::from_fn_with_state(env, metrics::measure))
}
