//! [`Problem`]: an error as HTTP tells it, by RFC 9457.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value};
use tenure::{
    cluster::ClusterError,
    server::ServerError,
    store::{CommitError, StoreError},
};
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{ContentBuilder, Ref, RefOr, Response as Described, ResponseBuilder},
};

/// What went wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(serialize_with = "number")]
    #[schema(value_type = u16)]
    status: StatusCode,
    title: &'static str,
    /// Names the value, the rule and what to do.
    detail: String,
    #[serde(skip)]
    #[schema(ignore)]
    retry_after: Option<Duration>,
    #[serde(flatten)]
    #[schema(ignore)]
    more: Map<String, Value>,
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    pub(crate) fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into(), retry_after: None, more: Map::new() }
    }

    /// The request breaks a rule.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid request", detail)
    }

    /// There is no such thing.
    pub(crate) fn absent(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not found", detail)
    }

    /// It can't be done now.
    pub(crate) fn unavailable(title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, title, detail).retry_after(Duration::from_secs(1))
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

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(reason) => Self::invalid(reason.to_string()),
            error => Self::unavailable("the store could not be asked", error.to_string()),
        }
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Failed(error) => error.into(),
            error => Self::unavailable("the outcome is unknown", error.to_string()),
        }
    }
}

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Store(error) => error.into(),
            error => Self::unavailable("the store could not be asked", error.to_string()),
        }
    }
}

impl From<ServerError> for Problem {
    fn from(error: ServerError) -> Self {
        let detail = error.to_string();
        match error {
            ServerError::Invalid(_) => Self::invalid(detail),
            ServerError::Store(error) => error.into(),
            ServerError::TooLarge(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too large", detail),
            ServerError::Full { .. } => Self::new(StatusCode::CONFLICT, "the queue is full", detail)
                .retry_after(Duration::from_secs(1)),
            ServerError::Failed { .. } => Self::new(StatusCode::CONFLICT, "the server failed", detail),
            ServerError::Deleted(_) => Self::new(StatusCode::CONFLICT, "the server was deleted", detail),
            ServerError::Timeout { .. } => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "no answer in time", detail)
            }
            _ => Self::unavailable("the outcome is unknown", detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = retry_after {
            // Whole seconds, and never too early.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What every request may be answered, for the document.
#[derive(Debug)]
pub(crate) struct Refused;

/// What a request may be answered if there is something in its way.
#[derive(Debug)]
pub(crate) struct Conflicts;

fn described(description: &str) -> RefOr<Described> {
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", problem)
        .build()
        .into()
}

impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let all = [
            ("400", "The request breaks a rule"),
            ("401", "There is no token, or a wrong one"),
            ("403", "The role is too low, or the request is for another host"),
            ("404", "There is no such thing"),
            ("408", "The request took too long to arrive"),
            ("413", "The request is too large"),
            ("415", "The body is no JSON"),
            ("503", "The store could not be asked, or there is too much to do: try again"),
        ];
        all.into_iter().map(|(status, words)| (status.to_owned(), described(words))).collect()
    }
}

impl IntoResponses for Conflicts {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let all =
            [("409", "Something is in the way: the detail tells what"), ("504", "No answer came in time")];
        all.into_iter().map(|(status, words)| (status.to_owned(), described(words))).collect()
    }
}
