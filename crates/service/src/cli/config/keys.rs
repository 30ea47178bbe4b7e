//! The settings of `retrial serve`: their names, defaults and meanings.

use super::super::network::{CA_FILE, CLIENT_CERT_FILE, CLIENT_KEY_FILE};

/// One setting.
pub(crate) struct Key {
    /// In a file, where a dot means a table; upper case with `RETRIAL_` before it in the
    /// environment.
    pub(crate) name: &'static str,
    /// As it would be written; `None` if it has no default.
    pub(crate) default: Option<&'static str>,
    pub(crate) what: &'static str,
}

impl Key {
    /// The variable of the environment that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("RETRIAL_{}", self.name.to_uppercase().replace('.', "_"))
    }
}

const fn key(name: &'static str, default: Option<&'static str>, what: &'static str) -> Key {
    Key { name, default, what }
}

/// Only from the environment or from a separate file.
pub(super) const TOKEN: &str = "token";

/// The settings that are lists.
pub(super) const LISTS: [&str; 4] = ["allow_env", "allow_hosts", CA_FILE, "functions"];

/// Where traces go: a URL, which may have a secret in it.
pub(super) const TRACES: &str = "traces";

/// Every setting, in the order in which they are shown.
pub(crate) const KEYS: [Key; 38] = [
    key("store", Some(".retrial/service.redb"), "the store: a file, or postgres://..."),
    key("store_file", None, "the file that holds `store`, where that has a password in it"),
    key("listen", Some("127.0.0.1:7070"), "the address and port to answer on"),
    key(
        "node",
        None,
        "the node's name, under which its counts are kept; the machine's name and the port if not set",
    ),
    key(
        "token_file",
        None,
        "the file with a bearer token for everything; this or tokens_file unless on loopback",
    ),
    key("tokens_file", None, "the file with named tokens and their roles, read again on SIGHUP"),
    key(
        "audit",
        None,
        "where a line is written for each change that is asked for: a file, or stdout",
    ),
    key(TOKEN, None, "the bearer token itself: only as the variable RETRIAL_TOKEN"),
    key("concurrency", Some("64"), "the most attempts in progress at once"),
    key("action_share", Some("75"), "the percent of these that one action may take, at least one"),
    key(
        "attempt_timeout",
        Some("5m"),
        "how long an attempt may take where its policy does not say",
    ),
    key(
        "quarantine_after",
        Some("3"),
        "how many attempts of a task in a row may lose their node before it is held; 0 for never",
    ),
    key("lease", Some("30s"), "how long a dead node holds an attempt before others take it over"),
    key("poll", Some("1s"), "how often to poll the store for due tasks"),
    key("grace", Some("10s"), "how long attempts and requests may take to end at shutdown"),
    key("retention", None, "how long ended runs are kept; forever if not set"),
    key(
        "allow_env",
        None,
        "the variables that headers may use as env:NAME, each with its host: NAME@HOST",
    ),
    key(
        "allow_hosts",
        None,
        "the hosts that HTTP actions may call; if not set, public ones, and loopback where only loopback is listened on",
    ),
    key(
        CA_FILE,
        None,
        "files of certificates (PEM) that are trusted besides Mozilla's; `system` for the system's",
    ),
    key(CLIENT_CERT_FILE, None, "the certificate (PEM) for endpoints that ask for a client's"),
    key(CLIENT_KEY_FILE, None, "its private key (PEM)"),
    key(
        "idle_connections",
        Some("8"),
        "connections that are kept open to a host between attempts; 0 for none",
    ),
    key("idle_within", Some("15s"), "how long such a connection stays open"),
    key("functions", None, "functions that are registered on other nodes of the store"),
    key("log", Some("warn"), "what is logged to stderr"),
    key(TRACES, None, "the OpenTelemetry collector to send traces to: http://127.0.0.1:4318"),
    key("limits.body", Some("1048576"), "bytes of a request's body: 413"),
    key("limits.uri", Some("8192"), "bytes of path and query: 414"),
    key("limits.head", Some("32768"), "bytes of a request's head: 431"),
    key("limits.connections", Some("1024"), "connections at once; more wait"),
    key("limits.streams", Some("256"), "event streams at once: 429"),
    key("limits.unfinished", Some("100000"), "unfinished runs, beyond which submissions get 429"),
    key("limits.page", Some("500"), "entries of a page"),
    key("limits.head_within", Some("10s"), "time for a client to send a request's head"),
    key("limits.body_within", Some("20s"), "time for a client to send a request's body: 408"),
    key("limits.answer_within", Some("30s"), "time for an answer to begin: 503"),
    key("limits.read_within", Some("30s"), "time for a client to read what it is sent"),
    key("limits.keep_alive", Some("15s"), "the longest silence on an event stream"),
];
