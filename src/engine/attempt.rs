use std::future::Future;
use std::sync::Arc;

use tracing::{Instrument, Span};

use super::held::{Beating, Held};
use super::lanes::Message;
use super::node::Node;
use super::places::TakenPlace;
use super::{World, span};
use crate::action::{Actions, Call, Cancelled, Canceller, Outcome, Reports};
use crate::failure::Failure;
use crate::run::{RunId, RunState, TaskId, Token};
use crate::runtime::Runtime;
use crate::store::ClaimedTask;
use crate::time::Nanos;

/// How one attempt on this node ended.
enum End {
    Outcome(Outcome),
    /// Cancelled by the engine: the outcome would be dropped.
    CalledOff,
}

impl<W: World> Node<W> {
    /// Starts the attempt that `state` says is in progress under the token of `claimed`.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        state: &RunState,
        claimed: &ClaimedTask,
        slot: TakenPlace,
    ) {
        let (canceller, cancelled) = Canceller::pair();
        let Some(call) = self.call(state, claimed, cancelled) else { return };
        let (run, task, token) = (state.id(), claimed.task, claimed.token);
        let last = self.runtime.now();
        let holding = Held {
            token,
            canceller: canceller.clone(),
            reports: call.reports.clone(),
            kept: 0,
            beating: call.heartbeat_timeout.map(|limit| Beating { limit, last }),
            ended: false,
            task: None,
        };
        let mut held = self.held();
        held.insert((run, task), holding);
        let span = span::of_attempt(&call);
        let attempt = attempt(Arc::clone(self), call, token, canceller, slot);
        let spawned = self.runtime.spawn(attempt.instrument(span));
        if let Some(found) = held.get_mut(&(run, task)) {
            found.task = Some(spawned);
        }
        drop(held);
        // Its heartbeats may have to be brought sooner than any lease is renewed.
        self.renewals.notify_one();
    }

    fn call(&self, state: &RunState, claimed: &ClaimedTask, cancelled: Cancelled) -> Option<Call> {
        let task = claimed.task;
        let before = claimed.progress.clone();
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
            heartbeat_timeout: state.workflow().heartbeat_timeout(task.step),
            progress: before.as_ref().and_then(|p| serde_json::from_str(p.json.as_ref()?).ok()),
            reports: Reports::after(before),
            at: self.clock.now(&self.runtime),
            cancelled,
            context_runtime: self.context_runtime.clone(),
        })
    }

    /// Records that the attempt sent a heartbeat.
    fn note_heartbeat(&self, run: RunId, task: TaskId, token: Token) {
        self.with_held(run, task, token, |held| {
            if let Some(beating) = &mut held.beating {
                beating.last = self.runtime.now();
            }
        });
    }
}

async fn attempt<W: World>(
    node: Arc<Node<W>>,
    call: Call,
    token: Token,
    canceller: Canceller,
    slot: TakenPlace,
) {
    let (run, task, reports) = (call.run, call.task, call.reports.clone());
    let lease = node.attempts.keep(run, task, token);
    let end = {
        #[cfg(feature = "metrics")]
        let _in_progress = crate::observe::metrics::InProgress::of(node.labels.of(&call.name));
        invoke(&node, call, token, &canceller).await
    };
    match &end {
        End::Outcome(outcome) => span::attempted(&Span::current(), Some(outcome)),
        End::CalledOff => span::attempted(&Span::current(), None),
    }
    if let End::Outcome(outcome) = end {
        let outcome = outcome.map(Arc::new);
        let (progress, cost) = (reports.progress(), reports.cost());
        node.with_held(run, task, token, |held| held.ended = true);
        node.send(run, Message::Ended { task, token, outcome, progress, cost, lease, slot }).await;
    }
}

/// Runs the action until it returns, times out, misses a heartbeat or is cancelled. An outcome that is
/// ready when the time is up counts.
async fn invoke<W: World>(node: &Node<W>, call: Call, token: Token, canceller: &Canceller) -> End {
    let cancelled = call.cancelled.clone();
    let timeout = call.timeout;
    let deadline = timeout.map(|limit| node.runtime.now().after(limit));
    let time_up = async {
        match deadline {
            Some(at) => node.runtime.sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    let missed = missed_heartbeat(node, &call, token);
    tokio::select! {
        biased;
        outcome = node.actions.invoke(call) => End::Outcome(outcome),
        () = time_up => {
            canceller.cancel();
            End::Outcome(Err(Failure::timeout(timeout.unwrap_or_default())))
        }
        limit = missed => {
            canceller.cancel();
            End::Outcome(Err(Failure::heartbeat_missed(limit)))
        }
        // Last: a renewal refused because the time is up must not hide that it is.
        () = cancelled.cancelled() => End::CalledOff,
    }
}

/// Returns the limit when no heartbeat arrives for that long. Never returns when the step asks for none.
fn missed_heartbeat<'n, W: World>(
    node: &'n Node<W>,
    call: &Call,
    token: Token,
) -> impl Future<Output = Nanos> + use<'n, W> {
    let (run, task, limit, reports) =
        (call.run, call.task, call.heartbeat_timeout, call.reports.clone());
    async move {
        let Some(limit) = limit else { return std::future::pending().await };
        let mut seen = 0;
        let mut by = node.runtime.now().after(limit);
        loop {
            tokio::select! {
                biased;
                beats = reports.beaten(seen) => {
                    seen = beats;
                    by = node.runtime.now().after(limit);
                    node.note_heartbeat(run, task, token);
                }
                () = node.runtime.sleep_until(by) => return limit,
            }
        }
    }
}
