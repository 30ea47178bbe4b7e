//! `retrial run`: runs a workflow file, or resumes its unfinished run.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use retrial::dialect::Environment;
use retrial::engine::{CommandError, Config, Engine, Submission, SubmitError};
use retrial::observe::Observer;
use retrial::run::{Digest, Outcome, RunId, RunState};
use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::{DynStore, RedbStore};

use super::error::CliError;
use super::events::Events;
use super::results::{self, Shown};
use super::resume::{self, FoundRun, UnfinishedRun};
use super::run_printer::{OutputStream, RunPrinter};
use super::signals::{Signals, Stop};
use super::single_run_store::SingleRunStore;
use super::world::{self, CliWorld};
use super::{Lookup, input, network, stores, target};

/// Run a workflow file.
///
/// If the process is killed, the same command resumes the unfinished run of the same workflow and
/// input. --resume resumes any unfinished run of a store and needs no file: the store holds the
/// run's definition.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 completed, 1 failed, 2 bad input, 3 store unavailable.")]
pub(super) struct Arguments {
    /// The workflow: .toml, .json, or IR text; - reads standard input
    #[arg(required_unless_present = "resume")]
    file: Option<String>,

    /// Resume this unfinished run: its id or a unique prefix of it
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["file", "input", "new", "actions", "key"]
    )]
    resume: Option<String>,

    /// The submission key: the same key again finds the first run
    #[arg(long, value_name = "KEY", conflicts_with = "new")]
    key: Option<String>,

    /// The store's file [default: .retrial/NAME.redb in the working folder]
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,

    /// The run's input: a JSON object that overrides the workflow's defaults
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// Start a new run even if an unfinished one could be resumed
    #[arg(long)]
    new: bool,

    /// The file with the actions of an IR program, TOML or JSON: its tables `actions`, `input` and
    /// `defaults`
    #[arg(long, value_name = "FILE")]
    actions: Option<String>,

    #[command(flatten)]
    options: RunOptions,
}

/// How a run is executed and printed.
#[derive(Debug, clap::Args)]
struct RunOptions {
    /// How much to print of each task
    #[arg(long, value_enum, default_value_t = OutputName::Auto)]
    output: OutputName,

    /// Write all of the run's events to this file as JSON lines; with `-` they go to stdout and the
    /// printed lines to stderr
    #[arg(long, value_name = "FILE")]
    events: Option<String>,

    /// Print only the shape of results, with every value masked
    #[arg(long)]
    mask: bool,

