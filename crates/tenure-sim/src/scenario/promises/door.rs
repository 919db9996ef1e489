//! [`Door`]: the way to one of the servers, whichever kind it is of.

use std::{collections::BTreeMap, time::Duration};

use tenure_cluster::Cluster;
use tenure_server::{
    CallOptions, DeadLetter, ReplyTo, Serve as _, Server as _, ServerError, ServerRef, Status, Timer,
};

use super::clerk::{Account, Page, Reply, SERVERS, Say, Vault};

/// The way to a server.
#[derive(Clone, Debug)]
pub(super) enum Door {
    Account(ServerRef<Account>),
    Vault(ServerRef<Vault>),
}

macro_rules! through {
    ($door:expr, $server:ident => $done:expr) => {
        match $door {
            Door::Account($server) => $done,
            Door::Vault($server) => $done,
        }
    };
}

/// What a message gives: a call its answer, a cast nothing.
pub(super) type Told = Result<Option<Reply>, ServerError>;

impl Door {
    pub(super) fn all(cluster: &Cluster) -> [Self; SERVERS.len()] {
        SERVERS.map(|(kind, id)| match kind == Vault::KIND {
            false => Self::Account(cluster.server(id).expect("a name")),
            true => Self::Vault(cluster.server(id).expect("a name")),
        })
    }

    pub(super) async fn call(&self, say: Say, options: CallOptions) -> Told {
        through!(self, server => server.call_with(say, options).await.map(Some))
    }

    pub(super) async fn priority_call(&self, say: Say, options: CallOptions) -> Told {
        through!(self, server => server.priority_call(say, options).await.map(Some))
    }

    pub(super) async fn cast(&self, say: Say) -> Told {
        through!(self, server => server.cast(say).await.map(|()| None))
    }

    pub(super) async fn priority_cast(&self, say: Say) -> Told {
        through!(self, server => server.priority_cast(say).await.map(|()| None))
    }

    pub(super) async fn cast_all(&self, all: Vec<Say>) -> Told {
        through!(self, server => server.cast_all(all).await.map(|()| None))
    }

    pub(super) fn cast_nowait(&self, say: Say) -> Result<(), ServerError> {
        through!(self, server => server.cast_nowait(say))
    }

    pub(super) async fn cast_after(&self, delay: Duration, say: Say) -> Result<Timer, ServerError> {
        through!(self, server => server.cast_after(delay, say).await)
    }

    pub(super) async fn asked(&self) -> Result<BTreeMap<String, ReplyTo<Reply>>, ServerError> {
        through!(self, server => server.read(|page: &Page| page.asked.clone()).await)
    }

    pub(super) async fn page<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Page) -> T + Send + 'static,
    ) -> Result<T, ServerError> {
        through!(self, server => server.read(look).await)
    }

    pub(super) async fn status(&self) -> Result<Option<Status>, ServerError> {
        through!(self, server => server.status().await)
    }

    pub(super) async fn stop(&self) -> Result<bool, ServerError> {
        through!(self, server => server.stop("to see what waits").await)
    }

    pub(super) async fn start(&self) -> Result<bool, ServerError> {
        through!(self, server => server.start().await)
    }

    pub(super) async fn unlock(&self) -> Result<bool, ServerError> {
        through!(self, server => server.unlock().await)
    }

    pub(super) async fn delete(&self) -> Result<bool, ServerError> {
        through!(self, server => server.delete().await)
    }

    pub(super) async fn dead_letters(&self) -> Result<Vec<DeadLetter>, ServerError> {
        through!(self, server => server.dead_letters(None, 10).await)
    }

    pub(super) async fn replay(&self, number: u64) -> Result<bool, ServerError> {
        through!(self, server => server.replay(number).await)
    }

    pub(super) async fn drop_dead_letter(&self, number: u64) -> Result<bool, ServerError> {
        through!(self, server => server.drop_dead_letter(number).await)
    }
}
