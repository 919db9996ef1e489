//! `tenure doctor`: whether a store can be relied on, and what it promises.
//!
//! `measure.rs` asks the store, `promise.rs` says what the answers mean.

mod measure;
mod promise;

use std::time::Duration;

use clap::Args;
use tenure::{cluster::Settings, store::Name};

use self::measure::Sample;
use super::Common;
use crate::{
    exit::Exit,
    options::duration,
    output::Table,
    views::{Assumed, Diagnosis, Finding, Latency, StoreLimits, Verdict, millis},
};

/// Check a store, and tell what failover times and costs to expect of it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
It connects, writes to a key range of its own and removes what it wrote, and measures how long reads, commits and wakings take, from here and just now. \
It ends with 107 if something must be changed.

  tenure doctor --store postgres://host/db --ttl 6s --nodes 200")]
pub(crate) struct DoctorOptions {
    /// The ttl to think of: how long a session lives without being renewed
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = duration)]
    ttl: Duration,

    /// How often a session is renewed [default: a third of the ttl]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    heartbeat: Option<Duration>,

    /// How many nodes to think of [default: those that are there, or 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    nodes: Option<u64>,

    /// How often to measure each
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    samples: u64,

    #[command(flatten)]
    common: Common,
}

pub(crate) async fn perform(options: DoctorOptions) -> anyhow::Result<Exit> {
    let (cluster, settings) = (options.common.store.cluster.parse::<Name>()?, options.settings()?);
    let sample = Sample::take(&options.common.store, &cluster, options.samples).await?;
    let diagnosis = diagnose(&options, &settings, &sample);
    let healthy = diagnosis.healthy;
    options.common.output.print(&diagnosis, text)?;
    Ok(if healthy { Exit::DONE } else { Exit::Unwell })
}

impl DoctorOptions {
    /// The settings to think of, as a node would have them.
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = Settings::new(&self.common.store.cluster, "doctor")?.with_ttl(self.ttl);
        if let Some(heartbeat) = self.heartbeat {
            settings.renewal_interval = heartbeat;
            // Halfway between the heartbeat and the ttl, so that only these two are judged.
            settings.liveness_window = (heartbeat + self.ttl) / 2;
        }
        settings.validate()?;
        Ok(settings)
    }
}

fn diagnose(options: &DoctorOptions, settings: &Settings, sample: &Sample) -> Diagnosis {
    let assumed = Assumed {
        ttl_ms: millis(settings.ttl),
        heartbeat_ms: millis(settings.renewal_interval),
        nodes: options.nodes.unwrap_or_else(|| sample.members.live().max(3)),
    };
    let mut checks = sample.findings.clone();
    let costs = promise::costs(&assumed, &sample.measured);
    checks.extend(promise::judge(&assumed, &sample.measured, &costs));
    checks.extend(sample.members.judge(settings.ttl));
    Diagnosis {
        cluster: options.common.store.cluster.clone(),
        store: options.common.store.kind().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        healthy: checks.iter().all(|finding| finding.verdict != Verdict::Bad),
        promises: promise::promises(&assumed, &sample.measured),
        measured: sample.measured,
        limits: StoreLimits::from(sample.limits),
        settings: assumed,
        checks,
        costs,
    }
}

fn finding(check: &str, verdict: Verdict, text: impl Into<String>, advice: Option<String>) -> Finding {
    Finding { check: check.to_owned(), verdict, text: text.into(), advice }
}

fn text(diagnosis: &Diagnosis) -> String {
    let mut text = format!("cluster {} ({})\n\n", diagnosis.cluster, diagnosis.store);
    for finding in &diagnosis.checks {
        let mark = match finding.verdict {
            Verdict::Good => "ok  ",
            Verdict::Doubtful => "hmm ",
            Verdict::Bad => "BAD ",
        };
        text += &format!("{mark} {}: {}\n", finding.check, finding.text);
        if let Some(advice) = &finding.advice {
            text += &format!("     {advice}\n");
        }
    }
    let mut table = Table::new(&["measured", "median", "worst"]);
    let rows = [
        ("read", &diagnosis.measured.read),
        ("commit", &diagnosis.measured.commit),
        ("commit that wakes another", &diagnosis.measured.waking),
    ];
    for (what, Latency { median_ms, worst_ms, .. }) in rows {
        table.row([what.to_owned(), ms(*median_ms), ms(*worst_ms)]);
    }
    let Assumed { ttl_ms, heartbeat_ms, nodes } = diagnosis.settings;
    text += &format!("\n{}\n", table.text(""));
    text += &format!(
        "With a ttl of {}, renewed every {}, nobody leads for about (a busy machine takes longer):\n",
        ms_of(ttl_ms),
        ms_of(heartbeat_ms)
    );
    for promise in &diagnosis.promises {
        let range = format!("{} to {}", ms(promise.from_ms), ms(promise.to_ms));
        text += &format!("  {range:<16}  {}:\n  {:16}  {}\n", promise.case, "", promise.text);
    }
    let costs = &diagnosis.costs;
    text += &format!(
        "\n{nodes} nodes cost {:.1} commits a second at rest, however many offices they hold: {:.1} % of the {:.0} that were measured.\n",
        costs.commits_per_second,
        costs.share * 100.0,
        diagnosis.measured.commits_per_second
    );
    text
}

/// Milliseconds for people.
fn ms(ms: f64) -> String {
    match ms {
        ..1.0 => format!("{ms:.2}ms"),
        ..10.0 => format!("{ms:.1}ms"),
        ..1000.0 => format!("{ms:.0}ms"),
        _ => format!("{:.1}s", ms / 1000.0),
    }
}

#[allow(clippy::cast_precision_loss, reason = "it is for people")]
fn ms_of(time: u64) -> String {
    ms(time as f64)
}
