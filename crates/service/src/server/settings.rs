//! The settings of a service.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::Audit;
use super::caller::Caller;
use super::tokens::{AccessToken, Tokens};
use super::writes::StoreWrites;
use retrial::dialect::Environment;
use retrial::net::{Authority, Hosts};
use retrial::time::Nanos;

/// The settings of a service. The defaults suit a service on loopback for the users of the machine.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The node's name, under which its counts are kept in the store. Nodes of one store need different
    /// names. Without one it is `node`.
    pub node: Option<String>,
    /// A token that requests send as `Authorization: Bearer`, whose role is [`Role::Admin`]. One or
    /// `tokens` is required unless the service listens on loopback.
    ///
    /// [`Role::Admin`]: super::Role::Admin
    pub token: Option<AccessToken>,
    /// Tokens with names and roles.
    pub tokens: Option<Tokens>,
    /// Where a line is written for each request that may change something.
    pub audit: Option<Audit>,
    /// The environment variables that headers of definitions may use as `env:NAME`, each with the
    /// hosts that it may be sent to.
    pub allow_env: BTreeMap<String, Hosts>,
    /// The hosts that HTTP actions of definitions may name; `None` allows any. Give the same to
    /// the network of the actions ([`TcpConnect::only_to`](retrial::net::TcpConnect::only_to)),
    /// which sees where a name leads.
    pub hosts: Option<Hosts>,
    /// The registered functions that definitions may use.
    pub functions: Functions,
    /// The default policies of steps that set none.
    pub environment: Environment,
    /// The writes of the store, if it is a [`WatchedStore`](super::WatchedStore): while they fail,
    /// the service is not ready.
    pub writes: Option<StoreWrites>,
    /// The limits of sizes, counts and times.
    pub limits: Limits,
}

impl Settings {
    /// Whether requests need a token.
    pub(super) fn needs_token(&self) -> bool {
        self.token.is_some() || self.tokens.is_some()
    }

    /// Who `given` is the token of.
    pub(super) fn caller(&self, given: &[u8]) -> Option<Caller> {
        let named = self.tokens.as_ref().and_then(|tokens| tokens.find(given));
        let single = self.token.is_some_and(|token| token.is(given));
        named.map(Caller::Named).or(single.then_some(Caller::Single))
    }

    /// Whether the variable may be sent to that host.
    pub(super) fn may_have(&self, variable: &str, to: Option<&Authority>) -> bool {
        self.allow_env.get(variable).zip(to).is_some_and(|(hosts, to)| hosts.name(to))
    }
}

/// Which registered functions a definition may use as actions. A run whose function no node has
/// waits until a node has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Functions {
    /// Any function: the service does not know which functions the store's nodes have.
    #[default]
    Any,
    /// Only these functions.
    Only(BTreeSet<String>),
}

impl Functions {
    /// Whether a definition may use the function.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// The limits of a service. A request beyond a limit fails with the status given there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a request's body: 413.
    pub body: usize,
    /// The most bytes of a request's path and query: 414.
    pub uri: usize,
    /// The most bytes of a request's head: 431.
    pub head: usize,
    /// The most connections; further ones wait to be accepted.
    pub connections: usize,
    /// The most event streams open at once: 429.
    pub streams: usize,
    /// The most unfinished runs in the store: further submissions get 429.
    pub unfinished: u64,
    /// The most entries of a page.
    pub page: usize,
    /// How long a client may take to send a request's head: the connection is closed.
    pub head_within: Nanos,
    /// How long a client may take to send a request's body: 408.
    pub body_within: Nanos,
    /// How long the service may take to start an answer: 503.
    pub answer_within: Nanos,
    /// How long a client may leave sent data unread: the connection is closed.
    pub read_within: Nanos,
    /// The longest silence on an event stream before a comment is sent.
    pub keep_alive: Nanos,
    /// How long requests in progress may take to end at shutdown.
    pub grace: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 1024 * 1024,
            uri: 8 * 1024,
            head: 32 * 1024,
            connections: 1_024,
            streams: 256,
            unfinished: 100_000,
            page: 500,
            head_within: Nanos::from_secs(10),
            body_within: Nanos::from_secs(20),
            answer_within: Nanos::from_secs(30),
            read_within: Nanos::from_secs(30),
            keep_alive: Nanos::from_secs(15),
            grace: Nanos::from_secs(10),
        }
    }
}
