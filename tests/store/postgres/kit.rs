//! One server for all tests of this binary, and stores on it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use retrial::action::{ActionSet, HttpActions, Registry};
use retrial::net::TcpConnect;
use retrial::runtime::TokioRuntime;
use retrial::store::{DynStore, PostgresOptions, PostgresStore};

use retrial_testkit::postgres_server::Server;

pub(crate) type Store = PostgresStore;

/// The world of every engine of this binary: the engine is compiled once.
pub(crate) type World = (TokioRuntime, DynStore, ActionSet<TcpConnect>);

/// Functions, and actions by HTTP.
pub(crate) fn with_http(functions: Registry) -> ActionSet<TcpConnect> {
    ActionSet::new(functions, HttpActions::new(TcpConnect::new(), |_| None))
}

/// Makes the database's clock a table, which tests turn.
pub(crate) const CLOCK_OF_A_TABLE: &str = "CREATE TABLE turned (now bigint);
    INSERT INTO turned VALUES (0);
    CREATE OR REPLACE FUNCTION retrial_clock() RETURNS bigint LANGUAGE sql VOLATILE
    AS 'SELECT now FROM turned'";

/// Empties every table but those of guards and of the clock.
pub(crate) const EMPTY: &str = "DELETE FROM runs; DELETE FROM submissions; DELETE FROM events;
    DELETE FROM results; DELETE FROM snapshots; DELETE FROM letters; DELETE FROM queue;
    DELETE FROM claims; DELETE FROM definitions; DELETE FROM reports";

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
    PostgresStore::connect(TokioRuntime::current(), options.clone()).await.unwrap()
}

/// The schema that the options name.
pub(crate) fn schema_of(options: &PostgresOptions) -> String {
    let shown = format!("{options:?}");
    let (_, rest) = shown.split_once("schema: \"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}
