//! `retrial serve`: a node and its HTTP interface.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use retrial::action::{ActionSet, HttpActions, Registry};
use retrial::engine::{Config, Engine};
use retrial::net::{Authority, TcpConnect};
use retrial::observe::{Observer, otlp};
use retrial::run::RunId;
use retrial::runtime::{Runtime, Task, TokioRuntime};
use retrial::store::DynStore;
use retrial::time::Nanos;
use retrial_service::server::{Audit, Monitor, Service, Settings, WatchedStore};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::config::{self, Configuration, Flags};
use super::error::CliError;
use super::signals::Signals;
use super::world::CliWorld;
use super::{Lookup, log, stores, target};

/// Execute the runs of a store and serve the HTTP API.
///
/// On SIGTERM or SIGINT it stops accepting requests, waits for attempts in progress or gives their
/// tasks back, and exits with 0. A second signal stops it at once. Neither loses any work.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

const AFTER: &str = "Every setting can also be set in a file (retrial.toml) or in the environment \
(RETRIAL_...). Flags override the environment, which overrides the file. `retrial config check` \
shows all settings.\n\nExit codes: 0 stopped, 2 bad input, 3 store unavailable.";

/// How long sending the last spans may take at shutdown.
const LAST_SPANS: Nanos = Nanos::from_secs(3);

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let configuration = config::resolve(&arguments.flags, lookup)?;
    log::start(Some(configuration.log.clone()))?;
    target::block_on(open_and_serve(configuration, lookup))
}

/// Opens the store and serves it.
async fn open_and_serve(
    configuration: Configuration,
    lookup: Lookup,
) -> Result<ExitCode, CliError> {
    let place = configuration.store.clone();
    if stores::is_database(&place) {
        let store = DynStore::new(stores::database(&place).await?);
        return serve(store, false, configuration, lookup).await;
    }
    create_default_folder(Path::new(&place))?;
    let store = DynStore::new(stores::in_file(Path::new(&place)).await?);
    // No other process can open the file meanwhile.
    serve(store, true, configuration, lookup).await
}

/// Creates the default folder and no other: a mistyped path is an error.
fn create_default_folder(path: &Path) -> Result<(), CliError> {
    let folder = Path::new(".retrial");
    if path.parent() != Some(folder) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|e| {
        CliError::store(format!("the folder `{}` can't be created: {e}", folder.display()))
            .help("choose another place with --store PATH")
    })
}

async fn serve(
    store: DynStore,
    sole_owner: bool,
    configuration: Configuration,
    lookup: Lookup,
) -> Result<ExitCode, CliError> {
    let runtime = TokioRuntime::current();
    let Configuration { listen, node, traces, tokens_file, audit, network, .. } = configuration;
    let (mut settings, kept) = (configuration.service, configuration.kept);
    if let Some(place) = &audit {
        settings.audit = Some(Audit::new(open_audit(place)?));
    }
    let _renewal = renewed(&runtime, &settings, tokens_file, audit)?;
    let signals = Signals::listen()
        .map_err(|e| CliError::store(format!("signal handlers can't be installed: {e}")))?;
    let listener = TcpListener::bind(listen).await.map_err(|e| {
        CliError::input(format!("can't listen on {listen}: {e}"))
            .help("choose another address or port: --listen")
    })?;
    let monitor = Monitor::new().map_err(|e| CliError::store(format!("no metrics: {e}")))?;
    // Nothing else in this process has a recorder.
    let _ = monitor.install();
    let allowed = settings.allow_env.clone();
    let variables = move |name: &str, to: &Authority| {
        allowed.get(name).filter(|hosts| hosts.name(to)).and_then(|_| lookup(name))
    };
    let http = HttpActions::by_host(network, variables).keeping(kept.0, kept.1);
    let actions = ActionSet::new(Registry::new(), http);
    let mut observers = vec![Arc::clone(&monitor) as Arc<dyn Observer>];
    let export = traces.map(|collector| traced(&collector, &runtime)).transpose()?;
    let exported = export.map(|(traces, exported)| {
        observers.push(traces);
        exported
    });
    let node = Config { sole_owner, ..node };
    let store = WatchedStore::new(store);
    settings.writes = Some(store.writes());
    let store = DynStore::new(store);
    let engine = Engine::<CliWorld>::start(runtime.clone(), store, actions, node, observers).await;
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

/// Where the audit trail goes: `stdout`, or the end of a file.
fn open_audit(place: &str) -> Result<Box<dyn Write + Send>, CliError> {
    if place == "stdout" {
        return Ok(Box::new(std::io::stdout()));
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(place);
    Ok(Box::new(
        file.map_err(|e| {
            CliError::input(format!("the audit trail `{place}` can't be opened: {e}"))
        })?,
    ))
}

/// Reads the tokens again and opens the audit trail again on each SIGHUP.
#[cfg(unix)]
fn renewed(
    runtime: &TokioRuntime,
    settings: &Settings,
    tokens_file: Option<String>,
    audit: Option<String>,
) -> Result<Task, CliError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangups = signal(SignalKind::hangup())
        .map_err(|e| CliError::store(format!("signal handlers can't be installed: {e}")))?;
    let (tokens, trail) = (settings.tokens.clone(), settings.audit.clone());
    Ok(runtime.spawn(async move {
        while hangups.recv().await.is_some() {
            if let (Some(tokens), Some(path)) = (&tokens, &tokens_file) {
                match config::tokens_in(path) {
                    Ok(read) => tokens.replace(&read),
                    Err(wrong) => {
                        tracing::error!(wrong, "the tokens can't be read; the old ones stay");
                    }
                }
            }
            if let (Some(trail), Some(place)) = (&trail, &audit) {
                match open_audit(place) {
                    Ok(out) => trail.go_on_in(out),
                    Err(_) => tracing::error!(place, "the audit trail can't be opened again"),
                }
            }
        }
    }))
}

/// This system has no SIGHUP.
#[cfg(not(unix))]
fn renewed(
    runtime: &TokioRuntime,
    _: &Settings,
    _: Option<String>,
    _: Option<String>,
) -> Result<Task, CliError> {
    Ok(runtime.spawn(async {}))
}

/// An observer that exports spans to `collector`, and the task that sends them.
fn traced(
    collector: &str,
    runtime: &TokioRuntime,
) -> Result<(Arc<dyn Observer>, Exported), CliError> {
    let node = RunId::from_random(runtime.random(), runtime.random()).to_string();
    let (traces, export) = otlp::traces(collector, &node, TcpConnect::new()).map_err(|e| {
        CliError::input(e.to_string()).help("set `traces` or OTEL_EXPORTER_OTLP_...")
    })?;
    let (done, ended) = oneshot::channel();
    let sending = runtime.clone();
    let task = runtime.spawn(async move {
        export.run(sending).await;
        // The service does not wait for it.
        let _ = done.send(());
    });
    Ok((Arc::new(traces), Exported { ended, _task: task }))
}

/// The task that sends spans.
struct Exported {
    ended: oneshot::Receiver<()>,
    _task: Task,
}

impl Exported {
    /// Waits a short time for the last spans to be sent.
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
    say(
        "Stopping when requests and attempts in progress have ended. A second signal stops at once.",
    );
    let again = runtime.spawn(async move {
        let again = signals.next().await;
        std::process::exit(again.number().into())
    });
    again.detach();
}

/// Prints a line. Ignores errors: stdout may be closed.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
