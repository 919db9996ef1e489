//! `tenure run --oracle`: somebody else decides.

use nix::sys::signal::Signal;
use tenure::store::Env;
use tenure_singleton::Answer;

use crate::office::{Office, PATIENCE, Run, await_that, lives};

/// A lease service, and the URL of its leases.
fn service(office: &Office) -> (Run, String) {
    let words = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:leases.db"];
    let daemon = office.start_program(env!("CARGO_BIN_EXE_tenure"), &words);
    let mut url = None;
    await_that("it says where it serves", || {
        url = daemon.out().trim().rsplit_once(' ').map(|(_, url)| url.to_owned());
        url.is_some()
    });
    (daemon, url.unwrap())
}

/// Leases that are shorter than the usual grace leave time for the command all the same.
#[test]
fn a_command_runs_for_longer_than_a_short_lease() {
    let office = Office::new();
    let (_daemon, url) = service(&office);
    let oracle = format!("--oracle={url}?ttl=3s");
    let mut run = office.start_shell(&[&oracle], "echo term $TENURE_TERM; sleep 5; echo done");
    assert_eq!(run.end(), 0, "{}", run.err());
    assert_eq!(run.out(), "term 1\ndone\n");
}

#[test]
fn the_command_runs_in_one_place_at_a_time_and_moves_on() {
    let office = Office::new();
    let (_daemon, url) = service(&office);
    let oracle = format!("--oracle={url}?ttl=3s&refresh=200ms");
    let script = "echo begins; sleep 4; echo ends";
    let mut first = office.start_shell(&[&oracle, "--node=one"], script);
    first.await_out("begins");
    let mut second = office.start_shell(&[&oracle, "--node=two"], script);
    second.await_err("waiting");
    assert_eq!(office.start(&[&oracle, "--no-wait"], &["true"]).end(), 100);
    assert_eq!(first.end(), 0, "{}", first.err());
    second.await_out("begins");
    assert_eq!(first.out(), "begins\nends\n");
    assert_eq!(second.end(), 0, "{}", second.err());
    assert_eq!(office.start(&[&oracle, "--no-wait"], &["true"]).end(), 0);
}

/// Whoever else is in the election, and knows nothing of guardians, can have the lease only when nothing is left of the command.
#[test]
fn a_run_that_stands_still_has_no_command_when_another_gets_its_lease() {
    let name = format!("job-{:016x}", Env::system().random_u64());
    for server in
        [format!("crown+{}", tenure_testbed::postgres()), format!("sofa+{}", tenure_testbed::mariadb())]
    {
        let url = format!("{server}?lock={name}&duration=4s&poll=20ms");
        let script = "trap '' TERM; echo $$; while :; do sleep 1; done";
        let run = Office::new().start_shell(&[&format!("--oracle={url}"), "--grace=1s"], script);
        run.await_out("\n");
        let command = run.out().trim().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let env = Env::system();
            let mut rival = tenure_oracles::open(&url, "job", "rival").unwrap();
            assert!(!matches!(rival.claim().await, Answer::Granted(_)), "{server}: it is led");
            run.signal(Signal::SIGSTOP);
            let end = env.now().after(PATIENCE);
            while !matches!(rival.claim().await, Answer::Granted(_)) {
                assert!(env.now() < end, "{server}: it is never free");
                env.sleep(std::time::Duration::from_millis(5)).await;
            }
            assert!(!lives(command), "{server}: another has the lease, and the command lives");
            rival.abdicate(None).await;
        });
    }
}

#[test]
fn an_oracle_that_nobody_knows_is_refused_before_anything_is_asked() {
    let mut run = Office::new().start(&["--oracle=dice://host"], &["true"]);
    assert_eq!(run.end(), 2);
    assert!(run.err().contains("no URL of an oracle"), "{}", run.err());
}
