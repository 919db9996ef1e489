//! [`Problem`]: an error as HTTP tells it, by RFC 9457.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use tenure::{cluster::ClusterError, store::StoreError};

/// What went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    title: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    more: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into(), retry_after: None, more: Map::new() }
    }

    /// The request breaks a rule.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid request", detail)
    }

    /// With one more member.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// To be tried again after this.
    pub(crate) fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }
}

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Store(StoreError::Invalid(reason)) => Self::invalid(reason.to_string()),
            error => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the store could not be asked", error.to_string())
                    .retry_after(Duration::from_secs(1))
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = self.more;
        body.insert("title".into(), json!(self.title));
        body.insert("status".into(), json!(self.status.as_u16()));
        body.insert("detail".into(), json!(self.detail));
        let mut response = (self.status, Json(Value::Object(body))).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(time) = self.retry_after {
            // Whole seconds, and never too early.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
