//! The simulated actions for an engine of the older release: its own HTTP client, and the functions of
//! this release's simulation.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use older::action::{Actions, Call, HttpActions, Outcome, Reports};
use older::run::Cost;
use older::workflow::{Able, Target};
use retrial_sim::unstable::retrial::action as newer;
use retrial_sim::unstable::retrial::run::Progress;
use retrial_sim::unstable::retrial::time::{Nanos, Timestamp};
use retrial_sim::unstable::runtime::SimRuntime;
use retrial_sim::unstable::world::{ActionNetwork, SimActions};

use crate::{across, network};

pub(crate) struct OfOlder {
    runtime: SimRuntime,
    actions: SimActions,
    http: HttpActions<network::OfOlder>,
}

impl OfOlder {
    pub(crate) fn new(
        runtime: SimRuntime,
        actions: SimActions,
        network: ActionNetwork,
        environment: String,
    ) -> Self {
        let network = network::OfOlder(network);
        let http = HttpActions::new(network, move |_| Some(environment.clone()));
        Self { runtime, actions, http }
    }

    /// A function, as this release's simulation has it.
    async fn call(&self, call: Call) -> Outcome {
        let (canceller, cancelled) = newer::Canceller::pair();
        let mut told = Told::new(&call);
        let asked = newer::Call {
            run: across(&call.run),
            task: across(&call.task),
            step: call.step,
            name: call.name,
            action: call.action.map(|action| Arc::new(across(&*action))),
            args: call.args,
            attempt: call.attempt,
            retries_left: call.retries_left,
            timeout: call.timeout.map(|length| Nanos::new(length.get())),
            heartbeat_timeout: call.heartbeat_timeout.map(|length| Nanos::new(length.get())),
            progress: call.progress,
            reports: told.heard.clone(),
            at: Timestamp::from_nanos(call.at.as_nanos()),
            cancelled,
            context_runtime: newer::ContextRuntime::by(self.runtime.clone()),
        };
        let mut invoked = pin!(newer::Actions::invoke(&self.actions, asked));
        let mut called_off = pin!(call.cancelled.cancelled());
        let mut is_called_off = false;
        let outcome = poll_fn(|cx| {
            if !is_called_off && called_off.as_mut().poll(cx).is_ready() {
                is_called_off = true;
                canceller.cancel();
            }
            let polled = invoked.as_mut().poll(cx);
            told.pass_on();
            polled
        });
        outcome.await.map_err(|failure| across(&failure))
    }
}

impl Actions for OfOlder {
    async fn invoke(&self, call: Call) -> Outcome {
        if !call.action.as_ref().is_some_and(|action| matches!(action.target, Target::Http(_))) {
            return self.call(call).await;
        }
        let (run, task, attempt) = (across(&call.run), across(&call.task), call.attempt);
        let outcome = self.http.invoke(call).await;
        self.actions.note_return(run, task, attempt);
        outcome
    }

    fn able(&self) -> Able {
        across(&newer::Actions::able(&self.actions))
    }
}

/// What an attempt reports, on its way to the older engine.
struct Told {
    heard: newer::Reports,
    passed: Reports,
    beats: u64,
    number: u64,
    cost: Option<u64>,
}

impl Told {
    fn new(call: &Call) -> Self {
        let checked = call.reports.is_checked();
        let json = call.progress.as_ref().map(|progress| progress.to_string().into());
        let heard = newer::Reports::after(Some(Progress { number: 0, json, checked }));
        Self { heard, passed: call.reports.clone(), beats: 0, number: 0, cost: None }
    }

    /// Passes on what is new. Called after each poll, in which the attempt reports it.
    fn pass_on(&mut self) {
        let newest = self.heard.progress().unwrap_or_default();
        let mut json = newest.json.filter(|_| newest.number > self.number);
        self.number = newest.number;
        if newest.checked && !self.passed.is_checked() {
            self.passed.check();
        }
        let mut beaten = pin!(self.heard.beaten(self.beats));
        if let Poll::Ready(beats) =
            beaten.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()))
        {
            (self.beats..beats).for_each(|_| self.passed.beat(json.take()));
            self.beats = beats;
        }
        let cost = self.heard.cost().map(|cost| cost.millionths());
        if let Some(all) = cost.filter(|_| cost != self.cost) {
            self.passed.spend(Cost::from_millionths(all - self.cost.unwrap_or(0)));
            self.cost = cost;
        }
    }
}
