//! One server for all tests of this binary, and stores on it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::{PostgresOptions, PostgresStore};

use retrial_testkit::postgres_server::Server;

pub(crate) type Store = PostgresStore<TokioRuntime>;

/// The server. Its shell stops it when the process ends.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// A schema of its own in the server's first database.
pub(crate) fn new_schema() -> PostgresOptions {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let schema = format!("schema_{}", MADE.fetch_add(1, Ordering::Relaxed));
    options("postgres").schema(&schema).unwrap()
}

pub(crate) fn options(database: &str) -> PostgresOptions {
    PostgresOptions::from_url(&server().url(database)).unwrap()
}

pub(crate) async fn connect(options: &PostgresOptions) -> Store {
    connect_in(TokioRuntime::current(), options).await
}

pub(crate) async fn connect_in<R: Runtime>(
    runtime: R,
    options: &PostgresOptions,
) -> PostgresStore<R> {
    PostgresStore::connect(runtime, options.clone()).await.unwrap()
}

/// The schema that the options name.
pub(crate) fn schema_of(options: &PostgresOptions) -> String {
    let shown = format!("{options:?}");
    let (_, rest) = shown.split_once("schema: \"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}
