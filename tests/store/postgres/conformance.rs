//! The suite that every store passes.

use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::PostgresOptions;
use retrial::store::conformance::{Harness, cases};
use retrial::time::Nanos;

use super::kit::{Store, connect, new_schema};

struct OnAServer {
    options: PostgresOptions,
    store: Option<Store>,
}

impl Harness for OnAServer {
    type Store = Store;

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    async fn sleep(&self, by: Nanos) {
        let runtime = TokioRuntime::current();
        // The server's clock and ours may differ a little in how fast they go.
        runtime.sleep_until(runtime.now().after(by.saturating_add(Nanos::from_millis(1)))).await;
    }

    async fn reopen(&mut self) -> bool {
        self.store.take().unwrap().close().await;
        self.store = Some(connect(&self.options).await);
        true
    }

    fn keeps_reservations(&self) -> bool {
        true
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn the_postgres_store_conforms() {
    let mut wrong = Vec::new();
    for case in cases::<OnAServer>() {
        let options = new_schema();
        let store = Some(connect(&options).await);
        let mut harness = OnAServer { options, store };
        if let Err(why) = (case.run)(&mut harness).await {
            wrong.push(format!("{}: {why}", case.name));
        }
        harness.store.take().unwrap().close().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
