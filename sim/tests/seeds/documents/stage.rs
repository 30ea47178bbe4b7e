//! Plays one workflow against scripted endpoints and retells what happened.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use retrial::failure::ErrorContext;
use retrial::observe::{Notice, Observer};
use retrial::run::{Event, Outcome, Recorded, RunState, TaskId, Version};
use retrial::time::{Mono, Nanos};
use retrial::workflow::Workflow;
use retrial_sim::unstable::evidence::{Arrival, Evidence, RunEvidence};
use retrial_sim::unstable::report::Verdict;
use retrial_sim::unstable::scenario::{
    EndpointPlan, Format, NodeClock, Reply, Scenario, Submission, Topology, WorkflowText,
};
use retrial_sim::unstable::world::run_with_evidence;
use serde_json::Value;

/// What one play left behind.
pub(crate) struct Played {
    pub(crate) evidence: Evidence,
}

/// A status with this body.
pub(crate) fn status(code: u16, body: &str) -> Reply {
    Reply::Status { code, retry_after: None, body: body.to_owned() }
}

/// The same reply, this much later.
pub(crate) fn after(ms: u64, then: Reply) -> Reply {
    Reply::Delay { ms, then: Box::new(then) }
}

/// Plays the workflow in `text` (TOML), whose actions `NAME` call `http://api.test/NAME`. Each
/// endpoint gives its replies in turn and then succeeds. Every oracle holds over it.
#[track_caller]
pub(crate) fn play(text: &str, endpoints: &[(&str, &[Reply])]) -> Played {
    let endpoint = |(name, replies): &(&str, &[Reply])| EndpointPlan {
        path: format!("/{name}"),
        scripts: vec![replies.to_vec()],
        then: Reply::SuccessTrue,
        cost: None,
    };
    let at = |secs| Mono::from_nanos(Nanos::from_secs(secs).get());
    let submission =
        Submission { at: at(1), node: 0, workflow: 0, input: Default::default(), key: None };
    let scenario = Scenario {
        seed: 5,
        topology: Topology::Embedded,
        lease: Nanos::from_secs(30),
        clocks: vec![NodeClock::default()],
        workflows: vec![WorkflowText {
            format: Format::Toml,
            text: text.to_owned(),
            actions: None,
            builder: BTreeMap::new(),
        }],
        endpoints: endpoints.iter().map(endpoint).collect(),
        submissions: vec![submission],
        cancels: vec![],
        deactivations: vec![],
        interventions: retrial_sim::unstable::scenario::Interventions::default(),
        faults: vec![],
        // Long after the play is over: until then endpoints answer by their script.
        heal_at: at(600),
        endpoints_heal: true,
        places: None,
        attempt_timeout: None,
        quarantine_after: None,
        lane_idle: None,
        sync_takes: None,
        missing_functions: vec![],
        secrets: vec![],
        priorities: None,
        own: None,
        fork: None,
    };
    let lived = run_with_evidence(scenario, false);
    assert_eq!(lived.report.verdict, Verdict::Held, "{:#?}", lived.report.breaches);
    Played { evidence: lived.evidence.unwrap() }
}

impl Played {
    pub(crate) fn run(&self) -> &RunEvidence {
        let [run] = &self.evidence.runs[..] else { panic!("one run") };
        run
    }

    /// The state that the run's events fold to.
    pub(crate) fn state(&self) -> RunState {
        RunState::replay(self.run().id, &self.run().events).unwrap()
    }

    /// The events in words, a line each, without what the policy does not decide.
    pub(crate) fn events(&self) -> String {
        let mut text = String::new();
        for recorded in &self.run().events {
            let _ = writeln!(text, "{}", told(&self.run().workflow, &recorded.event));
        }
        text
    }

    /// How the run ended.
    pub(crate) fn outcome(&self) -> Outcome {
        self.state().outcome().unwrap().clone()
    }

    /// The record of the failure that ended the run.
    pub(crate) fn error(&self) -> ErrorContext {
        match self.outcome() {
            Outcome::Failed { error } => error,
            other => panic!("{other:?}"),
        }
    }

