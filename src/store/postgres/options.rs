use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::error::ConnectError;
use crate::time::Nanos;

/// The most writers that a store has unless told.
const MOST_WRITERS: usize = 4;

/// How the store connects, and how long it waits. Its `Debug` shows no password.
#[non_exhaustive]
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) config: Config,
    pub(super) schema: String,
    pub(super) roots: Option<PathBuf>,
    /// The most connections that are open at once, at least 2.
    pub connections: usize,
    /// How many of them may write at once. Each run has one writer. Unless set, as many as there are
    /// processors, at least 2 and at most 4: more of them make smaller transactions, which cost more.
    pub writers: usize,
    /// The longest that connecting, or waiting for a free connection, may take.
    pub connect_timeout: Nanos,
    /// The longest that one statement may take.
    pub statement_timeout: Nanos,
    /// The longest wait for another transaction's lock.
    pub lock_timeout: Nanos,
    /// How long a transaction may be idle before the server ends it and frees its locks.
    pub idle_in_transaction: Nanos,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("place", &self.place())
            .field("user", &self.config.get_user())
            .field("schema", &self.schema)
            .field("sslmode", &self.config.get_ssl_mode())
            .field("sslrootcert", &self.roots)
            .field("connections", &self.connections)
            .field("writers", &self.writers)
            .field("connect_timeout", &self.connect_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("idle_in_transaction", &self.idle_in_transaction)
            .finish()
    }
}

impl PostgresOptions {
    /// The schema, unless another is named.
    pub const SCHEMA: &'static str = "retrial";

    /// From `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with libpq's options after a `?`.
    /// `sslmode` is `disable`, `prefer`, `require` or `verify-full`; unless set, `prefer` for a Unix
    /// socket or a loopback address and `verify-full` for any other host. Whenever TLS is used, the
    /// server's certificate is verified against the Mozilla roots and those in the PEM file
    /// `sslrootcert`. `schema` names the schema of the tables.
    ///
    /// # Errors
    /// If the address is malformed or an option is unknown. The error repeats no part of the address.
    pub fn from_url(url: &str) -> Result<Self, ConnectError> {
        let (address, own) = split(url)?;
        let config: Config = address.parse().map_err(|_| ConnectError::Address {
            why: "it is not an address, or an option is not known".into(),
        })?;
        let mut options = Self {
            config,
            schema: Self::SCHEMA.to_owned(),
            roots: own.roots.map(PathBuf::from),
            connections: 8,
            writers: available_parallelism().map_or(2, usize::from).clamp(2, MOST_WRITERS),
            connect_timeout: Nanos::from_secs(10),
            statement_timeout: Nanos::from_secs(20),
            lock_timeout: Nanos::from_secs(10),
            idle_in_transaction: Nanos::from_secs(20),
        };
        if options.config.get_hosts().is_empty() {
            return Err(ConnectError::Address { why: "it names no host".into() });
        }
        let is_open = own.sslmode.is_none() && !stays_on_this_machine(&options.config);
        if is_open || own.sslmode == Some(SslMode::Require) {
            options.config.ssl_mode(SslMode::Require);
        }
        match own.schema {
            Some(schema) => options.schema(&schema),
            None => Ok(options),
        }
    }

    /// Puts the tables in `schema`, so that several stores can share a database.
    ///
    /// # Errors
    /// If the name has other characters than small letters, digits and underscores, begins with a
    /// digit or `pg_`, or is longer than 63.
    pub fn schema(mut self, schema: &str) -> Result<Self, ConnectError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_name = !schema.is_empty() && schema.len() <= 63 && schema.chars().all(is_plain);
        if !is_name || schema.starts_with(|c: char| c.is_ascii_digit()) || schema.starts_with("pg_")
        {
            let why = "a schema's name is small letters, digits and underscores, begins with a \
                       letter, and has at most 63 of them";
            return Err(ConnectError::Address { why: why.into() });
        }
        schema.clone_into(&mut self.schema);
        Ok(self)
    }

    /// Trusts the certificates in a PEM file as well.
    #[must_use]
    pub fn root_certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.roots = Some(path.into());
        self
    }

    /// Host, port and database, for messages.
    pub(super) fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let ports: Vec<String> = self.config.get_ports().iter().map(u16::to_string).collect();
        let ports = if ports.is_empty() { "5432".to_owned() } else { ports.join(",") };
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{hosts}:{ports}/{database}")
    }

    /// The options of tokio-postgres, with keepalives, so that a lost peer is noticed.
    pub(super) fn client_config(&self) -> Config {
        let mut config = self.config.clone();
        config
            .connect_timeout(duration(self.connect_timeout))
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(30));
        if config.get_application_name().is_none() {
            config.application_name("retrial");
        }
        config
    }

    /// The first statements of each connection. The tables change from empty to full and back within
    /// seconds, so statistics mislead the planner: plans always use the indexes.
    pub(super) fn settings(&self) -> String {
        let Self { schema, statement_timeout, lock_timeout, idle_in_transaction, .. } = self;
        let ms = |length: &Nanos| length.as_millis_ceil().max(1);
        format!(
            "SET search_path TO {schema}; SET statement_timeout TO {}; SET lock_timeout TO {}; \
             SET idle_in_transaction_session_timeout TO {}; \
             SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO off; \
             SET enable_hashjoin TO off; SET enable_mergejoin TO off; SET enable_bitmapscan TO off; SET jit TO off; \
             SET default_transaction_isolation TO 'read committed'",
            ms(statement_timeout),
            ms(lock_timeout),
            ms(idle_in_transaction),
        )
    }
}

pub(super) fn duration(length: Nanos) -> Duration {
    Duration::from_nanos(length.get())
}

/// Whether every host is a Unix socket or a loopback address, so that nobody else can listen.
fn stays_on_this_machine(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            let address: Result<IpAddr, _> = name.parse();
            address.map_or(name.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
        }
        Host::Unix(_) => true,
    };
    config.get_hosts().iter().all(is_local)
        && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

/// Options that this crate adds to those of tokio-postgres, or interprets itself.
#[derive(Default)]
struct OwnOptions {
    schema: Option<String>,
    roots: Option<String>,
    /// Whether the address says it, and `Require` for `verify-full`.
    sslmode: Option<SslMode>,
}

/// Separates those options from an address.
fn split(url: &str) -> Result<(String, OwnOptions), ConnectError> {
    let mut own = OwnOptions::default();
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    if !is_url {
        let why = "it does not begin with `postgres://`";
        return Err(ConnectError::Address { why: why.into() });
    }
    let Some((address, options)) = url.split_once('?') else { return Ok((url.to_owned(), own)) };
    let mut rest = Vec::new();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("schema", schema)) => own.schema = Some(decoded(schema)),
            Some(("sslrootcert", path)) => own.roots = Some(decoded(path)),
            Some(("sslmode", "verify-full")) => own.sslmode = Some(SslMode::Require),
            Some(("sslmode", "verify-ca" | "allow")) => {
                let why = "`sslmode` is `disable`, `prefer`, `require` or `verify-full`";
                return Err(ConnectError::Address { why: why.into() });
            }
            Some(("sslmode", _)) => {
                // tokio-postgres reads it.
                own.sslmode = Some(SslMode::Prefer);
                rest.push(option);
            }
            _ => rest.push(option),
        }
    }
    let joint = if rest.is_empty() { "" } else { "?" };
    Ok((format!("{address}{joint}{}", rest.join("&")), own))
}

/// Percent-decoded text.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
