//! [`Schema`]: a schema for one test, gone with it.

#![allow(dead_code, reason = "not every test file needs all of it")]
#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use tokio_postgres::{Client, NoTls};

/// The name of a schema, which is dropped with this value.
pub(crate) struct Schema {
    url: String,
    name: String,
}

impl Schema {
    /// A schema of this name on the server at this URL. Whoever opens a store there makes it.
    pub(crate) fn new(url: &str, name: &str) -> Self {
        Self { url: url.to_owned(), name: name.to_owned() }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The URL of a store in the schema, with more options.
    pub(crate) fn url(&self, options: &str) -> String {
        format!("{}?schema={}{options}", self.url, self.name)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let statement = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name);
        let url = self.url.clone();
        // On a thread of its own: this one may be running tasks.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { connect(&url).await.batch_execute(&statement).await })
        });
        if let Ok(Err(error)) = dropping.join() {
            panic!("{} could not be dropped: {error}", self.name);
        }
    }
}

/// A plain connection, to look at the server from outside.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
