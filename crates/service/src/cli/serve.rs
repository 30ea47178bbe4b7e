//! `retrial serve`: a node and its HTTP interface.

use std::io::Write as _;
use std::marker::PhantomData;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use retrial::action::{ActionSet, HttpActions, Registry};
use retrial::engine::{Config, Engine, World};
use retrial::net::TcpConnect;
use retrial::observe::{Observer, otlp};
use retrial::run::RunId;
use retrial::runtime::{Runtime, Task, TokioRuntime};
use retrial::store::Store;
use retrial::time::Nanos;
use retrial_service::server::{Monitor, RestrictedNetwork, Service};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::config::{self, Configuration, Flags};
use super::error::CliError;
use super::signals::Signals;
use super::{Lookup, log, stores, target};

/// Work on the runs of a store, and answer over HTTP.
///
/// Stops in good order on SIGTERM and SIGINT: takes no more requests, lets attempts in progress end
/// or gives them back, and ends with 0. A second signal ends it at once; nothing is lost either way.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

const AFTER: &str = "Every setting can also stand in a file (retrial.toml) or in the environment \
(RETRIAL_...); flags come before the environment, and that before the file. `retrial config check` \
shows them all.\n\nEnds with 0 stopped, 2 bad input, 3 store unavailable.";

/// How long the last spans may take to be sent.
const LAST_SPANS: Nanos = Nanos::from_secs(3);

/// The world of a service on a store.
struct Served<S>(PhantomData<S>);

impl<S: Store> World for Served<S> {
    type Runtime = TokioRuntime;
    type Store = S;
    type Actions = ActionSet<RestrictedNetwork<TcpConnect>>;
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let configuration = config::resolve(&arguments.flags, lookup)?;
    log::start(Some(configuration.log.clone()))?;
    target::block_on(choose(configuration, lookup))
}

/// On which store.
async fn choose(configuration: Configuration, lookup: Lookup) -> Result<ExitCode, CliError> {
    let place = configuration.store.clone();
    if stores::is_database(&place) {
        let store = stores::database(&place).await?;
        return serve(store, false, configuration, lookup).await;
    }
    make_usual_folder(Path::new(&place))?;
    let store = stores::in_file(Path::new(&place)).await?;
    // No other process can open the file meanwhile.
    serve(store, true, configuration, lookup).await
}

/// Makes the default folder, no other: a mistyped path is an error.
fn make_usual_folder(path: &Path) -> Result<(), CliError> {
    let folder = Path::new(".retrial");
    if path.parent() != Some(folder) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|e| {
        CliError::store(format!("the folder `{}` can't be made: {e}", folder.display()))
            .help("say where the store shall be: --store PATH")
    })
}

async fn serve<S: Store>(
    store: S,
    sole_owner: bool,
    configuration: Configuration,
    lookup: Lookup,
) -> Result<ExitCode, CliError> {
    let runtime = TokioRuntime::current();
    let Configuration { listen, node, traces, service: settings, .. } = configuration;
    let signals = Signals::listen()
        .map_err(|e| CliError::store(format!("the process can't hear signals: {e}")))?;
    let listener = TcpListener::bind(listen).await.map_err(|e| {
        CliError::input(format!("{listen} can't be listened on: {e}"))
            .help("choose another address or port: --listen")
    })?;
    let monitor = Monitor::new().map_err(|e| CliError::store(format!("no metrics: {e}")))?;
    // Nothing else in this process has a recorder.
    let _ = monitor.install();
    let allowed = settings.allow_env.clone();
    let variables = move |name: &str| allowed.contains(name).then(|| lookup(name)).flatten();
    let network = RestrictedNetwork::new(TcpConnect::new(), settings.hosts.clone());
    let actions = ActionSet::new(Registry::new(), HttpActions::new(network, variables));
    let mut observers = vec![Arc::clone(&monitor) as Arc<dyn Observer>];
    let export = traces.map(|collector| traced(&collector, &runtime)).transpose()?;
    let exported = export.map(|(traces, exported)| {
        observers.push(traces);
        exported
    });
    let node = Config { sole_owner, ..node };
    let engine = Engine::<Served<S>>::start(runtime.clone(), store, actions, node, observers).await;
    let service = Service::new(engine, monitor, settings);
    let address = listener.local_addr().unwrap_or(listen);
    say(&format!("Listening on http://{address}"));
    let served = service.serve(listener, asked_to_stop(runtime.clone(), signals)).await;
    if let Some(exported) = exported {
        exported.end(&runtime).await;
    }
    served.map_err(|e| CliError::input(e.to_string()))?;
    say("Stopped.");
    Ok(ExitCode::SUCCESS)
}

/// An observer whose spans go to `collector`, and the sending of them.
fn traced(
    collector: &str,
    runtime: &TokioRuntime,
) -> Result<(Arc<dyn Observer>, Exported), CliError> {
    let node = RunId::from_random(runtime.random(), runtime.random()).to_string();
    let (traces, export) = otlp::traces(collector, &node, TcpConnect::new()).map_err(|e| {
        CliError::input(e.to_string()).help("set `traces` or OTEL_EXPORTER_OTLP_...")
    })?;
    let (told, ended) = oneshot::channel();
    let sending = runtime.clone();
    let task = runtime.spawn(async move {
        export.run(sending).await;
        // Nobody waits for it while the service runs.
        let _ = told.send(());
    });
    Ok((Arc::new(traces), Exported { ended, _task: task }))
}

/// Spans on their way.
struct Exported {
    ended: oneshot::Receiver<()>,
    _task: Task,
}

impl Exported {
    /// Gives the last spans a little time.
    async fn end(self, runtime: &TokioRuntime) {
        tokio::select! {
            biased;
            _ = self.ended => {}
            () = runtime.sleep_until(runtime.now().after(LAST_SPANS)) => {}
        }
    }
}

/// Ends with the first signal; the second ends the process.
async fn asked_to_stop(runtime: TokioRuntime, mut signals: Signals) {
    signals.next().await;
    say("Stopping once requests and attempts in progress have ended. Again stops at once.");
    let again = runtime.spawn(async move {
        let again = signals.next().await;
        std::process::exit(again.number().into())
    });
    again.detach();
}

/// Whoever reads may be gone.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
