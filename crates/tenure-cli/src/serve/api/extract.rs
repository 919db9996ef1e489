//! What requests say, and how they are refused if that is nothing.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts},
};
use serde::de::DeserializeOwned;
use tenure::store::Name;

use crate::serve::problem::Problem;

/// What stands in the path.
pub(in crate::serve) struct Named<T>(pub(in crate::serve) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Path::<T>::from_request_parts(parts, state).await;
        found
            .map(|path| Self(path.0))
            .map_err(|error| Problem::invalid(format!("the path: {}", error.body_text())))
    }
}

/// What stands behind the question mark.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Query::<T>::from_request_parts(parts, state).await;
        found
            .map(|query| Self(query.0))
            .map_err(|error| Problem::invalid(format!("the query: {}", error.body_text())))
    }
}

/// What the body says, as JSON.
pub(super) struct Said<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequest<S> for Said<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let words = "the body is not said to be JSON: send Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "no JSON", words));
        }
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| Problem::invalid(format!("the body: {}", error.body_text())))?;
        object(&body).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE).and_then(|said| said.to_str().ok()).unwrap_or_default();
    let sort = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    sort == "application/json" || (sort.starts_with("application/") && sort.ends_with("+json"))
}

/// Reads a JSON object. Without its members' names, as an array, nobody could tell what is meant.
pub(in crate::serve) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::invalid("the body is no JSON object: send {...}"));
    }
    serde_json::from_slice(body).map_err(|error| Problem::invalid(format!("the body: {error}")))
}

/// A name, as users may call things.
pub(super) fn name(text: &str) -> Result<Name, Problem> {
    Ok(text.parse::<Name>()?)
}

pub(super) async fn no_such_route(uri: Uri) -> Problem {
    Problem::absent(format!("there is nothing at {}: see /openapi.json", uri.path()))
}

pub(super) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let words = format!("{} does not take {method}: see /openapi.json", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong method", words)
}
