//! A handle to one run: its outcome, its results, its events.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::engine::Engine;
use super::node::Node;
use super::{CommandError, Ended, World};
use crate::failure::ErrorContext;
use crate::run::{self, Event, Outcome, Recorded, RunId, RunState, StepPhase, Version};
use crate::runtime::{Runtime, Task};
use crate::store::Store;

/// The most events, and the most bytes of stored events, read ahead of a slow reader. The rest stays
/// in the store until it reads on, so it delays nobody, misses nothing, and takes little memory.
const BUFFER: usize = 64;
const BUFFER_BYTES: usize = 16 * 1024;

/// A handle to one run. Clones are handles to the same run; each keeps the engine running.
pub struct Handle<W: World> {
    /// The run.
    pub run: RunId,
    /// Whether an earlier submission with the same key created the run.
    pub existing: bool,
    engine: Engine<W>,
}

impl<W: World> Clone for Handle<W> {
    fn clone(&self) -> Self {
        Self { run: self.run, existing: self.existing, engine: self.engine.clone() }
    }
}

/// Handles to the same run, submitted alike, are equal.
impl<W: World> PartialEq for Handle<W> {
    fn eq(&self, other: &Self) -> bool {
        (self.run, self.existing) == (other.run, other.existing)
    }
}

impl<W: World> fmt::Debug for Handle<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.run)
    }
}

/// Why a step has no result to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The run could not be read.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The workflow has no such step.
    #[error("the workflow has no step `{0}`")]
    UnknownStep(String),
    /// The run ended, and the step did not succeed.
    #[error("step `{step}` did not succeed: it is {phase}{}", because(cause.as_deref()))]
    NoResult {
        /// The step.
        step: String,
        /// The step's phase.
        phase: String,
        /// The failure of the step, else the one that ended the run.
        cause: Option<Box<ErrorContext>>,
    },
    /// The result has another type than the caller's.
    #[error("the result of step `{step}` can't be read as the type asked for")]
    Unlike {
        /// The step.
        step: String,
    },
}

fn because(cause: Option<&ErrorContext>) -> String {
    cause.map(|cause| format!("; {cause}")).unwrap_or_default()
}

impl<W: World> Handle<W> {
    pub(super) fn new(engine: Engine<W>, run: RunId, existing: bool) -> Self {
        Self { run, existing, engine }
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Where the run stands, as the store has it.
    ///
    /// # Errors
    /// When the run does not exist or its stored data is damaged.
    pub async fn state(&self) -> Result<RunState, CommandError> {
        self.engine.state(self.run).await
    }

    /// Waits until the run has ended, on whichever node.
    ///
    /// # Errors
    /// As [`Engine::outcome`].
    pub async fn outcome(&self) -> Result<Ended, CommandError> {
        self.engine.outcome(self.run).await
    }

    /// Cancels the run.
    ///
    /// # Errors
    /// As [`Engine::cancel`].
    pub async fn cancel(&self, reason: &str) -> Result<(), CommandError> {
        self.engine.cancel(self.run, reason).await
    }

    /// Waits until the run has ended and returns the result of `step`; a step that fans out has the
    /// list of its tasks' results.
    ///
    /// # Errors
    /// See [`ResultError`].
    pub async fn result<T: DeserializeOwned>(&self, step: &str) -> Result<T, ResultError> {
        let Ended { outcome, state } = self.outcome().await?;
        let unknown = || ResultError::UnknownStep(step.to_owned());
        let at = state.workflow().place_of(step).ok_or_else(unknown)?;
        let found = state.steps().get(at.index()).ok_or_else(unknown)?;
        if found.phase != StepPhase::Succeeded {
            let of_run = match outcome {
                Outcome::Failed { error } => Some(error),
                Outcome::Completed | Outcome::Cancelled { .. } => None,
            };
            let cause = found.error.clone().or(of_run).map(Box::new);
            let phase = format!("{:?}", found.phase).to_lowercase();
            return Err(ResultError::NoResult { step: step.to_owned(), phase, cause });
        }
        let mut left = state.left_by(at).unwrap_or_default();
        let result = left.get_mut("result").map(serde_json::Value::take).unwrap_or_default();
        // Serde's words may hold a part of the result.
        serde_json::from_value(result).map_err(|_| ResultError::Unlike { step: step.to_owned() })
    }

    /// The run's events from its first: see [`Handle::events_from`].
    #[must_use]
    pub fn events(&self) -> Events<W> {
        self.events_from(Version::START)
    }

    /// The run's durable events from the one numbered `first`, without gap or repeat, as they
    /// happen on whichever node. Ends after the run's last event, at once where `first` is later.
    #[must_use]
    pub fn events_from(&self, first: Version) -> Events<W> {
        let (feed, events) = mpsc::channel(BUFFER);
        let node = Arc::clone(self.engine.node());
        let run = self.run;
        let task = self.engine.node().runtime.spawn(async move {
            // Whoever reads may be gone.
            let _ = read_events(node, run, first, &feed).await;
        });
        Events { events, _task: task, _engine: self.engine.clone() }
    }
}

/// An event of a run, once it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Happened {
    /// Its number within the run, from 0.
    pub number: Version,
    /// When, and what.
    pub recorded: Recorded,
}

