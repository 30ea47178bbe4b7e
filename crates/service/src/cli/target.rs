//! The target of commands on runs: a store that this process opens, or a service.
//!
//! Commands use the HTTP API for both. For a store the API runs within this process, so both print
//! the same. This process executes no runs of the store.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{self, HeaderValue};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use retrial::action::{ActionSet, HttpActions, Registry};
use retrial::engine::{Config, Engine};
use retrial::failure::sanitise;
use retrial::net::TcpConnect;
use retrial::run::{LetterId, RunId};
use retrial::runtime::TokioRuntime;
use retrial::store::DynStore;
use retrial::time::{Nanos, Timestamp};
use retrial_service::server::{Limits, Monitor, Service, Settings};
use serde_json::{Value, json};

use super::Lookup;
use super::client::{self, Client};
use super::error::CliError;
use super::output::clean;
use super::query::Query;
use super::stores;
use super::world::CliWorld;

/// Runs or letters requested at once.
const PAGE: usize = 10_000;
/// How long closing the store may take.
const LAST_WORK: Duration = Duration::from_secs(2);

/// Selects the target.
#[derive(Debug, clap::Args)]
pub(super) struct TargetArgs {
    /// The store's file, postgres://..., or a service: http://HOST:PORT
    /// [default: the one .redb file in .retrial/]
    #[arg(long, value_name = "STORE", global = true)]
    store: Option<String>,

    /// The file with the service's bearer token, unless RETRIAL_TOKEN holds it
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
}

impl TargetArgs {
    fn service(&self, url: &str, lookup: Lookup) -> Result<Client, CliError> {
        let named = || lookup("RETRIAL_TOKEN_FILE").map(PathBuf::from);
        let token = match (&self.token_file, lookup("RETRIAL_TOKEN")) {
            (None, Some(token)) => Some(token),
            (file, _) => file.clone().or_else(named).map(|path| read_token(&path)).transpose()?,
        };
        Client::new(url, token)
    }
}

fn read_token(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|e| {
        let path = path.display();
        CliError::input(format!("the token file `{path}` can't be read: {e}"))
    })
}

/// A store or a service that answers the HTTP API.
pub(super) struct Target {
    connection: Connection,
    /// The value of `--store`, without secrets.
    location: String,
    /// The store's file, where there is one.
    pub(super) file: Option<PathBuf>,
}

enum Connection {
    InProcess(TowerToHyperService<axum::Router>),
    Remote(Client),
}

/// A problem response of the API.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    detail: String,
    /// The run that the problem names, if it names one.
    pub(super) run: Option<String>,
}

impl From<Refusal> for CliError {
    fn from(refusal: Refusal) -> Self {
        let help = match refusal.status {
            401 => Some("give the token as RETRIAL_TOKEN, or in a file: --token-file"),
            _ => None,
        };
        let trouble = match refusal.status {
            500.. => Self::store(refusal.detail),
            _ => Self::input(refusal.detail),
        };
        match help {
            Some(help) => trouble.help(help),
            None => trouble,
        }
    }
}

/// Opens the target, runs `act` on it and closes the store.
pub(super) fn at<T>(
    arguments: &TargetArgs,
    lookup: Lookup,
    act: impl AsyncFnOnce(&Target) -> Result<T, CliError>,
) -> Result<T, CliError> {
    block_on(async {
        let target = Target::open(arguments, lookup).await?;
        act(&target).await
    })
}

/// Runs `future` to its end and closes what it has opened. Does not wait for pending name lookups.
pub(super) fn block_on<T>(
    future: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let tokio =
        tokio.map_err(|e| CliError::store(format!("the async runtime can't start: {e}")))?;
    let done = tokio.block_on(future);
    tokio.shutdown_timeout(LAST_WORK);
    done
}

