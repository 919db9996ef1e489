//! The conformance suite on a server whose clock steps back and forth by an hour all the time: no clock decides anything.

mod databases;

use std::{net::TcpStream, sync::OnceLock, thread, time::Duration};

use databases::Database;
use tenure_store::testkit::Handles;
use tenure_testbed::{MariaDb, Options};

/// How much of the server's log is shown when it is gone.
const LOG_BYTES: usize = 8192;

/// How long the clock stays as it is.
const STEP: Duration = Duration::from_millis(50);

/// The one server of this process; the thread that steps its clock ends with the process.
fn server() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    static STEPPING: OnceLock<()> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        // By this, MariaDB ends itself when somebody has waited for a table's definition for ten minutes, which it measures by the clock
        // that steps here.
        let options = Options { faketime: true, ..Options::default() }
            .setting("innodb-fatal-semaphore-wait-threshold", "4294967295");
        MariaDb::start_with(&options).expect("a server whose clock can be stepped")
    });
    STEPPING.get_or_init(|| {
        thread::spawn(move || {
            for hours in [0, 1, 0, -1].into_iter().cycle() {
                if server.step_clock(hours * 3600).is_err() {
                    return;
                }
                thread::sleep(STEP);
            }
        });
    });
    server
}

async fn open(count: usize) -> Handles {
    if let Err(error) = TcpStream::connect(("127.0.0.1", server().port())) {
        let log = server().log();
        panic!("the server is gone: {error}; it logged: {}", &log[log.len().saturating_sub(LOG_BYTES)..]);
    }
    Database::create(&[server().url()]).await.handles(count).await
}

tenure_store::conformance!(open);