/// Why the next event can't be delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventsError {
    /// The run could not be read; nothing follows.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The events from `from` to before `to` were compacted away; the event numbered `to` follows.
    #[error("events {} to {} are compacted away", from.0, to.0.saturating_sub(1))]
    Compacted {
        /// The first that is missing.
        from: Version,
        /// The next there is.
        to: Version,
    },
}

/// A run's events: see [`Handle::events`]. Dropping it stops the reading.
pub struct Events<W: World> {
    events: mpsc::Receiver<Result<Happened, EventsError>>,
    _task: Task,
    _engine: Engine<W>,
}

impl<W: World> Events<W> {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Happened, EventsError>> {
        self.events.recv().await
    }
}

impl<W: World> Stream for Events<W> {
    type Item = Result<Happened, EventsError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(cx)
    }
}

/// The reader is gone.
struct ReaderGone;

type Feed = mpsc::Sender<Result<Happened, EventsError>>;

async fn deliver(feed: &Feed, item: Result<Happened, EventsError>) -> Result<(), ReaderGone> {
    feed.send(item).await.map_err(|_| ReaderGone)
}

/// Reads the run's events from the store and passes them on until the run's end.
async fn read_events<W: World>(
    node: Arc<Node<W>>,
    run: RunId,
    first: Version,
    feed: &Feed,
) -> Result<(), ReaderGone> {
    let mut next = first;
    let waiter = node.news.wait_for(run);
    loop {
        // What is read before there is room for it would only wait in memory.
        feed.reserve_many(BUFFER).await.map(drop).map_err(|_| ReaderGone)?;
        let news = waiter.signal.notified();
        let read = async {
            // Who reads on from the end has the last event already.
            let may_be_at_the_end = next == first && first > Version::START;
            let ended = may_be_at_the_end && has_ended(&node, run).await?;
            Ok::<_, CommandError>((ended, batch(&node, run, next).await?))
        };
        let (ended, batch) = match read.await {
            Ok(read) => read,
            Err(error) => return deliver(feed, Err(error.into())).await,
        };
        if batch.first > next {
            let (from, to) = (next, batch.first);
            deliver(feed, Err(EventsError::Compacted { from, to })).await?;
            next = batch.first;
        }
        let came = !batch.events.is_empty();
        for recorded in batch.events {
            let is_last = matches!(recorded.event, Event::RunEnded { .. });
            deliver(feed, Ok(Happened { number: next, recorded })).await?;
            next = next.after(1);
            if is_last {
                return Ok(());
            }
        }
        if came {
            continue;
        }
        if ended {
            return Ok(());
        }
        if let Err(error) = node.lanes.check_damage(run) {
            return deliver(feed, Err(error.into())).await;
        }
        if node.is_closing() {
            return deliver(feed, Err(CommandError::Closing.into())).await;
        }
        tokio::select! {
            biased;
            () = news => {}
            // What happens on another node rings nothing here.
            () = node.sleep(node.config.poll) => {}
        }
    }
}

async fn has_ended<W: World>(node: &Node<W>, run: RunId) -> Result<bool, CommandError> {
    Ok(node.head(run).await?.is_some_and(|head| head.phase.is_terminal()))
}

/// Some of a run's events, and the number of the first of them.
struct Batch {
    first: Version,
    events: Vec<Recorded>,
}

async fn batch<W: World>(node: &Node<W>, run: RunId, from: Version) -> Result<Batch, CommandError> {
    let loaded = node.until_answered(|| node.store.load(run, Some(from))).await;
    let loaded = loaded.map_err(|error| CommandError::Broken(error.to_string()))?;
    let loaded = loaded.ok_or(CommandError::UnknownRun(run))?;
    let first = loaded.snapshot.map_or(from, |snapshot| snapshot.version);
    let mut bytes = 0;
    let fits = |event: &&Bytes| {
        bytes += event.len();
        bytes <= BUFFER_BYTES
    };
    let all = &loaded.tail.events;
    // One that is larger than the buffer comes alone.
    let count = all.iter().take(BUFFER).take_while(fits).count().max(1);
    let events = all.iter().take(count).map(|bytes| run::decode(bytes));
    let events: Result<Vec<_>, _> = events.collect();
    let events = events.map_err(|error| CommandError::Broken(format!("run {run}: {error}")))?;
    Ok(Batch { first, events })
}
