//! Who is there, who leads, what servers and names there are.

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use serde::{Deserialize, Serialize};
use tenure::{
    registry::{Query, RegistryView},
    server::Survey as _,
    store::Name,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::{
    Routes,
    extract::{Asked, Named, name},
};
use crate::{
    serve::{
        Daemon,
        access::Role,
        connections::Line,
        problem::{Problem, Refused},
        streams::{Stream, leaders, stream},
    },
    views::{
        self, DeadLetter, Election, ElectionDetail, Entry, Items, Kind, Member, PastTerm, Registry, Server,
    },
};

/// How many are told at once if nothing else is said, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(whoami))
        .routes(routes!(status))
        .routes(routes!(members))
        .routes(routes!(elections))
        .routes(routes!(election))
        .routes(routes!(history))
        .routes(routes!(kinds))
        .routes(routes!(servers))
        .routes(routes!(server))
        .routes(routes!(dead_letters))
        .routes(routes!(registries))
        .routes(routes!(names))
        .routes(routes!(whereis))
}

pub(super) fn streams() -> Routes {
    Routes::new().routes(routes!(events)).routes(routes!(watch))
}

/// Which of many.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// The name that they come behind: what the last answer has as `next`
    after: Option<String>,
    /// How many at most
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl Page {
    fn limit(&self) -> Result<usize, Problem> {
        match self.limit {
            None => Ok(PAGE),
            Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
            Some(limit) => Err(Problem::invalid(format!("limit is {limit}: it may be from 1 to {PAGE_MAX}"))),
        }
    }

    fn after(&self) -> Result<Option<Name>, Problem> {
        self.after.as_deref().map(name).transpose()
    }
}

/// Whom the daemon takes you for.
#[derive(Debug, Serialize, ToSchema)]
struct Whoami {
    role: Role,
    /// The daemon's own node.
    node: String,
    cluster: String,
    version: String,
}

