//! What the runs of a bench do.

use std::sync::Arc;

use clap::ValueEnum;
use retrial::action::{ActionSet, Context, HttpActions, Registry};
use retrial::dialect::{Environment, Policies, parse_policy};
use retrial::failure::Failure;
use retrial::net::TcpConnect;
use retrial::policy::{Dialect, Policy};
use retrial::workflow::{Step, Template, Workflow, WorkflowParts};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::error::CliError;

/// What the runs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// One step that does nothing
    Noop,
    /// One step that fails once; its retry is due after 10 ms
    Retry,
    /// One step over many items, each of which does nothing
    FanOut,
    /// One step; a third of the runs fail once, under policies in all five dialects with backoff
    /// that doubles and full jitter
    Storm,
    /// One step that does nothing, beside runs that wait an hour for their retry
    Pending,
}

/// What fails once.
const ONCE: &str = "fails_once";
const NOTHING: &str = "nothing";

/// The policies of a storm, one in each dialect. Waymark's brackets have no jitter.
const STORM: [(Dialect, &str); 5] = [
    (Dialect::Ir, "[retry: 3, backoff: 20ms]"),
    (
        Dialect::WorkConfig,
        r#"{"max_retries": 3, "backoff": 20, "backoff_type": "exponential", "jitter": "full"}"#,
    ),
    (
        Dialect::Execution,
        r#"{"max_attempts": 4, "backoff": "exponential", "initial_delay_ms": 20, "jitter": "full"}"#,
    ),
    (Dialect::RetryConfig, r#"{"max_attempts": 4, "initial_delay": 0.02, "jitter": "full"}"#),
    // Its base is 100 ms. With a budget of all first attempts no retry is denied.
    (Dialect::Preset, r#"{"name": "google-sre", "retry_budget": 1}"#),
];

/// Of this many runs in a storm one fails.
const ONE_OF: usize = 3;

impl Workload {
    /// How many items or pending runs there are.
    pub(super) fn items(self, asked: Option<u64>) -> Result<Option<u64>, CliError> {
        match (self, asked) {
            (Self::FanOut, Some(n)) if n > MOST_ITEMS => Err(CliError::input(format!(
                "--items {n}: a step fans out over at most {MOST_ITEMS} items"
            ))),
            (Self::FanOut, asked) => Ok(Some(asked.unwrap_or(100))),
            (Self::Pending, asked) => Ok(Some(asked.unwrap_or(10_000))),
            (_, Some(_)) => {
                Err(CliError::input(format!("the workload `{}` has no items", self.name()))
                    .help("use --items with --workload fan-out or pending"))
            }
            (_, None) => Ok(None),
        }
    }

    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The workflows of the runs, which take turns.
    pub(super) fn workflows(self, items: Option<u64>) -> Result<Vec<Arc<Workflow>>, CliError> {
        match self {
            Self::Noop | Self::Pending => Ok(vec![workflow(NOTHING, no_retries(), None)?]),
            Self::Retry => {
                Ok(vec![workflow(ONCE, policy(Dialect::Ir, "[retry: 1, backoff: 10ms]")?, None)?])
            }
            Self::FanOut => {
                let items: Vec<u64> = (0..items.unwrap_or(1)).collect();
                Ok(vec![workflow(NOTHING, no_retries(), Some(json!(items)))?])
            }
            Self::Storm => {
                let turns = (0..ONE_OF).flat_map(|turn| STORM.map(|policy| (turn, policy)));
                let workflows = turns.map(|(turn, (dialect, text))| {
                    let action = if turn == 0 { ONCE } else { NOTHING };
                    workflow(action, policy(dialect, text)?, None)
                });
                workflows.collect()
            }
        }
    }
}

/// The most items of a step, as the engine has it.
const MOST_ITEMS: u64 = 10_000;

/// A run whose retry is due in an hour.
pub(super) fn pending() -> Result<Arc<Workflow>, CliError> {
    workflow(ONCE, policy(Dialect::Ir, "[retry: 1, backoff: 1h]")?, None)
}

/// The actions of all workloads.
pub(super) fn actions() -> ActionSet<TcpConnect> {
    let mut actions = Registry::new();
    actions.register(NOTHING, |_: Context| async { Ok::<_, Failure>(Value::Null) });
    actions.register(ONCE, |context: Context| async move {
        match context.attempt() {
            1 => Err(Failure::http(503, "the first attempt fails")),
            _ => Ok(Value::Null),
        }
    });
    ActionSet::new(actions, HttpActions::new(TcpConnect::new(), |_: &str| None))
}

fn no_retries() -> Policy {
    Policy::no_retries(Dialect::Builder)
}

fn policy(dialect: Dialect, text: &str) -> Result<Policy, CliError> {
    match parse_policy("bench", text, Some(dialect), &Environment::default())? {
        Policies::One(policy) => Ok(policy),
        Policies::Steps { .. } => Err(CliError::input("a policy was read as a workflow")),
    }
}

fn workflow(
    action: &str,
    policy: Policy,
    for_each: Option<Value>,
) -> Result<Arc<Workflow>, CliError> {
    let template =
        |value: Value| Template::try_from(value).map_err(|e| CliError::input(e.to_string()));
    let step = Step {
        args: template(json!({}))?,
        for_each: for_each.map(template).transpose()?,
        ..Step::new("work", action, policy)
    };
    let parts =
        WorkflowParts { name: "bench".into(), steps: vec![step], ..WorkflowParts::default() };
    let workflow = Workflow::try_from(parts).map_err(|e| CliError::input(e.to_string()))?;
    Ok(Arc::new(workflow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_a_storm_fails_and_every_dialect_has_its_share() {
        let workflows = Workload::Storm.workflows(None).unwrap();
        let of = |action: &str| {
            let its = workflows.iter().filter(|w| w.steps()[0].action == action);
            its.map(|w| w.steps()[0].policy.dialect()).collect::<Vec<_>>()
        };
        assert_eq!(of(ONCE), STORM.map(|(dialect, _)| dialect));
        assert_eq!(of(NOTHING).len(), 2 * of(ONCE).len());
    }

    #[test]
    fn every_workload_has_workflows() {
        for workload in Workload::value_variants() {
            let items = workload.items(None).unwrap();
            assert!(!workload.workflows(items).unwrap().is_empty(), "{workload:?}");
        }
        assert!(Workload::Noop.items(Some(3)).is_err());
        assert!(Workload::FanOut.items(Some(MOST_ITEMS + 1)).is_err());
    }
}
