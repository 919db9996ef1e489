//! What the daemon measures, with nobody looking at its page.

use crate::{
    daemon::{Daemon, store_in},
    keeper::Keeper,
};

/// Elections that somebody leads.
const ELECTIONS: u32 = 1000;

#[test]
fn metrics_are_complete_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &["--node", "d\"1"]);
    let mut keeper = Keeper::join(&store_in(folder.path()));
    keeper.refuse(&[700, 900]);
    keeper.furnish();
    keeper.lead(ELECTIONS);
    let metrics = daemon.metrics();
    let measured = |row: &str| -> f64 {
        let value = metrics.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{row} is missing:\n{metrics}")).parse().unwrap()
    };
    let is = |row: &str| assert!(metrics.lines().any(|line| line == row), "{row} is missing:\n{metrics}");
    is("tenure_cluster_members{state=\"live\"} 2");
    is("tenure_cluster_members{state=\"gone\"} 0");
    assert!(measured("tenure_cluster_elections{state=\"led\"}") >= f64::from(ELECTIONS));
    is("tenure_cluster_dead_letters{kind=\"picky\"} 2");
    is("tenure_cluster_consumers{kind=\"picky\"} 1");
    is("tenure_cluster_registries 1");
    // The server that is stopped keeps what is sent to it.
    assert!(measured("tenure_cluster_queue_messages{kind=\"picky\"}") >= 1.0);
    assert!(measured("tenure_cluster_queue_age_seconds{kind=\"picky\"}") > 0.0);
    assert!(measured("tenure_cluster_busy_servers{kind=\"picky\"}") >= 1.0);
    assert!(measured("tenure_session_remaining_seconds{node=\"d\\\"1\"}") > 0.0);
    assert!(measured("tenure_http_connections") >= 1.0);
    assert!(metrics.contains("tenure_build_info{version="), "{metrics}");
    assert!(metrics.contains("tenure_store_commits_total{"), "the store is measured: {metrics}");
    assert!(!metrics.contains("quantile="), "histograms have buckets: {metrics}");
    // Each is told once, as the format demands.
    let mut types: Vec<&str> = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all, "{metrics}");
}

#[test]
fn what_holders_of_leases_call_themselves_is_no_label() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &[]);
    let _other = Daemon::start(folder.path(), &["--node", "other"]);
    let claim = r#"{"holder": "made-up", "ttl_ms": 60000}"#;
    let seen = "tenure_member_last_heartbeat_timestamp_seconds{node=\"other\"}";
    // By then, the daemon has looked at leases as often as at members.
    let (mut last, mut looks) = (None, 0);
    while looks < 3 {
        assert_eq!(daemon.ask("POST", "/locks/x/claim", "", claim).status, 200);
        std::thread::sleep(std::time::Duration::from_millis(100));
        let now = daemon.measured(seen);
        looks += usize::from(now != last);
        last = now;
    }
    let metrics = daemon.metrics();
    assert!(!metrics.contains("made-up"), "{metrics}");
    assert_eq!(daemon.measured("tenure_cluster_elections{state=\"led\"}"), Some(1.0));
}
