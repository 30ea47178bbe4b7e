//! A store whose runs nobody works on meanwhile: what the commands over a store share.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use retrial::engine::{CommandError, Config, Engine};
use retrial::run::{LetterId, Recorded, RunId, RunState, Version, decode};
use retrial::runtime::TokioRuntime;
use retrial::store::{
    AskLetters, LetterFilter, LetterHead, RedbStore, RunHead, RunPhase, Store, StoreError,
};
use serde_json::Value;

use super::one_run::OneRun;
use super::report::Trouble;
use super::world::{self, Real};

/// Runs or letters looked at in one step.
const PAGE: usize = 256;
/// How long the store may take to close.
const LAST_WORK: Duration = Duration::from_secs(2);

/// Where the runs are.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The store's file [default: the one .redb file in .retrial/]
    #[arg(long, value_name = "PATH", global = true)]
    store: Option<PathBuf>,
}

impl Place {
    pub(super) fn new(store: Option<PathBuf>) -> Self {
        Self { store }
    }

    /// The store's file, which must be there: looking at a store makes none.
    pub(super) fn path(&self) -> Result<PathBuf, Trouble> {
        if let Some(path) = &self.store {
            return match path.is_file() {
                true => Ok(path.clone()),
                false => Err(Trouble::store(format!("there is no store at `{}`", path.display()))),
            };
        }
        let files = std::fs::read_dir(".retrial").into_iter().flatten().flatten();
        let mut stores: Vec<PathBuf> = files.map(|file| file.path()).collect();
        stores.retain(|path| path.extension().is_some_and(|e| e == "redb"));
        stores.sort();
        match stores.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Trouble::store("there is no store in .retrial/")
                .help("say where the store is: --store PATH")),
            many => {
                let names: Vec<_> = many.iter().map(|path| path.display().to_string()).collect();
                Err(Trouble::input(format!("there are several stores: {}", names.join(", ")))
                    .help("say which is meant: --store PATH"))
            }
        }
    }
}

/// An open store, and an engine on it that works on no run: what people do to a run goes through
/// the same code as anywhere.
pub(super) struct Desk {
    engine: Engine<Real>,
    pub(super) path: PathBuf,
}

/// Does `act` at a desk and closes the store.
pub(super) fn at<T>(
    place: &Place,
    act: impl AsyncFnOnce(&Desk) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let path = place.path()?;
    block_on(async {
        let desk = Desk::open(path).await?;
        act(&desk).await
    })
}

/// Runs `future` to its end. Closes what it has opened: a name that is still being looked up is not
/// waited for.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let tokio = tokio.map_err(|e| Trouble::store(format!("the process can't start: {e}")))?;
    let done = tokio.block_on(future);
    tokio.shutdown_timeout(LAST_WORK);
    done
}

impl Desk {
    async fn open(path: PathBuf) -> Result<Self, Trouble> {
        let runtime = TokioRuntime::current();
        let store = RedbStore::open(runtime.clone(), &path).await;
        let store = store.map_err(|e| Trouble::store(e.to_string()))?;
        let store = OneRun::nobody(store);
        let engine = world::start(runtime, store, Config::default(), Vec::new(), |_| None).await;
        Ok(Self { engine, path })
    }

    pub(super) fn engine(&self) -> &Engine<Real> {
        &self.engine
    }

    pub(super) fn store(&self) -> &RedbStore {
        self.engine.store().inner()
    }

    /// `--store PATH`, to be written after a command that shall find the same store.
    pub(super) fn option(&self) -> String {
        option(&self.path)
    }

    /// Every run, oldest first, and those whose records are damaged.
    pub(super) async fn runs(&self) -> Result<(Vec<RunHead>, Vec<RunId>), Trouble> {
        runs(self.store()).await
    }

    /// The one run whose id begins with `text`.
    pub(super) async fn run(&self, text: &str) -> Result<RunHead, Trouble> {
        find_run(self.store(), text).await
    }

    /// The dead letters that are wanted, oldest first, and those that are damaged.
    pub(super) async fn letters(
        &self,
        filter: &LetterFilter,
    ) -> Result<(Vec<LetterHead>, Vec<LetterId>), Trouble> {
        let (mut found, mut damaged, mut after) = (Vec::new(), BTreeSet::new(), None);
        loop {
            let ask = AskLetters { after, limit: PAGE, filter: filter.clone() };
            let page = self.store().letters(ask).await.map_err(|e| unavailable(&e))?;
            damaged.extend(page.damaged);
            let Some(last) = page.letters.last() else { break };
            after = Some(last.id);
            found.extend(page.letters);
        }
        found.sort_by_key(|head| (head.at, head.id));
        Ok((found, damaged.into_iter().collect()))
    }

