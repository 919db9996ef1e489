//! The conformance suite on a real server: direct, through a pooler in transaction mode, and on a server whose clock jumps.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tenure_postgres::PostgresStore;
use tenure_store::{Store, testkit::Handles};

mod schemas;

/// A store in a schema of its own.
async fn open(url: &str, count: usize) -> Handles {
    static CASES: AtomicU64 = AtomicU64::new(0);
    let case = CASES.fetch_add(1, Ordering::SeqCst);
    let schema = schemas::Schema::new(url, &format!("case_{}_{case}", std::process::id()));
    let url = schema.url("&connections=3&readers=1");
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..count {
        stores.push(Arc::new(PostgresStore::open(&url).await.expect("the store opens")));
    }
    Handles::new(stores, schema)
}

mod direct {
    async fn open(count: usize) -> super::Handles {
        super::open(&tenure_testbed::postgres(), count).await
    }

    tenure_store::conformance!(open);
}

mod pooled {
    async fn open(count: usize) -> super::Handles {
        super::open(&tenure_testbed::pgbouncer(), count).await
    }

    tenure_store::conformance!(open);
}

/// On a server whose clock goes back and forth by an hour all the time.
mod jumping {
    use std::{sync::OnceLock, thread, time::Duration};

    use tenure_testbed::{Options, Postgres};

    /// How long the clock goes on before it jumps again.
    const PAUSE: Duration = Duration::from_millis(100);

    fn server() -> &'static Postgres {
        static SERVER: OnceLock<Postgres> = OnceLock::new();
        let mut started = false;
        let server = SERVER.get_or_init(|| {
            started = true;
            Postgres::start_with(&Options { faketime: true, ..Options::default() })
                .expect("the server starts")
        });
        if started {
            thread::spawn(|| {
                for hours in [0, 1, 0, -1].into_iter().cycle() {
                    server.step_clock(hours * 3600).expect("the clock jumps");
                    thread::sleep(PAUSE);
                }
            });
        }
        server
    }

    async fn open(count: usize) -> super::Handles {
        super::open(&server().url(), count).await
    }

    tenure_store::conformance!(open);
}