/// What you may do
#[utoipa::path(get, path = "/v1/whoami", tag = "look", responses((status = 200, body = Whoami), Refused))]
async fn whoami(State(daemon): State<Arc<Daemon>>, Extension(role): Extension<Role>) -> Json<Whoami> {
    let settings = daemon.cluster.settings();
    Json(Whoami {
        role,
        node: settings.node.to_string(),
        cluster: settings.cluster.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// The cluster at a glance
#[utoipa::path(get, path = "/v1/status", tag = "look", responses((status = 200, body = views::Status), Refused))]
async fn status(State(daemon): State<Arc<Daemon>>) -> Result<Json<views::Status>, Problem> {
    Ok(Json(views::Status::read(&daemon.look, &daemon.store).await?))
}

/// Who is there
#[utoipa::path(get, path = "/v1/members", tag = "look", params(Page), responses((status = 200, body = Items<Member>), Refused))]
async fn members(
    State(daemon): State<Arc<Daemon>>,
    Asked(page): Asked<Page>,
) -> Result<Json<Items<Member>>, Problem> {
    let (limit, after) = (page.limit()?, page.after()?);
    let all = daemon.look.members().list().await?.into_iter();
    let behind = all.filter(|listed| after.as_ref().is_none_or(|after| listed.member.node > *after));
    let members = behind.take(limit + 1).map(Member::from).collect();
    Ok(Json(Items::page(members, limit, |member: &Member| member.node.clone())))
}

/// All elections that ever had a leader
#[utoipa::path(get, path = "/v1/elections", tag = "look", params(Page), responses((status = 200, body = Items<Election>), Refused))]
async fn elections(
    State(daemon): State<Arc<Daemon>>,
    Asked(page): Asked<Page>,
) -> Result<Json<Items<Election>>, Problem> {
    let limit = page.limit()?;
    let seen = daemon.look.elections(page.after()?.as_ref(), limit + 1).await?;
    let elections = seen.iter().map(Election::from).collect();
    Ok(Json(Items::page(elections, limit, |election: &Election| election.name.clone())))
}

/// One election, with who waits and its last terms
#[utoipa::path(get, path = "/v1/elections/{name}", tag = "look", params(("name" = String, Path)), responses((status = 200, body = ElectionDetail), Refused))]
async fn election(
    State(daemon): State<Arc<Daemon>>,
    Named(election): Named<String>,
) -> Result<Json<ElectionDetail>, Problem> {
    Ok(Json(detail(&daemon, &election).await?))
}

/// The last terms of an election that are over, the newest last
#[utoipa::path(get, path = "/v1/elections/{name}/history", tag = "look", params(("name" = String, Path)), responses((status = 200, body = Items<PastTerm>), Refused))]
async fn history(
    State(daemon): State<Arc<Daemon>>,
    Named(election): Named<String>,
) -> Result<Json<Items<PastTerm>>, Problem> {
    Ok(Json(Items::all(detail(&daemon, &election).await?.history)))
}

async fn detail(daemon: &Daemon, election: &str) -> Result<ElectionDetail, Problem> {
    let election = name(election)?;
    let Some((seen, candidates)) = daemon.look.election(&election).await? else {
        return Err(Problem::absent(format!("election {election} never had a leader")));
    };
    let payload = daemon.look.payload(&election).await?;
    Ok(ElectionDetail::new(&seen, &candidates, payload.as_deref()))
}

/// Who leads an election, now and whenever that changes, as server-sent events `led`
#[utoipa::path(get, path = "/v1/elections/{name}/watch", tag = "look", params(("name" = String, Path)), responses((status = 200, body = String, content_type = "text/event-stream"), Refused))]
async fn watch(
    State(daemon): State<Arc<Daemon>>,
    Extension(line): Extension<Arc<Line>>,
    Named(election): Named<String>,
) -> Result<Stream, Problem> {
    let (election, look) = (name(&election)?, daemon.look.clone());
    Ok(stream(&daemon, line, |teller| leaders(look, election, teller)))
}

/// Everything, and whatever becomes of it, as server-sent events: what the page shows
#[utoipa::path(get, path = "/v1/events", tag = "look", responses((status = 200, body = String, content_type = "text/event-stream"), Refused))]
async fn events(State(daemon): State<Arc<Daemon>>, Extension(line): Extension<Arc<Line>>) -> Stream {
    let feed = Arc::clone(&daemon.feed);
    stream(&daemon, line, |teller| feed.follow(teller))
}

/// The kinds of servers
#[utoipa::path(get, path = "/v1/servers", tag = "look", params(Page), responses((status = 200, body = Items<Kind>), Refused))]
async fn kinds(
    State(daemon): State<Arc<Daemon>>,
    Asked(page): Asked<Page>,
) -> Result<Json<Items<Kind>>, Problem> {
    let limit = page.limit()?;
    let kinds = Kind::list(&daemon.look, page.after()?.as_ref(), limit + 1).await?;
    Ok(Json(Items::page(kinds, limit, |kind: &Kind| kind.kind.clone())))
}

/// The servers of a kind
#[utoipa::path(get, path = "/v1/servers/{kind}", tag = "look", params(("kind" = String, Path), Page), responses((status = 200, body = Items<Server>), Refused))]
async fn servers(
    State(daemon): State<Arc<Daemon>>,
    Named(kind): Named<String>,
    Asked(page): Asked<Page>,
) -> Result<Json<Items<Server>>, Problem> {
    let (kind, limit) = (name(&kind)?, page.limit()?);
    let seen = daemon.look.servers(&kind, page.after()?.as_ref(), limit + 1).await?;
    let servers = seen.into_iter().map(|seen| Server::new(&kind, seen)).collect();
    Ok(Json(Items::page(servers, limit, |server: &Server| server.id.clone())))
}

/// One server
#[utoipa::path(get, path = "/v1/servers/{kind}/{id}", tag = "look", params(("kind" = String, Path), ("id" = String, Path)), responses((status = 200, body = Server), Refused))]
async fn server(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id)): Named<(String, String)>,
) -> Result<Json<Server>, Problem> {
    let (kind, id) = (name(&kind)?, name(&id)?);
    match daemon.look.server(&kind, &id).await? {
        Some(seen) => Ok(Json(Server::new(&kind, seen))),
        None => Err(Problem::absent(format!("there is no server {id} of kind {kind}"))),
    }
}

/// How many dead letters are read at once: each may be large.
const LETTERS_AT_ONCE: usize = 16;

/// How many bytes of messages are told at once, or little more.
const LETTERS_BYTES: usize = 1 << 20;

/// Which dead letters.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Numbers {
    /// The number that they come behind
    #[param(format = "uint64")]
    after: Option<u64>,
    /// How many at most
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Messages that failed as often as they might; a page has fewer if they are large
#[utoipa::path(get, path = "/v1/servers/{kind}/{id}/dead-letters", tag = "look", params(("kind" = String, Path), ("id" = String, Path), Numbers), responses((status = 200, body = Items<DeadLetter>), Refused))]
async fn dead_letters(
    State(daemon): State<Arc<Daemon>>,
    Named((kind, id)): Named<(String, String)>,
    Asked(Numbers { after, limit }): Asked<Numbers>,
) -> Result<Json<Items<DeadLetter>>, Problem> {
    let (limit, kind, id) = (Page { after: None, limit }.limit()?, name(&kind)?, name(&id)?);
    let (mut items, mut bytes, mut after): (Vec<DeadLetter>, usize, _) = (Vec::new(), 0, after);
    loop {
        let page = daemon.look.dead_letters(&kind, &id, after, LETTERS_AT_ONCE).await?;
        let Some(last) = page.last() else { return Ok(Json(Items::all(items))) };
        after = Some(last.number);
        for letter in page {
            if items.len() >= limit || bytes > LETTERS_BYTES {
                return Ok(Json(Items { next: items.last().map(|last| last.number.to_string()), items }));
            }
            bytes += letter.body.len();
            items.push(DeadLetter::from(&letter));
        }
    }
}

/// All registries
#[utoipa::path(get, path = "/v1/registries", tag = "look", params(Page), responses((status = 200, body = Items<Registry>), Refused))]
async fn registries(
    State(daemon): State<Arc<Daemon>>,
    Asked(page): Asked<Page>,
) -> Result<Json<Items<Registry>>, Problem> {
    let (limit, after) = (page.limit()?, page.after()?);
    let all = RegistryView::all(&daemon.look).await?.into_iter();
    let mut registries = Vec::new();
    for registry in all.filter(|name| after.as_ref().is_none_or(|after| name > after)).take(limit + 1) {
        let view = daemon.registry(&registry);
        let led = view.refresh().await?;
        registries.push(Registry::new(&view, &led));
    }
    Ok(Json(Items::page(registries, limit, |registry: &Registry| registry.name.clone())))
}

/// Which names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Prefix {
    /// How they begin
    prefix: Option<String>,
    /// The name that they come behind: what the last answer has as `next`
    after: Option<String>,
    /// How many at most
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The names of a registry
#[utoipa::path(get, path = "/v1/registries/{registry}/names", tag = "look", params(("registry" = String, Path), Prefix), responses((status = 200, body = Items<Entry>), Refused))]
async fn names(
    State(daemon): State<Arc<Daemon>>,
    Named(registry): Named<String>,
    Asked(Prefix { prefix, after, limit }): Asked<Prefix>,
) -> Result<Json<Items<Entry>>, Problem> {
    let limit = Page { after: None, limit }.limit()?;
    let view = daemon.registry(&name(&registry)?);
    view.refresh().await?;
    let page = view.list(&Query::all().named(prefix.unwrap_or_default()), after.as_deref(), limit);
    let items = page.entries.iter().map(|entry| Entry::from(&**entry)).collect();
    Ok(Json(Items { items, next: page.next }))
}

/// Whose a name is
#[utoipa::path(get, path = "/v1/registries/{registry}/names/{name}", tag = "look", params(("registry" = String, Path), ("name" = String, Path)), responses((status = 200, body = Entry), Refused))]
async fn whereis(
    State(daemon): State<Arc<Daemon>>,
    Named((registry, wanted)): Named<(String, String)>,
) -> Result<Json<Entry>, Problem> {
    let (registry, wanted) = (name(&registry)?, name(&wanted)?);
    let view = daemon.registry(&registry);
    view.refresh().await?;
    match view.whereis(wanted.as_str()) {
        Some(entry) => Ok(Json(Entry::from(&*entry))),
        None => Err(Problem::absent(format!(
            "nobody has the name {wanted} in registry {registry}, as of batch {}",
            view.position()
        ))),
    }
}