impl Target {
    async fn open(arguments: &TargetArgs, lookup: Lookup) -> Result<Self, CliError> {
        let given = arguments.store.clone().or_else(|| lookup("RETRIAL_STORE"));
        let given = given.filter(|text| !text.trim().is_empty());
        let elsewhere =
            |connection, url: &str| Self { connection, location: sanitise::url(url), file: None };
        match given.as_deref() {
            Some(url) if stores::is_database(url) => {
                let store = DynStore::new(stores::database(url).await?);
                let connection = Connection::InProcess(in_process(store, false).await?);
                Ok(elsewhere(connection, url))
            }
            Some(url) if url.contains("://") => {
                Ok(elsewhere(Connection::Remote(arguments.service(url, lookup)?), url))
            }
            path => {
                let path = stores::file(path.map(Path::new))?;
                let store = DynStore::new(stores::in_file(&path).await?);
                let connection = Connection::InProcess(in_process(store, true).await?);
                Ok(Self { connection, location: path.display().to_string(), file: Some(path) })
            }
        }
    }

    /// `--store ...`, the option that selects this target in another command.
    pub(super) fn option(&self) -> String {
        format!("--store {}", self.location)
    }

    /// Sends a `GET` and returns the JSON of the answer.
    pub(super) async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.request("GET", path, None).await?.map_err(CliError::from)
    }

    /// Sends a `POST` and returns the JSON of the answer, or the problem.
    pub(super) async fn post(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Result<Value, Refusal>, CliError> {
        self.request("POST", path, Some(body)).await
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, Refusal>, CliError> {
        let wrong = |e: &dyn std::fmt::Display| CliError::store(format!("{}: {e}", self.location));
        let sent = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.header(header::ACCEPT, "application/json").body(Full::from(sent));
        let mut request: Request<Full<Bytes>> = request.map_err(|e| wrong(&e))?;
        let (status, body) = match &self.connection {
            Connection::Remote(service) => service.exchange(request).await?,
            Connection::InProcess(router) => {
                let host = HeaderValue::from_static("localhost");
                request.headers_mut().insert(header::HOST, host);
                let answer = router.call(request).await.map_err(|never| wrong(&never))?;
                client::read(answer).await.map_err(|e| wrong(&e))?
            }
        };
        let body: Value = match serde_json::from_slice(&body) {
            Ok(body) => body,
            Err(_) => {
                return Err(wrong(&format!("the answer ({status}) is not from a Retrial service")));
            }
        };
        if (200..300).contains(&status) {
            return Ok(Ok(body));
        }
        let text = |name: &str| body[name].as_str().map(clean);
        let detail = text("detail").or_else(|| text("title")).unwrap_or_default();
        Ok(Err(Refusal { status, detail, run: text("run") }))
    }

    /// Every run that matches the query, oldest first, and the runs with damaged records.
    pub(super) async fn runs(&self, query: Query) -> Result<(Vec<Value>, Vec<String>), CliError> {
        let (mut runs, damaged) = self.pages("/v1/runs", query, ("runs", "before")).await?;
        runs.reverse();
        Ok((runs, damaged))
    }

    /// Every dead letter that matches the query, oldest first, and the damaged ones.
    pub(super) async fn letters(
        &self,
        query: Query,
    ) -> Result<(Vec<Value>, Vec<String>), CliError> {
        let (mut letters, damaged) = self.pages("/v1/letters", query, ("letters", "after")).await?;
        letters.sort_by_key(order);
        Ok((letters, damaged))
    }

    /// The run's input and its tasks' results, as they are stored.
    pub(super) async fn values(&self, run: RunId) -> Result<(Value, Value), CliError> {
        let path = format!("/v1/runs/{run}/values");
        let mut first = self.get(&Query::new().number("limit", 1).of(&path)).await?;
        let (results, _) = self.pages(&path, Query::new(), ("results", "after")).await?;
        Ok((first["input"].take(), results.into()))
    }

    /// All pages of a list. `entries` is the field of the entries, `place` the parameter that
    /// continues after a page.
    async fn pages(
        &self,
        path: &str,
        query: Query,
        (entries, place): (&str, &'static str),
    ) -> Result<(Vec<Value>, Vec<String>), CliError> {
        let (mut all, mut damaged) = (Vec::new(), Vec::new());
        let mut next = None;
        loop {
            let query = query.clone().number("limit", PAGE).text(place, next);
            let mut page = self.get(&query.of(path)).await?;
            if let Value::Array(found) = page[entries].take() {
                all.extend(found);
            }
            let ids = page["damaged"].as_array().into_iter().flatten();
            damaged.extend(ids.filter_map(Value::as_str).map(clean));
            next = page["next"].as_str().map(str::to_owned);
            if next.is_none() {
                // A page may name what another names again.
                damaged.sort();
                damaged.dedup();
                return Ok((all, damaged));
            }
        }
    }

    /// The one run with an id that begins with `text`.
    pub(super) async fn run(&self, text: &str) -> Result<RunId, CliError> {
        if let Ok(run) = text.parse() {
            return Ok(run);
        }
        let (runs, damaged) = self.runs(Query::new().text("q", Some(text.to_owned()))).await?;
        let ids = runs.iter().filter_map(|run| run["run"].as_str()).map(str::to_owned);
        find_unique(ids.chain(damaged), text, "run", "`retrial list` lists them")
    }

    /// The one dead letter with a name that begins with `text`.
    pub(super) async fn letter(&self, text: &str) -> Result<LetterId, CliError> {
        if let Ok(letter) = text.parse() {
            return Ok(letter);
        }
        let (letters, damaged) = self.letters(Query::new()).await?;
        let ids = letters.iter().filter_map(|l| l["letter"].as_str()).map(str::to_owned);
        let help = "`retrial dlq list --all` lists them";
        find_unique(ids.chain(damaged), text, "dead letter", help)
    }

    /// Sends a command for a run and returns the run's state after it.
    pub(super) async fn command(
        &self,
        run: RunId,
        what: &str,
        body: Option<Value>,
    ) -> Result<Value, CliError> {
        let body = body.unwrap_or_else(|| json!({}));
        let asked = self.post(&format!("/v1/runs/{run}/{what}"), &body).await?;
        asked.map_err(CliError::from)
    }
}

/// A service on a store that executes no runs. `alone`: no other process has the store open.
async fn in_process(
    store: DynStore,
    alone: bool,
) -> Result<TowerToHyperService<axum::Router>, CliError> {
    let config = Config { sole_owner: alone, ..Config::default() };
    // Nothing is called: the set declares which actions a node of the command line has.
    let http = HttpActions::new(TcpConnect::new(), |_: &str| None);
    let actions = ActionSet::new(Registry::new(), http);
    let engine = Engine::<CliWorld>::idle(TokioRuntime::current(), store, actions, config);
    let monitor = Monitor::new().map_err(|e| CliError::store(format!("no metrics: {e}")))?;
    // No other caller waits for this answer.
    let limits = Limits { page: PAGE, answer_within: Nanos::MAX, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let service = Service::new(engine.await, monitor, settings);
    Ok(TowerToHyperService::new(service.router()))
}

/// The sort key of letters: the time of the failure, then the id.
fn order(letter: &Value) -> (Option<Timestamp>, Option<LetterId>) {
    let read = |name: &str| letter[name].as_str();
    let at = read("failed_at").and_then(|at| at.parse().ok());
    (at, read("letter").and_then(|id| id.parse().ok()))
}

/// The one of these names that begins with `text`.
pub(super) fn find_unique<T: FromStr>(
    names: impl Iterator<Item = String>,
    text: &str,
    what: &str,
    help: &str,
) -> Result<T, CliError> {
    let wanted = text.to_lowercase();
    let mut found: Vec<_> = names.filter(|name| name.starts_with(&wanted)).collect();
    // A damaged one may be named beside the whole ones.
    found.sort();
    found.dedup();
    let none = || CliError::input(format!("no {what} begins with `{text}`")).help(help);
    match found.as_slice() {
        [one] => one.parse().map_err(|_| none()),
        [] => Err(none()),
        many => {
            let names = many.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
            let rest = if many.len() > 5 { " and others" } else { "" };
            Err(CliError::input(format!("several ids begin with `{text}`: {names}{rest}"))
                .help("write more characters of the id"))
        }
    }
}
