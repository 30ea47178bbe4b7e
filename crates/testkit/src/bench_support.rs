//! Runs of one step that does nothing, for the benches of whole engines.

use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::engine::{Engine, Submission, World};
use retrial::failure::Failure;
use retrial::policy::{Dialect, Policy};
use retrial::run::Outcome;
use retrial::workflow::{Step, Template, Workflow, WorkflowParts};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The action of the step.
pub fn actions() -> Registry {
    let mut actions = Registry::new();
    actions.register("nothing", |_: Context| async { Ok::<_, Failure>(Value::Null) });
    actions
}

/// The step once, or once an item.
pub fn workflow(for_each: Option<Value>) -> Arc<Workflow> {
    let template = |value| Template::try_from(value).unwrap();
    let step = Step {
        args: template(json!({})),
        for_each: for_each.map(template),
        ..Step::new("a", "nothing", Policy::no_retries(Dialect::Builder))
    };
    let parts = WorkflowParts { name: "one".into(), steps: vec![step], ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// Submits `count` runs at once and waits until all have ended.
pub async fn complete<W: World>(engine: &Engine<W>, workflow: &Arc<Workflow>, count: u64) {
    let mut users = JoinSet::new();
    for _ in 0..count {
        let (engine, submission) = (engine.clone(), Submission::new(Arc::clone(workflow)));
        users.spawn(async move {
            let run = engine.submit(submission).await.unwrap().run;
            engine.outcome(run).await.unwrap().outcome
        });
    }
    while let Some(outcome) = users.join_next().await {
        assert_eq!(outcome.unwrap(), Outcome::Completed);
    }
}
