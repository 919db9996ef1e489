//! Plain connections, for whoever keeps something else than a store in the same server.

use std::sync::Arc;

use mysql_async::Conn;
use tenure_store::{Env, StoreError};

use crate::{
    Settings,
    session::{self, Connector, Purpose},
};

/// Connects as a store with these settings would, without looking for a store there: to the first host that takes
/// writes, at READ COMMITTED, in UTC, and with a strict SQL mode.
///
/// # Errors
/// [`StoreError::Invalid`] for settings that can't work, and for a server or a user that needs to be set up;
/// [`StoreError::Unavailable`] when nobody answers, or only a replica.
pub async fn connect(settings: &Settings, env: &Env) -> Result<Conn, StoreError> {
    settings.validate()?;
    let connector = Connector::new(Arc::new(settings.clone()), env.clone())?;
    connector.connect(Purpose::Write).await.map(|session| session.conn)
}

/// Closes a connection without waiting for answers that are still to come, as dropping it would.
pub async fn disconnect(env: &Env, conn: Conn) {
    session::close(env, conn).await;
}
