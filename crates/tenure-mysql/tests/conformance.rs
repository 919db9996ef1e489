//! The conformance suite on MariaDB and on a Galera cluster of three nodes, over which the handles are spread.

mod databases;

use databases::Database;
use tenure_store::testkit::Handles;

mod mariadb {
    use super::*;

    async fn open(count: usize) -> Handles {
        Database::create(&[tenure_testbed::mariadb()]).await.handles(count).await
    }

    tenure_store::conformance!(open);
}

mod galera {
    use super::*;

    async fn open(count: usize) -> Handles {
        Database::create(&tenure_testbed::galera()).await.handles(count).await
    }

    tenure_store::conformance!(open);
}
