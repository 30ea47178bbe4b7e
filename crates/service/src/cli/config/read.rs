//! Parses the gathered settings.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;

use retrial::dialect::tree::{Data, Node};
use retrial::dialect::{Diagnostic, Diagnostics, Environment, Place, Source};
use retrial::engine::{Config, Retention};
use retrial::net::{Hosts, HostsError, TcpConnect, Url};
use retrial::time::Nanos;
use retrial_service::server::{AccessToken, Functions, Limits, Settings, Tokens};

use super::super::Lookup;
use super::super::error::CliError;
use super::super::network::{self, CA_FILE, CLIENT_CERT_FILE, CLIENT_KEY_FILE, Unusable};
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
    /// The file of named tokens, which is read again on SIGHUP.
    pub(crate) tokens_file: Option<String>,
    /// The file of the audit trail, or `stdout`.
    pub(crate) audit: Option<String>,
    /// What HTTP actions connect with.
    pub(crate) network: TcpConnect,
    /// How many connections to a host are kept between attempts, and for how long.
    pub(crate) kept: (usize, Nanos),
    /// How the node works.
    pub(crate) node: Config,
    /// How it answers.
    pub(crate) service: Settings,
}

const NO_TOKEN: &str = "write one to a file of its own (openssl rand -hex 32) and set `token_file` to its path; or make named ones (retrial token new NAME --role submit) and set `tokens_file`";

/// The most characters of a node's name.
const MAX_NODE: usize = 100;

/// A number without a unit is a length in milliseconds.
const MILLISECOND: u64 = 1_000_000;

/// The configuration, or everything that is wrong with the settings: what is `wrong` already, and
/// what else is.
pub(crate) fn read(
    given: &Gathered,
    wrong: Vec<Diagnostic>,
    lookup: Lookup,
) -> Result<Configuration, CliError> {
    let mut reader = Reader { given, wrong };
    let r = &mut reader;
    let environment = Environment::read(lookup).map_err(|e| r.wrong.push(e)).unwrap_or_default();
    let (grace, listen) = (r.time("grace"), r.listen());
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
    let hosts = r.hosts(listen);
    let network = r.network(lookup).only_to(hosts.clone());
    let service = Settings {
        node: Some(r.node(listen)),
        token: r.token(),
        tokens: r.tokens(),
        audit: None,
        writes: None,
        allow_env: r.allow_env(),
        hosts: Some(hosts),
        functions: Functions::Only(r.names("functions").unwrap_or_default()),
        environment,
        limits,
    };
    let node = Config {
        concurrency: r.count("concurrency"),
        action_share: r.percent("action_share"),
        attempt_timeout: Some(r.time("attempt_timeout")),
        quarantine_after: r.count_or_none("quarantine_after"),
        lease: r.time("lease"),
        poll: r.time("poll"),
        grace,
        retention: r.retention(),
        ..Config::default()
    };
    let kept = (r.count_or_none("idle_connections"), r.time("idle_within"));
    let kept = (kept.0.map_or(0, |n| n.get() as usize), kept.1);
    let (tokens_file, audit) = (r.path("tokens_file"), r.path("audit"));
    let (store, log, traces) = (r.store(), r.text("log"), r.traces());
    listen.into_iter().for_each(|address| r.guarded(address));
    match (reader.wrong.is_empty(), listen) {
        (true, Some(listen)) => Ok(Configuration {
            store,
            listen,
            log,
            traces,
            tokens_file,
            audit,
            network,
            kept,
            node,
            service,
        }),
        _ => Err(Diagnostics::from(reader.wrong).into()),
    }
}

/// The named tokens in the file at `path`, or what is wrong with it.
pub(crate) fn tokens_in(path: &str) -> Result<Tokens, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("`{path}` can't be read: {e}"))?;
    Tokens::read(&text).map_err(|e| format!("`{path}`, {e}"))
}

