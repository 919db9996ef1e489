//! `tenure registry`

use clap::{Args, Subcommand};
use tenure::{
    cluster::Onlooker,
    registry::{Led, Query, RegistryView},
    store::Name,
};

use super::Common;
use crate::{
    exit::Exit,
    options::name,
    output::{Table, ago, or_dash, utc},
    views::{Entry, Explained, Items, Member, Registry, State},
};

/// How many names are told at once, if nothing else is said.
const PAGE: usize = 1000;

#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    List(ListOptions),
    /// Print whose a name is: the node that has its mailbox
    Whereis(NameOptions),
    /// Tell all that is known of a name: whose it is, since when, and whether its owner lives
    Explain(NameOptions),
}

/// List all registries, or the names of one
#[derive(Args, Clone, Debug)]
pub(crate) struct ListOptions {
    /// The registry [default: list registries instead of names]
    #[arg(value_parser = name)]
    registry: Option<Name>,

    /// Only names that begin so
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,

    /// Only names behind this one
    #[arg(long, value_name = "NAME")]
    after: Option<String>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = super::limit)]
    limit: usize,

    #[command(flatten)]
    common: Common,
}

/// Which name.
#[derive(Args, Clone, Debug)]
pub(crate) struct NameOptions {
    /// The registry
    #[arg(value_parser = name)]
    registry: Name,

    /// The name
    #[arg(value_parser = name)]
    name: Name,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn perform(command: RegistryCommand) -> anyhow::Result<Exit> {
    match command {
        RegistryCommand::List(ListOptions { registry: None, common, .. }) => registries(common).await,
        RegistryCommand::List(ListOptions { registry: Some(registry), prefix, after, limit, common }) => {
            let (view, _) = view(&common.store.look().await?, registry).await?;
            let page = view.list(&Query::all().named(prefix), after.as_deref(), limit);
            names(&common, page)
        }
        RegistryCommand::Whereis(options) => whereis(options).await,
        RegistryCommand::Explain(options) => explain(options).await,
    }
}

async fn view(look: &Onlooker, registry: Name) -> anyhow::Result<(RegistryView, Led)> {
    let view = RegistryView::new(look, registry);
    let led = view.refresh().await?;
    if led == Led::default() && !RegistryView::all(look).await?.contains(view.name()) {
        let words = format!("there is no registry {}: see tenure registry list", view.name());
        return Err(Exit::Absent.context(words).into());
    }
    Ok((view, led))
}

async fn registries(common: Common) -> anyhow::Result<Exit> {
    let look = common.store.look().await?;
    let mut registries = Vec::new();
    for registry in RegistryView::all(&look).await? {
        let view = RegistryView::new(&look, registry);
        let led = view.refresh().await?;
        registries.push(Registry::new(&view, &led));
    }
    common.output.print(&Items::all(registries), |registries| {
        let mut table = Table::new(&["registry", "names", "leader", "epoch", "batches"]);
        for registry in &registries.items {
            table.row([
                registry.name.clone(),
                registry.names.to_string(),
                or_dash(registry.leader.as_ref()),
                registry.epoch.to_string(),
                registry.position.to_string(),
            ]);
        }
        table.text("no registries")
    })?;
    Ok(Exit::DONE)
}

fn names(common: &Common, page: tenure::registry::Page) -> anyhow::Result<Exit> {
    let items: Vec<Entry> = page.entries.iter().map(|entry| Entry::from(&**entry)).collect();
    common.output.print(&Items { items, next: page.next }, |names| {
        let mut table = Table::new(&["name", "node", "since", "labels"]);
        for entry in &names.items {
            let labels: Vec<String> =
                entry.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
            table.row([entry.name.clone(), entry.node.clone(), utc(entry.since_ms), labels.join(" ")]);
        }
        let more = names.next.as_ref().map(|next| format!("there are more: --after {next:?}\n"));
        table.text("no names") + &more.unwrap_or_default()
    })?;
    Ok(Exit::DONE)
}

async fn whereis(NameOptions { registry, name, common }: NameOptions) -> anyhow::Result<Exit> {
    let (view, _) = view(&common.store.look().await?, registry).await?;
    let Some(entry) = view.whereis(name.as_str()) else {
        let words = format!("nobody has the name {name} in registry {}", view.name());
        return Err(Exit::Absent.context(words).into());
    };
    common.output.print(&Entry::from(&*entry), |entry| format!("{}\n", entry.node))?;
    Ok(Exit::DONE)
}

async fn explain(NameOptions { registry, name, common }: NameOptions) -> anyhow::Result<Exit> {
    let look = common.store.look().await?;
    let (view, led) = view(&look, registry).await?;
    let entry = view.whereis(name.as_str()).map(|entry| Entry::from(&*entry));
    let members = look.members().list().await?.into_iter().map(Member::from);
    let owner = members
        .into_iter()
        .find(|member| entry.as_ref().is_some_and(|entry| entry.session == member.session));
    let mut explained = Explained {
        registry: view.name().to_string(),
        name: name.to_string(),
        owner: owner.map(|member| member.state),
        entry,
        leader: led.leader.map(|leader| leader.node),
        epoch: led.epoch,
        position: view.position(),
        reasons: Vec::new(),
    };
    explained.reasons = reasons(&explained, &ago_of(&explained, look.env().unix_time()));
    common.output.print(&explained, |explained| {
        explained.reasons.iter().map(|reason| format!("{reason}\n")).collect()
    })?;
    Ok(if explained.entry.is_some() { Exit::DONE } else { Exit::Absent })
}

fn ago_of(explained: &Explained, now: std::time::Duration) -> String {
    explained.entry.as_ref().map_or_else(String::new, |entry| ago(entry.since_ms, now))
}

fn reasons(explained: &Explained, age: &str) -> Vec<String> {
    let Explained { registry, name, entry, owner, leader, epoch, position, .. } = explained;
    let mut reasons = Vec::new();
    match entry {
        Some(entry) => {
            reasons.push(format!(
                "{name} is a mailbox of {}, for {age} (since {}).",
                entry.node,
                utc(entry.since_ms)
            ));
            reasons.push(format!("It was committed in batch {} of epoch {}.", entry.position, entry.epoch));
            reasons.push(match owner {
                Some(State::Live) => "Its owner is live.".to_owned(),
                Some(state) => format!("Its owner is {}: the name is free as soon as the registry's leader has noticed.", state.as_str()),
                None => "Its owner's session has ended: the name is free as soon as the registry's leader has noticed.".to_owned(),
            });
        }
        None => reasons.push(format!("{name} is free.")),
    }
    let leader = leader.as_deref().unwrap_or("nobody");
    reasons.push(format!(
        "{leader} leads registry {registry} in epoch {epoch}; this is as of batch {position}."
    ));
    reasons
}
