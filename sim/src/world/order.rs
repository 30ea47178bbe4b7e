//! What users ask of a node, and the queue from which it takes that.

use std::sync::{Arc, Mutex};

use retrial::engine::{CommandError, DeadLetter, Retention, Submission, SubmitError};
use retrial::run::{LetterId, RunId, Version};
use retrial::store::{Answer, Letters, Request, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::evidence::Told;
use crate::sync::lock;

/// An order to a node's engine, with where its answer goes. The answer is lost when the node dies.
pub enum Order {
    /// Submits a run.
    Submit(Submission, oneshot::Sender<Result<RunId, SubmitError>>),
    /// Cancels a run.
    Cancel(RunId, oneshot::Sender<Result<(), CommandError>>),
    /// Rolls a run back.
    Rollback(RunId, oneshot::Sender<Result<(), CommandError>>),
    /// Deactivates a run.
    Deactivate(RunId, oneshot::Sender<()>),
    /// Activates a run.
    Activate(RunId, oneshot::Sender<()>),
    /// Pauses the retries of a run.
    Pause(RunId, oneshot::Sender<()>),
    /// Resumes the retries of a run.
    Resume(RunId, oneshot::Sender<()>),
    /// Fails what waits of the step of that name, or of one item of it.
    Fail(RunId, String, Option<u32>, oneshot::Sender<Result<(), CommandError>>),
    /// Releases what is held in quarantine of a run.
    Release(RunId, oneshot::Sender<Result<(), CommandError>>),
    /// Archives a run.
    Archive(RunId, oneshot::Sender<Result<(), CommandError>>),
    /// Lists dead letters.
    Letters(oneshot::Sender<Result<Letters, CommandError>>),
    /// Reads a dead letter.
    Letter(LetterId, oneshot::Sender<Result<DeadLetter, CommandError>>),
    /// Redrives a dead letter.
    Redrive(LetterId, oneshot::Sender<Result<RunId, SubmitError>>),
    /// Discards a dead letter.
    Discard(LetterId, oneshot::Sender<Result<(), CommandError>>),
    /// Removes old runs.
    Prune(Retention, oneshot::Sender<Result<Vec<RunId>, CommandError>>),
    /// Tells a run's outcome, or its events from one on.
    Follow(RunId, Option<Version>, Listener),
    /// Ends the engine in good order.
    Shutdown(oneshot::Sender<()>),
}

/// Where what is told of a run goes.
#[derive(Clone, Debug)]
pub struct Listener(pub(super) mpsc::Sender<Told>);

impl Listener {
    /// Tells it; `None` if nobody listens any more.
    pub async fn tell(&self, told: Told) -> Option<()> {
        self.0.send(told).await.ok()
    }
}

/// What is asked of a node: its engine, or its store past the engine.
pub(super) enum Asked {
    Order(Order),
    Store(Request, oneshot::Sender<Result<Answer, StoreError>>),
}

impl From<Order> for Asked {
    fn from(order: Order) -> Self {
        Self::Order(order)
    }
}

/// The queue of what is asked of a node's current incarnation.
#[derive(Clone, Default)]
pub(super) struct OrderQueue(Arc<Mutex<Option<mpsc::Sender<Asked>>>>);

impl OrderQueue {
    /// The sender to the current incarnation, if it takes any yet.
    pub(super) fn open(&self) -> Option<mpsc::Sender<Asked>> {
        lock(&self.0).clone()
    }

    /// From now on a new incarnation takes what is asked.
    pub(super) fn lead_to(&self, incarnation: mpsc::Sender<Asked>) {
        *lock(&self.0) = Some(incarnation);
    }
}