#[cfg(unix)]
fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// This system does not say.
#[cfg(not(unix))]
fn machine_name() -> String {
    "node".to_owned()
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

    /// The content of `store_file`, else the value of `store`.
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

    /// A count of 0 stands for none.
    fn count_or_none(&mut self, name: &str) -> Option<NonZeroU32> {
        self.read(name, |node| node.count(0, u32::MAX)).and_then(NonZeroU32::new)
    }

    fn percent(&mut self, name: &str) -> u8 {
        let read = self.read(name, |node| node.count(1, 100));
        read.and_then(|n| u8::try_from(n).ok()).unwrap_or(100)
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

    /// The public internet unless set. A service that only this machine can reach may call this
    /// machine, because its clients can, too.
    fn hosts(&mut self, listen: Option<SocketAddr>) -> Hosts {
        let Some(names) = self.names("allow_hosts") else {
            return match listen.is_some_and(|address| address.ip().is_loopback()) {
                true => Hosts::public().and_loopback(),
                false => Hosts::public(),
            };
        };
        let hosts =
            self.read("allow_hosts", |node| Hosts::new(names).map_err(|e| node.place.refuse(&e)));
        hosts.unwrap_or_default()
    }

    fn network(&mut self, lookup: Lookup) -> TcpConnect {
        let files = self.names(CA_FILE).unwrap_or_default();
        let files = files.into_iter().collect::<Vec<_>>().join(",");
        let own = [CLIENT_CERT_FILE, CLIENT_KEY_FILE].map(|name| (name, self.path(name)));
        let setting = |name| match own.iter().find(|(own, _)| *own == name) {
            Some((_, path)) => path.clone(),
            None => Some(files.clone()),
        };
        network::network(setting, lookup).unwrap_or_else(|Unusable { setting, why }| {
            let at = self.given.get(setting).map(|given| given.node.place.clone());
            let variable = || Place::whole(&Source::new("environment", setting)).child(setting);
            self.wrong.push(at.unwrap_or_else(variable).refuse(&why));
            TcpConnect::new()
        })
    }

    /// Entries `NAME@HOST`, one for each host that may have the variable.
    fn allow_env(&mut self) -> BTreeMap<String, Hosts> {
        let mut bound: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let names = self.names("allow_env").unwrap_or_default();
        let read = self.read("allow_env", |node| {
            for entry in &names {
                let (name, host) = entry.split_once('@').unwrap_or((entry, ""));
                if host.is_empty() || host == "public" {
                    return Err(node
                        .place
                        .error(format!("`{entry}` does not name the host that may have it"))
                        .help_with(format!(
                            "write `{name}@api.example.org`, one entry for each host"
                        )));
                }
                bound.entry(name.to_owned()).or_default().push(host.to_owned());
            }
            let hosts = |(name, hosts)| Ok((name, Hosts::new::<String>(hosts)?));
            let all: Result<_, _> = bound.into_iter().map(hosts).collect();
            all.map_err(|e: HostsError| node.place.refuse(&e))
        });
        read.unwrap_or_default()
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

    /// Refuses a service that other machines can reach without a token.
    fn guarded(&mut self, address: SocketAddr) {
        let is_guarded =
            [TOKEN, "token_file", "tokens_file"].iter().any(|name| self.given.contains_key(name));
        if is_guarded || address.ip().is_loopback() {
            return;
        }
        if let Some(listen) = self.given.get("listen") {
            let message = format!(
                "{address} can be reached from other machines, so a bearer token is required"
            );
            self.wrong.push(listen.node.place.error(message).help_with(NO_TOKEN));
        }
    }

    fn traces(&mut self) -> Option<String> {
        self.read(TRACES, |node| {
            let text = node.name()?;
            text.parse::<Url>().map_err(|e| node.place.refuse(&e))?;
            Ok(text.to_owned())
        })
    }

    fn path(&mut self, name: &str) -> Option<String> {
        self.read(name, |node| node.name().map(str::to_owned))
    }

    /// The node's name; without one, the machine's name and the port.
    fn node(&mut self, listen: Option<SocketAddr>) -> String {
        let given = self.read("node", |node| {
            let name = node.name()?;
            let fits = name.chars().count() <= MAX_NODE && !name.contains(char::is_control);
            let wrong = || format!("a node's name has at most {MAX_NODE} printable characters");
            fits.then(|| name.to_owned()).ok_or_else(|| node.place.error(wrong()))
        });
        let port = listen.map_or(0, |address| address.port());
        given.unwrap_or_else(|| format!("{}:{port}", machine_name()))
    }

    fn tokens(&mut self) -> Option<Tokens> {
        self.read("tokens_file", |node| {
            tokens_in(node.name()?).map_err(|wrong| node.place.error(wrong))
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
