//! Plain connections, for whoever keeps something else than a store in the same server.

use std::sync::Arc;

use tenure_store::{Env, StoreError};
use tokio::sync::mpsc;
use tokio_postgres::Client;

use crate::{
    Settings,
    connection::{Connector, Link},
};

/// A connection to a primary at READ COMMITTED. It ends with this value, and does not wait for answers that are still
/// to come.
pub struct PlainConnection {
    link: Link,
    /// The payloads of messages.
    messages: mpsc::Receiver<String>,
}

/// Connects as a store with these settings would, without looking for a store there.
///
/// # Errors
/// [`StoreError::Invalid`] for settings that can't work, and for a server or a user that needs to be set up;
/// [`StoreError::Unavailable`] when nobody answers, or only a standby.
pub async fn connect(settings: &Settings, env: &Env) -> Result<PlainConnection, StoreError> {
    settings.validate()?;
    let connector = Connector::new(Arc::new(settings.clone()), env.clone())?;
    let (link, messages) = connector.connect_hearing().await?;
    Ok(PlainConnection { link, messages })
}

impl PlainConnection {
    /// What asks.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.link.client()
    }

    /// Whether the connection is known to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.link.is_lost()
    }

    /// The payload of the next message on a channel that was listened to; `None` once the connection is lost.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn message(&mut self) -> Option<String> {
        self.messages.recv().await
    }
}

impl Drop for PlainConnection {
    fn drop(&mut self) {
        self.link.abandon();
    }
}

impl std::fmt::Debug for PlainConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainConnection").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}
