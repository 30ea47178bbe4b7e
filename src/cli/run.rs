//! `retrial run`: runs a workflow file for real, or takes its unfinished run up again.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use retrial::action::{ActionSet, HttpActions, Registry};
use retrial::dialect::Environment;
use retrial::engine::{CommandError, Config, Engine, Submission, SubmitError, World};
use retrial::net::TcpConnect;
use retrial::observe::Observer;
use retrial::run::{Outcome, RunId, RunState};
use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::RedbStore;

use super::events::Events;
use super::one_run::OneRun;
use super::report::Trouble;
use super::resume::{self, Left};
use super::signals::{Signals, Stop};
use super::watch::{Place, Watch};
use super::{Lookup, results, text};

/// Run a workflow file for real.
///
/// Killed at any moment and started again with the same arguments, it takes up the unfinished run
/// of the same workflow and input, and says so first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with 0 completed, 1 failed, 2 bad input, 3 store unavailable.")]
pub(super) struct Arguments {
    /// The workflow: .toml, .json, or IR text
    file: String,

    /// The store's file [default: .retrial/NAME.redb in the working folder]
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,

    /// The run's input, a JSON object laid over the workflow's defaults
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// Start another run although an unfinished one could be resumed
    #[arg(long)]
    new: bool,

    /// The actions of IR text, TOML or JSON: [actions.NAME], and [input] and [defaults]
    #[arg(long, value_name = "FILE")]
    actions: Option<String>,

    /// How much of a task is printed, and when
    #[arg(long, value_enum, default_value_t = OutputName::Auto)]
    output: OutputName,

    /// Write the run's events as JSON lines, all of them from its first; `-` is stdout, and the
    /// printed lines then go to stderr
    #[arg(long, value_name = "FILE")]
    events: Option<String>,

