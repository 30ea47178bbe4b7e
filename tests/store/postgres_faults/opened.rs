//! The store under test.

use retrial::runtime::TokioRuntime;
use retrial::store::{PostgresOptions, PostgresStore};
use retrial::time::Nanos;

pub(crate) type Opened = PostgresStore;

/// The store at `url`, which gives up sooner than is useful elsewhere.
pub(crate) async fn open(url: &str) -> Opened {
    let mut options = PostgresOptions::from_url(url).unwrap();
    options.lock_timeout = Nanos::from_secs(1);
    options.statement_timeout = Nanos::from_secs(2);
    options.idle_in_transaction = Nanos::from_secs(3);
    options.connect_timeout = Nanos::from_secs(2);
    PostgresStore::connect(TokioRuntime::current(), options).await.unwrap()
}
