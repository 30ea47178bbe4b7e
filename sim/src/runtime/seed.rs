//! Runs one seed on its own thread, and records panics there.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::time::Duration;

use madsim::runtime::Runtime;
use retrial::time::Nanos;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::incarnation::Incarnation;

/// A panic in a simulated world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct PanicReport {
    /// The seed.
    pub seed: u64,
    /// Its message.
    pub message: String,
    /// Source file and line.
    pub place: String,
    /// The node it happened in; none when it happened outside every node.
    pub node: Option<String>,
}

/// One line for the reader.
impl fmt::Display for PanicReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} panicked", self.seed)?;
        if let Some(node) = &self.node {
            write!(f, " in {node}")?;
        }
        write!(f, " at {}: {}", self.place, self.message)
    }
}

impl PanicReport {
    /// Whether madsim gave up: the world ran past its time limit, or nothing could ever happen in
    /// it again. That is being stuck rather than a panic of the program.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.node.is_none()
            && (self.message.starts_with("time limit exceeded")
                || self.message.starts_with("no events, all tasks will block forever"))
    }
}

/// A panic in a registered function, which its attempt outlived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPanic {
    /// The function's name.
    pub function: String,
    /// Its message.
    pub message: String,
    /// Source file and line.
    pub place: String,
}

/// Runs the future that `world` makes on a fresh thread, in a madsim runtime of its own seeded with
/// `seed`. `time_limit` bounds the simulated time.
///
/// # Errors
/// When the world panics, whether in a node, in a drop at its end, or because of the time limit.
pub fn run_seed<T, F, W>(seed: u64, time_limit: Nanos, world: W) -> Result<T, PanicReport>
where
    T: Send + 'static,
    F: Future<Output = T>,
    W: FnOnce() -> F + Send + 'static,
{
    let (tell, mut told) = oneshot::channel();
    run_world(
        seed,
        time_limit,
        Box::new(|| {
            Box::pin(async {
                // It is waited for.
                let _ = tell.send(world().await);
            })
        }),
    )?;
    told.try_recv().map_err(|_| unseen(seed, "the world ended without a result"))
}

/// A world that tells its result by itself, so that what runs it is compiled once for all worlds.
type World = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

fn run_world(seed: u64, time_limit: Nanos, world: World) -> Result<(), PanicReport> {
    install_hook();
    let thread = std::thread::Builder::new().name(format!("seed {seed}"));
    let ran = thread.spawn(move || {
        CAPTURING.set(true);
        run_here(seed, time_limit, world).ok_or_else(|| report(seed))
    });
    match ran.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(unseen(seed, "the seed's thread ended in a panic")),
        Err(e) => Err(unseen(seed, &format!("no thread could be started: {e}"))),
    }
}

fn run_here(seed: u64, time_limit: Nanos, world: World) -> Option<()> {
    let mut runtime = Runtime::with_seed_and_config(seed, madsim::Config::default());
    runtime.set_time_limit(Duration::from(time_limit));
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(async { world().await })));
    match ran {
        Ok(()) => catch_unwind(AssertUnwindSafe(|| drop(runtime))).ok(),
        Err(_) => {
            // Values that a panic left may panic again when dropped, and end the process.
            std::mem::forget(runtime);
            None
        }
    }
}

/// Runs `poll` as part of the registered function of this name, so that a panic in it is kept.
pub(crate) fn inside_function<T>(name: &str, poll: impl FnOnce() -> T) -> T {
    let outer = FUNCTION.replace(Some(name.to_owned()));
    let polled = poll();
    FUNCTION.set(outer);
    polled
}

/// The panics in registered functions of this thread's world, in order.
pub(crate) fn function_panics() -> Vec<FunctionPanic> {
    FUNCTION_PANICS.take()
}

/// Runs `judge`, and returns the panic if it panics. The panic is not printed.
pub(crate) fn quietly<T>(judge: impl FnOnce() -> T) -> Result<T, PanicReport> {
    install_hook();
    let outer = CAPTURING.replace(true);
    let judged = catch_unwind(AssertUnwindSafe(judge));
    CAPTURING.set(outer);
    judged.map_err(|_| report(0))
}

thread_local! {
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
    static FUNCTION: RefCell<Option<String>> = const { RefCell::new(None) };
    static FUNCTION_PANICS: RefCell<Vec<FunctionPanic>> = const { RefCell::new(Vec::new()) };
    static INSIDE: RefCell<Option<Incarnation>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<PanicReport>> = const { RefCell::new(None) };
}

/// Runs `poll` as part of `incarnation`, so that a panic in it is reported with that node.
pub(super) fn inside<T>(incarnation: &Incarnation, poll: impl FnOnce() -> T) -> T {
    let outer = INSIDE.replace(Some(incarnation.clone()));
    let polled = poll();
    INSIDE.set(outer);
    polled
}

/// The process's panic hook, put in once. It keeps panics of seeds' threads to itself and passes
/// all others on.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CAPTURING.try_with(Cell::get).unwrap_or(false) {
                keep(info);
            } else {
                others(info);
            }
        }));
    });
}

fn keep(info: &PanicHookInfo<'_>) {
    let node =
        INSIDE.try_with(|i| i.borrow().as_ref().map(|incarnation| incarnation.node().to_owned()));
    let message = info.payload_as_str().unwrap_or("a panic without a message").to_owned();
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), place);
    let function = FUNCTION.try_with(|f| f.borrow().clone()).ok().flatten();
    if let Some(function) = function {
        let panic = FunctionPanic { function, message: message.clone(), place: place.clone() };
        let _ = FUNCTION_PANICS.try_with(|panics| panics.borrow_mut().push(panic));
    }
    let report = PanicReport { seed: 0, message, place, node: node.ok().flatten() };
    // The thread may have ended and freed its memory; then there is no report to make.
    let _ = LAST.try_with(|last| last.replace(Some(report)));
}

/// File and line; of a file of another crate, from the crate's folder on.
fn place(at: &std::panic::Location<'_>) -> String {
    let file = at.file().replace('\\', "/");
    let file = file.split_once("/registry/src/").map_or(file.as_str(), |(_, rest)| {
        rest.split_once('/').map_or(rest, |(_, in_crate)| in_crate)
    });
    format!("{file}:{}", at.line())
}

fn report(seed: u64) -> PanicReport {
    match LAST.take() {
        Some(report) => PanicReport { seed, ..report },
        None => unseen(seed, "a panic that the hook did not see"),
    }
}

fn unseen(seed: u64, message: &str) -> PanicReport {
    PanicReport {
        seed,
        message: message.to_owned(),
        place: "an unknown place".to_owned(),
        node: None,
    }
}
