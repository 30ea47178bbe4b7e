//! The suite that every store passes.

use std::sync::Arc;

use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::conformance::{Doing, Harness, cases};
use retrial::store::{DynStore, PostgresOptions};
use retrial::time::Nanos;

use super::kit::{Store, connect, new_schema};

struct OnAServer {
    options: PostgresOptions,
    store: Option<Arc<Store>>,
}

impl Harness for OnAServer {
    fn store(&self) -> DynStore {
        DynStore::new(Arc::clone(self.store.as_ref().unwrap()))
    }

    fn sleep(&self, by: Nanos) -> Doing<'_, ()> {
        let runtime = TokioRuntime::current();
        // The server's clock and ours may differ a little in how fast they go.
        let at = runtime.now().after(by.saturating_add(Nanos::from_millis(1)));
        Box::pin(async move { runtime.sleep_until(at).await })
    }

    fn reopen(&mut self) -> Doing<'_, bool> {
        Box::pin(async {
            Arc::into_inner(self.store.take().unwrap()).unwrap().close().await;
            self.store = Some(Arc::new(connect(&self.options).await));
            true
        })
    }

    fn keeps_reservations(&self) -> bool {
        true
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn the_postgres_store_conforms() {
    let mut wrong = Vec::new();
    for case in cases() {
        let options = new_schema();
        let store = Some(Arc::new(connect(&options).await));
        let mut harness = OnAServer { options, store };
        if let Err(why) = (case.run)(&mut harness).await {
            wrong.push(format!("{}: {why}", case.name));
        }
        Arc::into_inner(harness.store.take().unwrap()).unwrap().close().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