    /// The most attempts in progress at once
    #[arg(long, value_name = "N", default_value = "64")]
    concurrency: NonZeroU16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputName {
    /// Brief for tasks that recover, detailed for tasks that fail
    Auto,
    /// Every line as it happens
    Detailed,
}

impl Default for RunOptions {
    fn default() -> Self {
        let concurrency = NonZeroU16::MIN.saturating_add(63);
        Self { output: OutputName::Auto, events: None, mask: false, concurrency }
    }
}

impl RunOptions {
    fn shown(&self) -> Shown {
        if self.mask { Shown::Shape } else { Shown::Values }
    }
}

/// The workflow and its settings.
enum Work {
    Submit(Box<Submission>),
    /// The unfinished run of this id.
    Resume(String),
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let work = work(arguments, lookup)?;
    let Arguments { store, new, options, .. } = arguments;
    target::block_on(run(work, store.clone(), *new, options, lookup))
}

/// Resumes the unfinished run `id` of the store at `path`.
pub(super) fn resume(path: &Path, id: RunId, lookup: Lookup) -> Result<ExitCode, CliError> {
    let work = Work::Resume(id.to_string());
    target::block_on(run(work, Some(path.to_owned()), false, &RunOptions::default(), lookup))
}

fn work(arguments: &Arguments, lookup: Lookup) -> Result<Work, CliError> {
    let Some(file) = &arguments.file else {
        return Ok(Work::Resume(arguments.resume.clone().unwrap_or_default()));
    };
    let environment = Environment::read(lookup)?;
    let document = input::workflow(file, arguments.actions.as_deref(), &environment, lookup)?;
    let input = input::input(arguments.input.as_deref())?;
    let submission = Submission::new(Arc::new(document.workflow)).with_input(input);
    Ok(Work::Submit(Box::new(Submission { key: arguments.key.clone(), ..submission })))
}

async fn run(
    work: Work,
    place: Option<PathBuf>,
    new: bool,
    options: &RunOptions,
    lookup: Lookup,
) -> Result<ExitCode, CliError> {
    let mut signals = Signals::listen()
        .map_err(|e| CliError::store(format!("signal handlers can't be installed: {e}")))?;
    let runtime = TokioRuntime::current();
    let network = network::of_environment(lookup)?;
    let path = match &work {
        Work::Submit(submission) => store_path(place.as_deref(), submission.workflow.name())?,
        Work::Resume(_) => stores::file(place.as_deref())?,
    };
    let store = stores::in_file(&path).await?;
    let found = find(&work, &store, new).await?;
    if let (Work::Submit(_), Some(head)) = (&work, &found.wanted)
        && head.phase.is_terminal()
    {
        return results::of_ended(
            &UnfinishedRun::load(&store, head.run).await?,
            head,
            options.shown(),
        );
    }
    found.wanted.iter().try_for_each(|head| resume::may_run(head, &path))?;

    let events = options.events.as_deref().map(Events::open).transpose()?;
    let printer = Arc::new(new_printer(options, lookup));
    let id = found.wanted.as_ref().map_or_else(|| new_id(&work, &runtime), |head| head.run);
    if found.wanted.is_some() {
        let left = UnfinishedRun::load(&store, id).await?;
        input::check_variables(left.state().workflow(), lookup)?;
        resume::nothing_held(&left, &path)?;
        announce_resumed(&left, &printer, events.as_ref());
    }
    let seed = runtime.random();
    // The events first: `RunPrinter::ended` then implies that they are written.
    let mut observers: Vec<Arc<dyn Observer>> = events.iter().map(Events::observer).collect();
    observers.push(Arc::clone(&printer) as _);
    // Whoever starts the run is told how many attempts are made at once.
    let concurrency = options.concurrency.get().into();
    // Whoever starts it again is at hand to see what it does.
    let config =
        Config { concurrency, action_share: 100, quarantine_after: None, ..Config::default() };
    let store = Arc::new(SingleRunStore::new(store, id));
    let shown = DynStore::new(Arc::clone(&store));
    let engine = world::start(runtime, shown, config, observers, network, lookup).await;
    if let (Work::Submit(submission), None) = (work, found.wanted) {
        printer.begin_with(first_line(id, &submission, &path, found.others));
        let submission = Submission { id: Some((id, seed)), ..*submission };
        let submitted = engine.submit(submission).await.map_err(refused)?;
        if submitted.run != id {
            let first = submitted.run;
            return Err(CliError::input(format!("the key belongs to run {first}")).help(format!(
                "resume that run: retrial run --resume {first} {}",
                resume::option(&path)
            )));
        }
    }
    let code = finish(&engine, &store, id, (&printer, options.shown()), &mut signals).await;
    events.iter().for_each(Events::close);
    code
}

/// The existing run that the command refers to, if there is one.
async fn find(work: &Work, store: &RedbStore, new: bool) -> Result<FoundRun, CliError> {
    let submission = match work {
        Work::Resume(text) => {
            let wanted = Some(resume::find_run(store, text).await?);
            return Ok(FoundRun { wanted, others: 0 });
        }
        Work::Submit(submission) => submission,
    };
    let Some(key) = &submission.key else {
        return resume::find(store, (!new).then(|| submission.digest())).await;
    };
    let run = id_of_key(key);
    let wanted = resume::runs(store).await?.0.into_iter().find(|head| head.run == run);
    match wanted {
        Some(head) if head.digest != submission.digest() => {
            Err(refused(SubmitError::KeyConflict { key: key.clone(), run }))
        }
        wanted => Ok(FoundRun { wanted, others: 0 }),
    }
}

/// A new run's id, of chance from its beginning on: people type that. A submission with a key always
/// gets the same id, by which its run is found.
fn new_id(work: &Work, runtime: &TokioRuntime) -> RunId {
    match work {
        Work::Submit(submission) if submission.key.is_some() => {
            id_of_key(submission.key.as_deref().unwrap_or_default())
        }
        _ => RunId::from_random(runtime.random(), runtime.random()),
    }
}

fn id_of_key(key: &str) -> RunId {
    let digest = Digest::of(format!("retrial key {key}").as_bytes()).to_string();
    let half = |n: usize| u64::from_str_radix(&digest[16 * n..16 * (n + 1)], 16).unwrap_or(0);
    RunId::from_random(half(0), half(1))
}

fn new_printer(options: &RunOptions, lookup: Lookup) -> RunPrinter {
    let place = match Events::takes_stdout(options.events.as_deref()) {
        true => OutputStream::Stderr,
        false => OutputStream::Stdout,
    };
    RunPrinter::new(place, options.output == OutputName::Detailed, lookup)
}

/// Prints that the run resumes, and replays its past events to the observers.
fn announce_resumed(left: &UnfinishedRun, printer: &RunPrinter, events: Option<&Events>) {
    if let Some(events) = events {
        events.recall(left.notices());
    }
    let (run, name, progress) = (left.run(), left.workflow(), left.progress());
    printer.printer().say(&format!("Resuming run {run} of {name}: {progress}."));
    left.notices().for_each(|notice| printer.printer().recall(&notice));
}

fn first_line(id: RunId, submission: &Submission, path: &Path, others: usize) -> String {
    let name = submission.workflow.name();
    let mut line = format!("Run {id} of {name}, kept in {}", path.display());
    match others {
        0 => {}
        1 => line.push_str("; 1 other unfinished run there is left alone"),
        n => line.push_str(&format!("; {n} other unfinished runs there are left alone")),
    }
    line.push('.');
    line
}

/// The store's file. Creates the default folder and no other: a mistyped path is an error.
fn store_path(given: Option<&Path>, workflow: &str) -> Result<PathBuf, CliError> {
    if let Some(path) = given {
        if path.to_string_lossy().contains("://") {
            return Err(CliError::input("`retrial run` needs a store in a file")
                .help("submit the run to a service instead, which `retrial serve` starts"));
        }
        return Ok(path.to_owned());
    }
    let folder = Path::new(".retrial");
    std::fs::create_dir_all(folder).map_err(|e| {
        CliError::store(format!("the folder `{}` can't be created: {e}", folder.display()))
            .help("choose another place with --store PATH")
    })?;
    Ok(folder.join(format!("{workflow}.redb")))
}

/// Waits until the run ends or a signal arrives.
async fn finish(
    engine: &Engine<CliWorld>,
    store: &SingleRunStore,
    id: RunId,
    (printer, shown): (&RunPrinter, Shown),
    signals: &mut Signals,
) -> Result<ExitCode, CliError> {
    let stop = tokio::select! {
        biased;
        stop = signals.next() => stop,
        ended = engine.outcome(id) => {
            let ended = ended.map_err(lost)?;
            // The store knows of the end before the observers do.
            printer.ended().await;
            deliver_alerts(engine, store, signals).await?;
            return Ok(summarise(printer, shown, (&ended.state, &ended.outcome)));
        }
    };
    printer
        .printer()
        .say("Stopping when the attempts in progress have ended. A second signal stops at once.");
    tokio::select! {
        biased;
        again = signals.next() => std::process::exit(again.number().into()),
        () = engine.clone().shutdown() => {}
    }
    let state = engine.state(id).await.map_err(lost)?;
    match state.outcome() {
        Some(outcome) => Ok(summarise(printer, shown, (&state, outcome))),
        None => Ok(leave(printer, id, stop)),
    }
}

/// Waits until the run's alerts are delivered or a signal arrives. Alerts that are not delivered yet
/// stay in the store.
async fn deliver_alerts(
    engine: &Engine<CliWorld>,
    store: &SingleRunStore,
    signals: &mut Signals,
) -> Result<(), CliError> {
    for run in store.added() {
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(()),
            ended = engine.outcome(run) => drop(ended.map_err(lost)?),
        }
    }
    Ok(())
}

fn leave(printer: &RunPrinter, id: RunId, stop: Stop) -> ExitCode {
    printer.printer().release();
    printer.printer().say(&format!(
        "Run {id} is unfinished and its progress is stored. The same command without --new resumes it."
    ));
    stop.code()
}

fn summarise(
    printer: &RunPrinter,
    shown: Shown,
    (state, outcome): (&RunState, &Outcome),
) -> ExitCode {
    if *outcome == Outcome::Completed {
        results::lines(state, shown).iter().for_each(|line| printer.printer().say_all(line));
    }
    printer.printer().summarise();
    match outcome {
        Outcome::Completed => ExitCode::SUCCESS,
        Outcome::Failed { .. } | Outcome::Cancelled { .. } => ExitCode::FAILURE,
    }
}

fn refused(error: SubmitError) -> CliError {
    match error {
        SubmitError::Broken(_) => CliError::store(error.to_string()),
        SubmitError::UnknownFunction { .. } => CliError::input(error.to_string())
            .help("register it in a program of your own, or choose another backoff"),
        _ => CliError::input(error.to_string()),
    }
}

fn lost(error: CommandError) -> CliError {
    CliError::store(error.to_string())
}
