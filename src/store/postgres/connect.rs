//! Connections: TLS, the pool, and the migration of the tables.

use std::io;
use std::path::Path;
use std::sync::Arc;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod,
};
use refinery_core::{Migration, Runner};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Client;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{ConnectError, message_of};
use super::layout::sum;
use super::options::{PostgresOptions, duration};
use super::server::RAISE;
use crate::runtime::{Runtime as _, TokioRuntime};

/// The migrations, in order. A released one never changes; add another.
const MIGRATIONS: [(&str, &str); 3] = [
    ("V1__init", include_str!("migrations/V1__init.sql")),
    ("V2__codes", include_str!("migrations/V2__codes.sql")),
    ("V3__search", include_str!("migrations/V3__search.sql")),
];
/// The table of the migrations that were applied.
const DONE: &str = "retrial_migrations";
/// Marks our advisory locks: `retr`.
const LOCK: i32 = 0x7265_7472;

/// TLS by rustls on ring.
pub(super) fn tls(options: &PostgresOptions) -> Result<MakeRustlsConnect, ConnectError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = &options.roots {
        add_roots(&mut roots, path).map_err(|source| ConnectError::Certificates {
            path: path.display().to_string(),
            source,
        })?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|e| ConnectError::Address { why: format!("no TLS: {e}") })?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn add_roots(roots: &mut RootCertStore, path: &Path) -> io::Result<()> {
    let mut found = 0;
    for certificate in CertificateDer::pem_slice_iter(&std::fs::read(path)?) {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        found += 1;
    }
    match found {
        0 => Err(io::Error::other("there is no certificate in it")),
        _ => Ok(()),
    }
}

/// The pool. It does not connect yet.
pub(super) fn pool(
    options: &PostgresOptions,
    tls: MakeRustlsConnect,
) -> Result<Pool, ConnectError> {
    let settings: Arc<str> = options.settings().into();
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(options.client_config(), tls, config);
    let begin = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        let settings = Arc::clone(&settings);
        Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
    });
    let wait = Some(duration(options.connect_timeout));
    let pool = Pool::builder(manager)
        .max_size(options.connections.max(2))
        // The connection that was used last has most statements prepared.
        .queue_mode(QueueMode::Lifo)
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .create_timeout(wait)
        .wait_timeout(wait)
        .recycle_timeout(wait)
        .post_create(begin)
        .build();
    pool.map_err(|e| ConnectError::Address { why: e.to_string() })
}

/// Migrates the tables, one process at a time.
pub(super) async fn migrate(
    runtime: &TokioRuntime,
    options: &PostgresOptions,
    tls: MakeRustlsConnect,
) -> Result<(), ConnectError> {
    let (place, schema) = (options.place(), options.schema.clone());
    let server = |e: tokio_postgres::Error| ConnectError::server(options.place(), &e);
    let (mut client, connection) = options.client_config().connect(tls).await.map_err(server)?;
    // Ends with the client.
    let _connection = runtime.spawn(async {
        let _ = connection.await;
    });
    let failed =
        |why: String| ConnectError::Migration { place: place.clone(), schema: schema.clone(), why };
    let done = |e: tokio_postgres::Error| failed(message_of(&e));
    client.batch_execute(&options.settings()).await.map_err(done)?;
    let lock = sum("schema", &[], &[schema.as_bytes()]);
    client.query("SELECT pg_advisory_lock($1, $2)", &[&LOCK, &lock]).await.map_err(done)?;
    make_schema(&client, &schema).await.map_err(done)?;
    let (known, runner) = runner().map_err(failed)?;
    let found = found(&client).await.map_err(done)?;
    if found > known {
        let oldest = client.query_one("SELECT oldest FROM compatible", &[]).await.map_err(done)?;
        let oldest: i32 = oldest.get(0);
        if oldest > known {
            return Err(ConnectError::Newer { place, schema, found, known, oldest });
        }
        tracing::info!(schema, found, known, "tables of a later release, which this one may use");
    }
    if found < known {
        runner.run_async(&mut client).await.map_err(|e| failed(words(&e)))?;
    }
    // If the clock was set back, no answer has a time before the last one answered.
    let seen = client.query_one("SELECT seen FROM clock", &[]).await.map_err(done)?;
    client.execute(RAISE, &[&seen.get::<_, i64>(0)]).await.map_err(done).map(drop)
}

async fn make_schema(client: &Client, schema: &str) -> Result<(), tokio_postgres::Error> {
    const IS_THERE: &str = "SELECT FROM pg_namespace WHERE nspname = $1";
    // Checked first: creating a schema needs a right that using it does not.
    if client.query_opt(IS_THERE, &[&schema]).await?.is_none() {
        client.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    Ok(())
}

/// The newest migration that was applied; 0 if none was.
async fn found(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let text = "SELECT to_regclass($1) IS NOT NULL";
    let is_there: bool = client.query_one(text, &[&DONE]).await?.get(0);
    if !is_there {
        return Ok(0);
    }
    let text = format!("SELECT coalesce(max(version), 0)::int FROM {DONE}");
    Ok(client.query_one(&text, &[]).await?.get(0))
}

fn runner() -> Result<(i32, Runner), String> {
    let migrations = MIGRATIONS.map(|(name, text)| Migration::unapplied(name, text));
    let migrations = migrations.into_iter().collect::<Result<Vec<_>, _>>();
    let migrations = migrations.map_err(|e| words(&e))?;
    let known = migrations.iter().map(|m| m.version()).max().unwrap_or_default();
    let mut runner = Runner::new(&migrations);
    runner.set_migration_table_name(DONE);
    Ok((known, runner))
}

fn words(error: &refinery_core::Error) -> String {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = source {
        if let Some(answer) = error.downcast_ref::<tokio_postgres::Error>() {
            return message_of(answer);
        }
        source = error.source();
    }
    error.to_string()
}