    /// The most attempts in progress at once
    #[arg(long, value_name = "N", default_value = "64")]
    concurrency: NonZeroU16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputName {
    /// Short on recovery, in detail on failure
    Auto,
    /// Every line at once
    Detailed,
}

/// Production.
struct Real;

impl World for Real {
    type Runtime = TokioRuntime;
    type Store = OneRun<RedbStore>;
    type Actions = ActionSet<TcpConnect>;
}

pub(super) fn main(arguments: Arguments, lookup: Lookup) -> Result<ExitCode, Trouble> {
    let environment = Environment::read(lookup)?;
    let actions = arguments.actions.as_deref();
    let document = text::workflow(&arguments.file, actions, &environment, lookup)?;
    let input = text::input(arguments.input.as_deref())?;
    let submission = Submission::new(Arc::new(document.workflow)).with_input(input);
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let tokio = tokio.map_err(|e| Trouble::store(format!("the process can't start: {e}")))?;
    let code = tokio.block_on(run(arguments, submission, lookup));
    // Closes the store. A name that is still being looked up is not waited for.
    tokio.shutdown_timeout(LAST_WORK);
    code
}

/// How long the store may take to close.
const LAST_WORK: Duration = Duration::from_secs(2);

async fn run(
    arguments: Arguments,
    submission: Submission,
    lookup: Lookup,
) -> Result<ExitCode, Trouble> {
    let mut signals = Signals::listen()
        .map_err(|e| Trouble::store(format!("the process can't hear signals: {e}")))?;
    let runtime = TokioRuntime::current();
    let path = store_path(arguments.store.as_deref(), submission.workflow.name())?;
    let store = RedbStore::open(runtime.clone(), &path).await;
    let store = store.map_err(|e| Trouble::store(e.to_string()))?;
    let digest = (!arguments.new).then(|| submission.digest());
    let found = resume::find(&store, digest).await?;

    let events = arguments.events.as_deref().map(Events::open).transpose()?;
    let watch = Arc::new(watch(&arguments, lookup));
    let drawn = RunId::from_random(runtime.random(), runtime.random());
    let id = found.wanted.unwrap_or(drawn);
    if found.wanted.is_some() {
        take_up(&Left::load(&store, id).await?, &watch, events.as_ref());
    }
    let seed = runtime.random();
    // The events first: the watch says that the end was told.
    let mut observers: Vec<Arc<dyn Observer>> = events.iter().map(Events::observer).collect();
    observers.push(Arc::clone(&watch) as _);
    let engine = start(runtime, OneRun::new(store, id), &arguments, observers, lookup).await;
    if found.wanted.is_none() {
        watch.begin_with(first_line(id, &submission, &path, found.others));
        let submission = Submission { id: Some((id, seed)), ..submission };
        engine.submit(submission).await.map_err(refused)?;
    }
    let code = finish(&engine, id, &watch, &mut signals).await;
    events.iter().for_each(Events::close);
    code
}

fn watch(arguments: &Arguments, lookup: Lookup) -> Watch {
    let place = match Events::takes_stdout(arguments.events.as_deref()) {
        true => Place::Stderr,
        false => Place::Stdout,
    };
    Watch::new(place, arguments.output == OutputName::Detailed, lookup)
}

/// Says that the run goes on, and has who watches know what happened before.
fn take_up(left: &Left, watch: &Watch, events: Option<&Events>) {
    if let Some(events) = events {
        events.recall(left.notices());
    }
    let (run, name, progress) = (left.run(), left.workflow(), left.progress());
    watch.printer().say(&format!("Resuming run {run} of {name}: {progress}."));
    left.notices().for_each(|notice| watch.printer().recall(&notice));
}

async fn start(
    runtime: TokioRuntime,
    store: OneRun<RedbStore>,
    arguments: &Arguments,
    observers: Vec<Arc<dyn Observer>>,
    lookup: Lookup,
) -> Engine<Real> {
    let http = HttpActions::new(TcpConnect::new(), lookup);
    let actions = ActionSet::new(Registry::new(), http);
    let config = Config { concurrency: arguments.concurrency.get().into(), ..Config::default() };
    Engine::start(runtime, store, actions, config, observers).await
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

/// The store's file. Makes the default folder, no other: a mistyped path is an error.
fn store_path(given: Option<&Path>, workflow: &str) -> Result<PathBuf, Trouble> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let folder = Path::new(".retrial");
    std::fs::create_dir_all(folder).map_err(|e| {
        Trouble::store(format!("the folder `{}` can't be made: {e}", folder.display()))
            .help("say where the store shall be: --store PATH")
    })?;
    Ok(folder.join(format!("{workflow}.redb")))
}

/// Waits for the run's end, or for somebody who wants the process to stop.
async fn finish(
    engine: &Engine<Real>,
    id: RunId,
    watch: &Watch,
    signals: &mut Signals,
) -> Result<ExitCode, Trouble> {
    let stop = tokio::select! {
        biased;
        stop = signals.next() => stop,
        ended = engine.outcome(id) => {
            let ended = ended.map_err(lost)?;
            // The store knows of the end before the observers do.
            watch.ended().await;
            return Ok(summarise(watch, &ended.state, &ended.outcome));
        }
    };
    watch.printer().say("Stopping once the attempts in progress have ended. Again stops at once.");
    tokio::select! {
        biased;
        again = signals.next() => std::process::exit(again.number().into()),
        () = engine.clone().shutdown() => {}
    }
    let state = engine.state(id).await.map_err(lost)?;
    match state.outcome() {
        Some(outcome) => Ok(summarise(watch, &state, outcome)),
        None => Ok(leave(watch, id, stop)),
    }
}

fn leave(watch: &Watch, id: RunId, stop: Stop) -> ExitCode {
    watch.printer().release();
    watch.printer().say(&format!(
        "Run {id} is unfinished and loses nothing. The same command without --new resumes it."
    ));
    stop.code()
}

fn summarise(watch: &Watch, state: &RunState, outcome: &Outcome) -> ExitCode {
    if *outcome == Outcome::Completed {
        results::lines(state).iter().for_each(|line| watch.printer().say(line));
    }
    watch.printer().summarise();
    match outcome {
        Outcome::Completed => ExitCode::SUCCESS,
        Outcome::Failed { .. } | Outcome::Cancelled { .. } => ExitCode::FAILURE,
    }
}

fn refused(error: SubmitError) -> Trouble {
    match error {
        SubmitError::Broken(_) => Trouble::store(error.to_string()),
        SubmitError::UnknownFunction { .. } => Trouble::input(error.to_string())
            .help("register it in a program of your own, or choose another backoff"),
        _ => Trouble::input(error.to_string()),
    }
}

fn lost(error: CommandError) -> Trouble {
    Trouble::store(error.to_string())
}