    /// What arrived at the endpoint of this name, in order.
    pub(crate) fn arrivals(&self, name: &str) -> Vec<&Arrival> {
        let path = format!("/{name}");
        self.evidence.ledger.iter().filter(|arrival| arrival.path == path).collect()
    }

    /// The arguments of the first call of this endpoint.
    pub(crate) fn arguments(&self, name: &str) -> Value {
        serde_json::from_slice(&self.arrivals(name)[0].body).unwrap()
    }

    /// How long `step`'s attempts truly waited for one another: from each failure to the next
    /// start.
    pub(crate) fn waits(&self, step: &str) -> Vec<Nanos> {
        let mut failed = None;
        let mut waits = Vec::new();
        for Recorded { at, event } in &self.run().events {
            let is_step = |task: &TaskId| name(&self.run().workflow, *task) == step;
            match event {
                Event::AttemptFailed { task, .. } if is_step(task) => failed = Some(*at),
                Event::AttemptStarted { task, .. } if is_step(task) => {
                    waits.extend(failed.take().map(|failed| at.since(failed)));
                }
                _ => {}
            }
        }
        waits
    }

    /// Tells an observer everything, as the engine did.
    pub(crate) fn tell(&self, observer: &impl Observer) {
        let run = self.run();
        for (number, recorded) in run.events.iter().enumerate() {
            let (at, event) = (recorded.at, &recorded.event);
            let number = Version::START.after(number);
            observer.tell(&Notice { run: run.id, workflow: &run.workflow, number, at, event });
        }
    }
}

/// Each wait is the delay, and no more than the engine needs on top of it.
#[track_caller]
pub(crate) fn check_waits(waits: &[Nanos], delays_ms: &[u64]) {
    assert_eq!(waits.len(), delays_ms.len(), "{waits:?}");
    for (wait, delay) in waits.iter().zip(delays_ms) {
        let delay = Nanos::from_millis(*delay);
        let late = delay.saturating_add(Nanos::from_millis(100));
        assert!((delay..=late).contains(wait), "{wait} for {delay}");
    }
}

fn name(workflow: &Workflow, task: TaskId) -> &str {
    &workflow.step(task.step).unwrap().id
}

fn told(workflow: &Workflow, event: &Event) -> String {
    let step = |at| workflow.step(at).map_or("?", |step| step.id.as_str());
    let what = event.name();
    let about = match event {
        Event::AttemptStarted { task, attempt, retry, .. } => {
            let retry =
                retry.as_ref().map_or(String::new(), |r| format!(", a retry after {}", r.delay));
            format!("{} attempt {attempt}{retry}", name(workflow, *task))
        }
        Event::AttemptFailed { task, attempt, failure, will_retry, .. } => {
            let code = failure.code();
            let next = if *will_retry { "will retry" } else { "will not retry" };
            format!("{} attempt {attempt}: {code}, {next}", name(workflow, *task))
        }
        Event::RetryScheduled { task, attempt, delay, kind, code, .. } => {
            format!("{} attempt {attempt} in {delay}: {kind} {code}", name(workflow, *task))
        }
        Event::TaskSucceeded { task, attempt, .. } => {
            format!("{} after {attempt}", name(workflow, *task))
        }
        Event::TaskFailed { task, attempts, reason, error, .. } => {
            format!("{} after {attempts}: {}, {reason}", name(workflow, *task), error.code)
        }
        Event::StepFailed { step: at, error } => format!("{}: {}", step(*at), error.code),
        Event::StepEntered { step: at, .. }
        | Event::StepSucceeded { step: at }
        | Event::StepUnreachable { step: at }
        | Event::StepSkipped { step: at } => step(*at).to_owned(),
        Event::Routed { from, to, cause } => format!("{} to {}: {cause:?}", step(*from), step(*to)),
        Event::RunEnded { outcome: Outcome::Completed, .. } => "completed".to_owned(),
        Event::RunEnded { outcome: Outcome::Failed { error }, .. } => {
            format!("failed: {} {}", error.node_id, error.code)
        }
        _ => String::new(),
    };
    format!("{what} {about}").trim_end().to_owned()
}
