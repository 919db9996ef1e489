//! What is measured, in the format of Prometheus. `docs/operate/metrics.md` lists all of it.

use std::{fmt::Write as _, time::Duration};

use anyhow::Context as _;
use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tenure::store::Env;
use tracing::Instrument as _;

/// Where times are counted.
const SECONDS: [f64; 14] =
    [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0];

/// Where sizes of batches and queues are counted.
const COUNTS: [f64; 8] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0];

/// How often what was counted is made ready.
const UPKEEP: Duration = Duration::from_secs(5);

/// Begins to measure, for the whole process.
///
/// # Errors
/// When somebody else does.
pub(crate) fn install(env: Env) -> anyhow::Result<PrometheusHandle> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_messages".to_owned()), &COUNTS)?
        .set_buckets_for_metric(Matcher::Suffix("_operations".to_owned()), &COUNTS)?
        .set_buckets_for_metric(Matcher::Suffix("_changes".to_owned()), &COUNTS)?;
    let handle = builder.install_recorder().context("can't measure")?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            env.sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

/// Counts a request, under its route: what clients make up is no label.
pub(crate) async fn measure(State(env): State<Env>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", |path| path.as_str()).to_owned();
    let method = match request.method().as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        _ => "other",
    };
    #[cfg(feature = "otel")]
    let span = super::otlp::span(&request, method, &route);
    #[cfg(not(feature = "otel"))]
    let span = tracing::Span::none();
    let begun = env.now();
    let response = next.run(request).instrument(span.clone()).await;
    #[cfg(feature = "otel")]
    super::otlp::answered(&span, response.status());
    let status = response.status().as_u16().to_string();
    let took = env.now() - begun;
    tracing::debug!(method, route, status, ?took, "answered");
    metrics::counter!("tenure_http_requests_total", "method" => method, "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("tenure_http_request_seconds", "method" => method, "route" => route)
        .record(took.as_secs_f64());
    response
}

/// A gauge that is one higher while this exists.
#[derive(Debug)]
pub(crate) struct Raised(&'static str);

impl Raised {
    pub(crate) fn new(gauge: &'static str) -> Self {
        metrics::gauge!(gauge).increment(1.0);
        Self(gauge)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        metrics::gauge!(self.0).decrement(1.0);
    }
}

/// Gauges that are told once: what they tell of may be gone at the next time, and a recorder would keep it for ever.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    text: String,
    last: &'static str,
}

impl Gauges {
    /// One row. Those of one gauge come one after another.
    pub(crate) fn tell(&mut self, gauge: &'static str, labels: &[(&str, &str)], value: f64) {
        // Nothing that is written to a text can fail.
        if self.last != gauge {
            let _ = writeln!(self.text, "# TYPE {gauge} gauge");
            self.last = gauge;
        }
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{gauge}{labels} {value}");
    }

    /// All that was told.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A count as gauges have it.
#[allow(clippy::cast_precision_loss, reason = "nobody has so many")]
pub(crate) fn count(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_gauge_stand_below_its_type_and_labels_are_escaped() {
        let mut gauges = Gauges::default();
        gauges.tell("a", &[("kind", "x\"y\\z\n")], 1.0);
        gauges.tell("a", &[("kind", "b"), ("of", "c")], 0.25);
        gauges.tell("b", &[], 3.0);
        let expected = "# TYPE a gauge\na{kind=\"x\\\"y\\\\z\\n\"} 1\na{kind=\"b\",of=\"c\"} 0.25\n# TYPE b gauge\nb 3\n";
        assert_eq!(gauges.into_text(), expected);
    }
}