    /// The one dead letter whose name begins with `text`.
    pub(super) async fn letter(&self, text: &str) -> Result<LetterId, Trouble> {
        if let Ok(id) = text.parse::<LetterId>() {
            return Ok(id);
        }
        let (all, damaged) = self.letters(&LetterFilter::default()).await?;
        let mut named: Vec<_> = all.iter().map(|head| head.id).chain(damaged).collect();
        named.retain(|id| id.to_string().starts_with(&text.to_lowercase()));
        one_of(&named, text, "dead letter", "`retrial dlq list --all` lists them").copied()
    }

    /// A run's state, and its events as far as they are kept.
    pub(super) async fn history(&self, run: RunId) -> Result<(RunState, Vec<Recorded>), Trouble> {
        let state = self.engine.state(run).await.map_err(|e| refused(&e))?;
        let loaded = self.store().load(run, Some(Version::START)).await;
        let loaded = loaded.map_err(|e| unavailable(&e))?;
        let events = loaded.map(|loaded| loaded.tail.events).unwrap_or_default();
        let events: Result<Vec<_>, _> = events.iter().map(|bytes| decode(bytes)).collect();
        let events = events.map_err(|e| Trouble::store(format!("run {run}: {e}")))?;
        Ok((state, events))
    }
}

/// Every run, oldest first, and those whose records are damaged.
pub(super) async fn runs(store: &impl Store) -> Result<(Vec<RunHead>, Vec<RunId>), Trouble> {
    // A page may name a damaged run that the next one names again.
    let (mut found, mut damaged, mut after) = (Vec::new(), BTreeSet::new(), None);
    loop {
        let page = store.heads(after, PAGE).await.map_err(|e| unavailable(&e))?;
        damaged.extend(page.damaged);
        let Some(last) = page.runs.last() else { break };
        after = Some(last.run);
        found.extend(page.runs);
    }
    found.sort_by_key(|head| (head.created, head.run));
    Ok((found, damaged.into_iter().collect()))
}

/// The one run whose id begins with `text`.
pub(super) async fn find_run(store: &impl Store, text: &str) -> Result<RunHead, Trouble> {
    let (runs, damaged) = runs(store).await?;
    let wanted = text.to_lowercase();
    let named = |run: &RunId| run.to_string().starts_with(&wanted);
    let found: Vec<_> =
        runs.iter().map(|head| head.run).chain(damaged.clone()).filter(named).collect();
    let run = *one_of(&found, text, "run", "`retrial list` lists them")?;
    match runs.into_iter().find(|head| head.run == run) {
        Some(head) => Ok(head),
        None => Err(Trouble::store(format!("run {run} in the store is damaged"))
            .help("put a backup of the store in its place; its other runs can still be read")),
    }
}

fn one_of<'n, T: std::fmt::Display>(
    named: &'n [T],
    text: &str,
    what: &str,
    help: &str,
) -> Result<&'n T, Trouble> {
    match named {
        [one] => Ok(one),
        [] => Err(Trouble::input(format!("no {what} begins with `{text}`")).help(help)),
        many => {
            let names: Vec<_> = many.iter().take(5).map(ToString::to_string).collect();
            let rest = if many.len() > 5 { " and others" } else { "" };
            let names = names.join(", ");
            Err(Trouble::input(format!("several begin with `{text}`: {names}{rest}"))
                .help("give more of it"))
        }
    }
}

/// `--store PATH`, to be written after a command that shall find the same store.
pub(super) fn option(path: &Path) -> String {
    format!("--store {}", path.display())
}

/// A phase as lists show it.
pub(super) fn phase(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Running => "running",
        RunPhase::Paused => "paused",
        RunPhase::Completed => "completed",
        RunPhase::Failed => "failed",
        RunPhase::Cancelled => "cancelled",
        RunPhase::Deactivated => "deactivated",
    }
}

/// Lines whose columns stand below each other; the first line names them.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |n: usize| rows.iter().filter_map(|r| r.get(n)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|n| width(n).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Prints to a reader that may have gone away.
pub(super) fn print(text: &str) -> Result<ExitCode, Trouble> {
    match stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Trouble::input(format!("stdout can't be written: {e}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints JSON, indented.
pub(super) fn print_json(value: &Value) -> Result<ExitCode, Trouble> {
    print(&format!("{value:#}\n"))
}

pub(super) fn unavailable(error: &StoreError) -> Trouble {
    Trouble::store(error.to_string())
}

pub(super) fn refused(error: &CommandError) -> Trouble {
    match error {
        CommandError::Broken(_) => Trouble::store(error.to_string()),
        _ => Trouble::input(error.to_string()),
    }
}
