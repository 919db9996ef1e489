//! [`AnyServer`]: a server of which this program knows no more than its kind and its name.

use tenure_cluster::Cluster;
use tenure_store::{Name, StoreError};

use crate::{
    CallOptions, Context, DeadLetter, Failure, Json, Never, Server, ServerError, ServerRef, Status,
    servers::Servers,
};

/// A server whose code is elsewhere. Its messages go through its queue, to whoever serves its kind.
#[derive(Clone, Debug)]
pub struct AnyServer(ServerRef<Opaque>);

/// A kind whose code is elsewhere.
#[derive(Debug)]
struct Opaque;

impl Server for Opaque {
    const KIND: &'static str = "any";
    const SCHEMA: u32 = 0;
    type State = u64;
    type Call = Json;
    type Reply = Json;
    type Cast = Json;
    type Effect = Never;

    fn handle_call(&self, _: &mut u64, _: &Json, _: &mut Context<'_, Self>) -> Result<Option<Json>, Failure> {
        Err(Failure::new("the code of this server is elsewhere"))
    }

    fn handle_cast(&self, _: &mut u64, _: &Json, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        Err(Failure::new("the code of this server is elsewhere"))
    }
}

impl AnyServer {
    /// The server of this kind and name.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when one of them is no [`Name`].
    pub fn new(cluster: &Cluster, kind: &str, id: &str) -> Result<Self, StoreError> {
        Ok(Self(ServerRef::new(Servers::of(cluster), kind.parse()?, id.parse()?)?))
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &Name {
        self.0.id()
    }

    /// Asks, and waits for the answer; past the queue, if it is urgent.
    ///
    /// # Errors
    /// See [`ServerError`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer; what was sent is carried out all the same.
    pub async fn call(&self, call: Json, options: CallOptions, urgent: bool) -> Result<Json, ServerError> {
        match urgent {
            true => self.0.priority_call(call, options).await,
            false => self.0.call_with(call, options).await,
        }
    }

    /// Sends, and returns when it is durable; past the queue, if it is urgent.
    ///
    /// # Errors
    /// See [`ServerError`]. After [`ServerError::OutcomeUnknown`] it may have been sent.
    pub async fn cast(&self, cast: Json, urgent: bool) -> Result<(), ServerError> {
        match urgent {
            true => self.0.priority_cast(cast).await,
            false => self.0.cast(cast).await,
        }
    }

    /// See [`ServerRef::status`].
    ///
    /// # Errors
    /// As there.
    pub async fn status(&self) -> Result<Option<Status>, ServerError> {
        self.0.status().await
    }

    /// See [`ServerRef::dead_letters`].
    ///
    /// # Errors
    /// As there.
    pub async fn dead_letters(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, ServerError> {
        self.0.dead_letters(after, limit).await
    }

    /// See [`ServerRef::replay`].
    ///
    /// # Errors
    /// As there.
    pub async fn replay(&self, number: u64) -> Result<bool, ServerError> {
        self.0.replay(number).await
    }

    /// See [`ServerRef::drop_dead_letter`].
    ///
    /// # Errors
    /// As there.
    pub async fn drop_dead_letter(&self, number: u64) -> Result<bool, ServerError> {
        self.0.drop_dead_letter(number).await
    }

    /// See [`ServerRef::unlock`].
    ///
    /// # Errors
    /// As there.
    pub async fn unlock(&self) -> Result<bool, ServerError> {
        self.0.unlock().await
    }

    /// See [`ServerRef::delete`].
    ///
    /// # Errors
    /// As there.
    pub async fn delete(&self) -> Result<bool, ServerError> {
        self.0.delete().await
    }
}
