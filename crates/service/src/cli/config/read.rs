//! Parses the gathered settings.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use retrial::dialect::tree::{Data, Node};
use retrial::dialect::{Diagnostic, Environment};
use retrial::engine::{Config, Retention};
use retrial::net::Url;
use retrial::time::Nanos;
use retrial_service::server::{AccessToken, Functions, Hosts, Limits, Settings};

use super::super::Lookup;
use super::super::error::CliError;
use super::gather::Gathered;
use super::keys::{TOKEN, TRACES};

/// The configuration of `retrial serve`.
pub(crate) struct Configuration {
    /// A file, or a URL of a database.
    pub(crate) store: String,
    pub(crate) listen: SocketAddr,
    pub(crate) log: String,
    /// The collector that gets traces.
    pub(crate) traces: Option<String>,
    /// How the node works.
    pub(crate) node: Config,
    /// How it answers.
    pub(crate) service: Settings,
}

/// A number without a unit is a length in milliseconds.
const MILLISECOND: u64 = 1_000_000;

/// The configuration, or everything that is wrong with the settings.
pub(crate) fn read(given: &Gathered, lookup: Lookup) -> Result<Configuration, CliError> {
    let environment = Environment::read(lookup)?;
    let mut reader = Reader { given, wrong: Vec::new() };
    let r = &mut reader;
    let grace = r.time("grace");
    let limits = Limits {
        body: r.count("limits.body"),
        uri: r.count("limits.uri"),
        head: r.count("limits.head"),
        connections: r.count("limits.connections"),
        streams: r.count("limits.streams"),
        unfinished: r.count("limits.unfinished") as u64,
        page: r.count("limits.page"),
        head_within: r.time("limits.head_within"),
        body_within: r.time("limits.body_within"),
        answer_within: r.time("limits.answer_within"),
        read_within: r.time("limits.read_within"),
        keep_alive: r.time("limits.keep_alive"),
        grace,
    };
    let service = Settings {
        token: r.token(),
        allow_env: r.names("allow_env").unwrap_or_default(),
        hosts: r.hosts(),
        functions: Functions::Only(r.names("functions").unwrap_or_default()),
        environment,
        limits,
    };
    let node = Config {
        concurrency: r.count("concurrency"),
        lease: r.time("lease"),
        poll: r.time("poll"),
        grace,
        retention: r.retention(),
        ..Config::default()
    };
    let (store, log, listen, traces) = (r.store(), r.text("log"), r.listen(), r.traces());
    match (reader.wrong.is_empty(), listen) {
        (true, Some(listen)) => Ok(Configuration { store, listen, log, traces, node, service }),
        _ => Err(reader.wrong.into()),
    }
}

/// Parses values and collects their diagnostics.
struct Reader<'g> {
    given: &'g Gathered,
    wrong: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Node) -> Result<T, Diagnostic>,
    ) -> Option<T> {
        let node = &self.given.get(name)?.node;
        read(node).map_err(|wrong| self.wrong.push(wrong)).ok()
    }

    fn text(&mut self, name: &str) -> String {
        self.read(name, |node| node.name().map(str::to_owned)).unwrap_or_default()
    }

    /// What `store_file` holds, else what `store` says.
    fn store(&mut self) -> String {
        if !self.given.contains_key("store_file") {
            return self.text("store");
        }
        let held = self.read("store_file", |node| {
            let path = node.name()?;
            std::fs::read_to_string(path)
                .map_err(|e| node.place.error(format!("`{path}` can't be read: {e}")))
        });
        held.map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    /// A whole number from 1.
    fn count(&mut self, name: &str) -> usize {
        self.read(name, |node| node.count(1, u32::MAX)).map_or(1, |n| n as usize)
    }

    fn time(&mut self, name: &str) -> Nanos {
        self.read(name, |node| node.timeout(MILLISECOND)).unwrap_or_default()
    }

    fn retention(&mut self) -> Option<Retention> {
        self.read("retention", |node| node.timeout(MILLISECOND)).map(Retention::older_than)
    }

    /// A list, or outside a file names with commas between them.
    fn names(&mut self, name: &str) -> Option<BTreeSet<String>> {
        self.read(name, |node| match &node.data {
            Data::Text(text) => Ok(text
                .split(',')
                .map(|one| one.trim().to_owned())
                .filter(|n| !n.is_empty())
                .collect()),
            _ => node.names(),
        })
    }

    fn hosts(&mut self) -> Option<Hosts> {
        let names = self.names("allow_hosts")?;
        self.read("allow_hosts", |node| Hosts::new(names).map_err(|e| node.place.refuse(&e)))
    }

    fn listen(&mut self) -> Option<SocketAddr> {
        self.read("listen", |node| {
            let text = node.name()?;
            let text = text
                .strip_prefix("localhost:")
                .map(|port| format!("127.0.0.1:{port}"))
                .unwrap_or_else(|| text.to_owned());
            text.parse().map_err(|_| {
                node.place
                    .error("this is not an address with a port")
                    .help_with("write one such as 127.0.0.1:7070 or [::1]:7070")
            })
        })
    }

    fn traces(&mut self) -> Option<String> {
        self.read(TRACES, |node| {
            let text = node.name()?;
            text.parse::<Url>().map_err(|e| node.place.refuse(&e))?;
            Ok(text.to_owned())
        })
    }

    fn token(&mut self) -> Option<AccessToken> {
        let own = self.read(TOKEN, |node| {
            let text = match &node.data {
                Data::Text(text) | Data::Number(text) => text,
                _ => "",
            };
            AccessToken::new(text).map_err(|e| node.place.refuse(&e))
        });
        if own.is_some() || self.given.contains_key(TOKEN) {
            return own;
        }
        self.read("token_file", |node| {
            let path = node.name()?;
            let text = std::fs::read_to_string(path)
                .map_err(|e| node.place.error(format!("`{path}` can't be read: {e}")))?;
            AccessToken::new(&text).map_err(|e| node.place.refuse(&e))
        })
    }
}
