//! [`HttpLease`]: a lease service over HTTP, such as `tenure serve` or any other with the same three routes.
//!
//! | route | body | means |
//! | --- | --- | --- |
//! | `POST {base}/locks/{name}/claim` | `{"holder": ..., "ttl_ms": ...}` | 200 held, 409 held by another |
//! | `POST {base}/locks/{name}/refresh` | `{"holder": ..., "term": ...}` | 200 held, 409 lost |
//! | `DELETE {base}/locks/{name}` | `{"holder": ...}` | 204 given up |
//!
//! Every other answer, and none, is unknown. What a service says beyond that is used: `term`, the fencing token; `ttl_ms` and `refresh_after_ms`; `holder` and
//! `retry_after_ms` of a refusal. To a service that says none of it the body has only `holder` ([`HttpSettings::plain`]), and the settings say how long a lease
//! lives there.
//!
//! # What it promises
//! The [contract of an oracle](tenure_singleton::oracle), if the service keeps its own: a lease lives for its ttl after the last renewal, by whatever clock. A grant counts from
//! before the request was sent. The holder is unique for each oracle, so two processes of one name are two.

mod ask;
mod settings;

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tenure_singleton::{Answer, Grant, Oracle};
use tenure_store::{Env, StoreError};

pub use settings::HttpSettings;

use crate::candidate;
use ask::{Client, Method, Reply};

/// A candidate for a lease of a service: see [`HttpSettings`] for what it needs to know.
#[derive(Debug)]
pub struct HttpLease {
    settings: HttpSettings,
    client: Client,
    holder: String,
    /// Whether a release may still be under way, and take what this holder claims anew.
    doubtful: bool,
    /// The term that was granted last.
    term: Option<u64>,
}

/// What a service may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    term: Option<u64>,
    ttl_ms: Option<u64>,
    refresh_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    holder: Option<String>,
}

impl HttpLease {
    /// A candidate with these settings. Nothing is connected to yet.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the settings break a rule, or TLS can't be set up.
    pub fn new(settings: HttpSettings) -> Result<Self, StoreError> {
        settings.validate()?;
        let holder = match &settings.holder {
            Some(holder) => holder.to_string(),
            None => candidate::incarnation(&settings.node, &Env::system()),
        };
        let client = Client::new(&settings)?;
        Ok(Self { settings, client, holder, doubtful: false, term: None })
    }

    /// Who we are to the service.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.holder
    }

    fn body(&self, more: &[(&str, Value)]) -> Value {
        let mut body = Map::new();
        body.insert("holder".into(), json!(self.holder));
        if !self.settings.plain {
            body.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        Value::Object(body)
    }

    async fn ask(&self, method: Method, route: &str, body: Value) -> Result<Reply, String> {
        let path =
            format!("{}/locks/{}{route}", self.settings.base, ask::escape(self.settings.lock.as_str()));
        self.client.ask(method, &path, &body).await
    }

    fn understand(&mut self, reply: Result<Reply, String>) -> Answer {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return Answer::unknown(error),
        };
        // A service need not say anything, nor say it in JSON.
        let said: Said = serde_json::from_slice(&reply.body).unwrap_or_default();
        match reply.status {
            200 => {
                let ttl = said.ttl_ms.map_or(self.settings.ttl, Duration::from_millis);
                let usual = self.settings.refresh.min(ttl / 3);
                self.term = said.term;
                Answer::Granted(Grant {
                    refresh_after: Some(
                        said.refresh_after_ms.map_or(usual, Duration::from_millis).min(ttl / 2),
                    ),
                    term: said.term,
                    ..Grant::lasting(ttl)
                })
            }
            409 => {
                let retry = said.retry_after_ms.map_or(self.settings.refresh, Duration::from_millis);
                // Neither at once again and again, nor so late that a free lease stays so.
                let retry = retry.clamp(RETRY_LEAST, self.settings.refresh.max(RETRY_LEAST));
                Answer::Denied { retry_after: Some(retry), holder: said.holder }
            }
            status => Answer::unknown(format!("the service answers with status {status}")),
        }
    }
}

/// The shortest pause before a lease is asked for again.
const RETRY_LEAST: Duration = Duration::from_millis(100);

#[async_trait]
impl Oracle for HttpLease {
    async fn claim(&mut self) -> Answer {
        if std::mem::take(&mut self.doubtful) && self.settings.holder.is_none() {
            self.holder = candidate::incarnation(&self.settings.node, &Env::system());
        }
        let ttl = u64::try_from(self.settings.ttl.as_millis()).unwrap_or(u64::MAX);
        let body = self.body(&[("ttl_ms", json!(ttl))]);
        let reply = self.ask(Method::Post, "/claim", body).await;
        self.understand(reply)
    }

    async fn refresh(&mut self) -> Answer {
        let body = self.term.map_or_else(|| self.body(&[]), |term| self.body(&[("term", json!(term))]));
        let reply = self.ask(Method::Post, "/refresh", body).await;
        self.understand(reply)
    }

    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        // Some proxies drop the body of a DELETE.
        let query = if self.settings.plain {
            String::new()
        } else {
            format!("?holder={}", ask::escape(&self.holder))
        };
        self.doubtful = true;
        match self.ask(Method::Delete, &query, self.body(&[])).await {
            // Somebody else's, or nobody's: it is not ours in any case.
            Ok(Reply { status: 200 | 204 | 404 | 409 | 410, .. }) => {
                self.doubtful = false;
                Answer::Denied { retry_after: None, holder: None }
            }
            Ok(Reply { status, .. }) => Answer::unknown(format!("the service answers with status {status}")),
            Err(error) => Answer::unknown(error),
        }
    }
}
