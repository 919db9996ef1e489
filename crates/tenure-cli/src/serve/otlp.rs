//! `--otlp URL`: a span for each request, with those of the store below it, for a collector of OpenTelemetry.
//!
//! A request that comes with a `traceparent` goes on in its caller's trace. Spans are sent in batches, by a thread of their own; when the collector is away they are dropped, and nothing
//! waits for it. Headers, bodies, keys and values are in none of them.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use axum::{
    extract::Request,
    http::{self, HeaderValue, Uri, header},
};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use opentelemetry::{KeyValue, propagation::TextMapPropagator as _, trace::TracerProvider as _};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tenure::{cluster::Settings, store::Env};
use tokio::{net::TcpStream, runtime::Handle};
use tracing::{Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer as _, filter::Targets};

use super::logs::{Lines, SPANS};

/// How long a collector may take to take a batch.
const BATCH_TIME: Duration = Duration::from_secs(5);

/// The most bytes of its answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Where spans go.
#[derive(Args, Clone, Debug)]
pub(crate) struct OtlpOptions {
    /// Send a span for each request to a collector of OpenTelemetry, by OTLP over HTTP, such as `http://127.0.0.1:4318`
    #[arg(long, env = "TENURE_OTLP", value_name = "URL")]
    otlp: Option<String>,
}

/// What sends spans.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl OtlpOptions {
    /// Begins to send spans, if they are wanted: what sends them, and what gathers them.
    ///
    /// # Errors
    /// When the URL is none.
    pub(crate) fn start(&self, settings: &Settings, env: Env) -> anyhow::Result<Option<(Traces, Lines)>> {
        let Some(url) = &self.otlp else { return Ok(None) };
        let place: Uri = url.parse().with_context(|| format!("--otlp {url:?} is no URL"))?;
        ensure!(
            place.scheme_str() == Some("http") && place.host().is_some(),
            "--otlp {url:?} is not of the form http://host:port: name a collector on this machine, which may pass on by TLS"
        );
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client { runtime: Handle::current(), env })
            .with_endpoint(format!("{}/v1/traces", url.trim_end_matches('/')))
            .build()
            .context("--otlp")?;
        let resource = Resource::builder().with_service_name("tenure").with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", settings.node.to_string()),
            KeyValue::new("tenure.cluster", settings.cluster.to_string()),
        ]);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let spans = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("tenure"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            // Ours, and of what is below us those that begin with the same word.
            .with_filter(Targets::new().with_target("tenure", LevelFilter::DEBUG));
        Ok(Some((Traces(provider), spans.boxed())))
    }
}

impl Traces {
    /// Sends what is left.
    pub(crate) async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(BATCH_TIME)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// The span of a request, below that of its caller if there is one.
pub(crate) fn span(request: &Request, method: &'static str, route: &str) -> Span {
    let span = tracing::info_span!(
        target: SPANS,
        "http.request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = tracing::field::Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = tracing::field::Empty,
    );
    let caller = TraceContextPropagator::new().extract(&HeaderExtractor(request.headers()));
    // Nobody may want spans.
    let _ = span.set_parent(caller);
    span
}

/// What a request was answered.
pub(crate) fn answered(span: &Span, status: http::StatusCode) {
    // Signed: that is the only whole number of OpenTelemetry.
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "error");
    }
}

/// Sends batches.
#[derive(Debug)]
struct Client {
    runtime: Handle,
    env: Env,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let env = self.env.clone();
        // The thread that sends has no runtime.
        let sent = self.runtime.spawn(async move { env.timeout(BATCH_TIME, send(request)).await });
        sent.await??
    }
}

async fn send(request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().ok_or("the URL names no host")?.clone();
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    parts.headers.insert(header::HOST, HeaderValue::from_str(authority.as_str())?);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse()?;
    let answer = sender.send_request(http::Request::from_parts(parts, Full::new(body))).await?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok(http::Response::from_parts(parts, body))
}
