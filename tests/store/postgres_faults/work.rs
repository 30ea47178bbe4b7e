//! The workflows that nodes work off.

use std::sync::Arc;

use retrial::engine::Submission;
use retrial::policy::{ActionKind, Backoff, Policy};
use retrial::time::Nanos;
use retrial::workflow::{
    Action, Endpoint, Step, StepIx, Target, Template, Workflow, WorkflowParts,
};
use serde_json::{Map, Value, json};

/// The runs to come, by number: one in ten has three steps, of which the middle one fans out over
/// three items, all others one.
pub(crate) struct Work {
    short: Arc<Workflow>,
    wide: Arc<Workflow>,
}

impl Work {
    /// Calls the endpoint at `url`.
    pub(crate) fn at(url: &str) -> Self {
        let number = json!({ "number": "${input.number}" });
        let one = |id: &str, after: &[u16]| step(id, after, number.clone());
        let each = Step {
            for_each: Some(Template::try_from(json!("${input.items}")).unwrap()),
            ..one("each", &[0])
        };
        let short = workflow("short", url, vec![one("only", &[])]);
        let wide = workflow("wide", url, vec![one("first", &[]), each, one("last", &[1])]);
        Self { short, wide }
    }

    pub(crate) fn submission(&self, number: u64) -> Submission {
        let workflow = if number.is_multiple_of(10) { &self.wide } else { &self.short };
        let input = Map::from_iter([
            ("number".to_owned(), Value::from(number)),
            ("items".to_owned(), json!([1, 2, 3])),
        ]);
        let submission = Submission::new(Arc::clone(workflow)).with_input(input);
        submission.with_key(format!("run {number}"))
    }
}

/// Never gives up: what a killed node held uses an attempt up each time.
fn policy() -> Policy {
    let backoff = Backoff::exponential(Nanos::from_millis(20)).with_cap(Nanos::from_millis(200));
    Policy::builder().attempts(1_000).backoff(backoff).retry_unknown_outcome().build().unwrap()
}

fn step(id: &str, after: &[u16], args: Value) -> Step {
    Step {
        args: Template::try_from(args).unwrap(),
        after: after.iter().map(|n| StepIx(*n)).collect(),
        ..Step::new(id, "work", policy())
    }
}

fn workflow(name: &str, url: &str, steps: Vec<Step>) -> Arc<Workflow> {
    let (method, url) = ("POST".to_owned(), url.to_owned());
    let action = Action {
        kind: ActionKind::default(),
        target: Target::Http(Endpoint::new(method, url)),
        idempotent: Some(true),
        inner_attempts: None,
        guard: Default::default(),
        heartbeat_timeout: None,
        webhook: None,
    };
    let actions = [("work".to_owned(), action)].into();
    Arc::new(
        Workflow::try_from(WorkflowParts {
            name: name.into(),
            actions,
            steps,
            ..WorkflowParts::default()
        })
        .unwrap(),
    )
}
