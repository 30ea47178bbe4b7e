use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tracing::{Instrument, Span};

use super::{World, span};
use super::lanes::Message;
use super::node::{Held, Node};
use crate::action::{Actions, Call, Cancelled, Canceller, Outcome};
use crate::failure::Failure;
use crate::run::{RunId, RunState, TaskId, Token};
use crate::runtime::Runtime;

/// How one attempt on this node ended.
enum End {
    Outcome(Outcome),
    /// Called off: nobody wants the outcome.
    CalledOff,
}

impl<W: World> Node<W> {
    /// Starts the attempt that `state` says is in progress under `token`.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        state: &RunState,
        task: TaskId,
        token: Token,
        slot: OwnedSemaphorePermit,
    ) {
        let (canceller, cancelled) = Canceller::pair();
        let Some(call) = self.call(state, task, cancelled) else { return };
        let run = state.id();
        let mut held = self.held();
        held.insert((run, task), Held { token, canceller: canceller.clone(), task: None });
        let span = span::of_attempt(&call);
        let attempt = attempt(Arc::clone(self), call, token, canceller, slot);
        let spawned = self.runtime.spawn(attempt.instrument(span));
        if let Some(found) = held.get_mut(&(run, task)) {
            found.task = Some(spawned);
        }
    }

    fn call(&self, state: &RunState, task: TaskId, cancelled: Cancelled) -> Option<Call> {
        let prepared = state.prepare(task)?;
        let step = state.workflow().step(task.step)?;
        Some(Call {
            run: state.id(),
            task,
            step: step.id.clone(),
            name: step.action.clone(),
            action: state.workflow().actions().get(&step.action).cloned().map(Arc::new),
            args: prepared.args,
            attempt: prepared.attempt,
            retries_left: prepared.retries_left,
            timeout: prepared.timeout,
            receipt: task.receipt(state.id()),
            at: self.clock.now(&self.runtime),
            cancelled,
        })
    }

    /// The attempt is over on this node, unless another has taken its place.
    fn let_go(&self, run: RunId, task: TaskId, token: Token) {
        let mut held = self.held();
        if held.get(&(run, task)).is_some_and(|h| h.token == token)
            && let Some(Held { task: Some(spawned), .. }) = held.remove(&(run, task))
        {
            spawned.detach();
        }
        drop(held);
        self.changed.notify_waiters();
    }
}

async fn attempt<W: World>(
    node: Arc<Node<W>>,
    call: Call,
    token: Token,
    canceller: Canceller,
    slot: OwnedSemaphorePermit,
) {
    let (run, task) = (call.run, call.task);
    let end = {
        #[cfg(feature = "metrics")]
        let _in_progress = crate::observe::metrics::InProgress::of(&call.name);
        invoke(&node, call, &canceller).await
    };
    match &end {
        End::Outcome(outcome) => span::attempted(&Span::current(), Some(outcome)),
        End::CalledOff => span::attempted(&Span::current(), None),
    }
    if let End::Outcome(outcome) = end {
        let outcome = outcome.map(Arc::new);
        node.send(run, Message::Ended { task, token, outcome, slot }).await;
    }
    node.let_go(run, task, token);
}

/// Runs the action until it ends, its time is up (C4) or it is called off. An outcome that is there
/// when the time is up counts.
async fn invoke<W: World>(node: &Node<W>, call: Call, canceller: &Canceller) -> End {
    let cancelled = call.cancelled.clone();
    let timeout = call.timeout;
    let deadline = timeout.map(|limit| node.runtime.now().after(limit));
    let time_up = async {
        match deadline {
            Some(at) => node.runtime.sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        outcome = node.actions.invoke(call) => End::Outcome(outcome),
        () = time_up => {
            canceller.cancel();
            End::Outcome(Err(Failure::timeout(timeout.unwrap_or_default())))
        }
        // Last: a renewal refused because the time is up must not hide that it is.
        () = cancelled.cancelled() => End::CalledOff,
    }
}
