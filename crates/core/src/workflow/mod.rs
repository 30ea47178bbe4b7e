//! A workflow: steps joined by dependencies and transitions; a definition, not a run.
//!
//! Decides which graphs are valid and what conditions and templates mean. Must never know runs,
//! attempts, stores or text syntaxes. To add a condition, add a variant to [`Condition`] and its arm
//! in `holds`; to add a source of values, add a variant to `Root` in `seen`.

mod builder;
mod condition;
mod endpoint;
mod error;
mod graph;
mod need;
mod nesting;
mod quorum;
mod room;
mod saga;
mod search;
mod seen;
mod template;
mod url_template;
mod webhook;
pub(crate) mod written;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

pub use builder::{AtStep, AtTop, AtTransition, WorkflowBuilder};
pub use condition::{Condition, Field};
pub(crate) use endpoint::MAX_URL;
pub use endpoint::{AnswerForm, BodyForm, Endpoint, HeaderText};
pub use error::WorkflowError;
pub(crate) use graph::MAX_STEPS;
pub use quorum::Quorum;
pub use room::MAX_VALUE;
pub(crate) use room::TooLarge;
pub use saga::Rollback;
pub use search::{SearchFields, SearchFieldsError};
pub(crate) use seen::{Many, Root, Seen, Values};
pub(crate) use template::Path;
pub use template::{Template, TemplateError};
pub(crate) use url_template::UrlTemplate;
pub use webhook::Webhook;
use written::Written;

unstable! {
    use endpoint::{Filled};
    use url_template::{ArgumentError};
    use need::{Able, Need, Via};
    use nesting::{Nesting};
}

use crate::guard::GuardRules;
use crate::policy::{ActionKind, Budget, Origin, Policy};
use crate::time::Nanos;

/// A step's place in its workflow's text, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepIx(pub u16);

impl StepIx {
    /// The place as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a step invokes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Picks the built-in policy.
    #[serde(default)]
    pub kind: ActionKind,
    /// Where it is.
    pub target: Target,
    /// Whether it may safely run twice; `None` where not declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Attempts that the action itself makes within each attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_attempts: Option<u32>,
    /// The circuit breaker and limits that protect it.
    #[serde(default, skip_serializing_if = "GuardRules::is_empty")]
    pub guard: GuardRules,
    /// The [`Step::heartbeat_timeout`] of steps that have none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<Nanos>,
    /// The action that receives the alerts of its error budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

/// Where an action is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// An async Rust function registered under the action's name.
    Registered,
    /// An HTTP endpoint.
    Http(Endpoint),
}

/// One node of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The step's name, unique in its workflow.
    pub id: String,
    /// The name of what it invokes.
    pub action: String,
    /// The arguments, with `${...}` filled in when the step is entered.
    pub args: Template,
    /// The steps that must have succeeded before it, as many of them as `join` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StepIx>,
    /// How many of `after` must have succeeded, judged when all of them have ended.
    #[serde(default, skip_serializing_if = "Quorum::is_all")]
    pub join: Quorum,
    /// The list to fan out over: one task an item. A template that gives an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Template>,
    /// Whether the run needs it.
    #[serde(default)]
    pub goal: bool,
    /// How many of a fanned-out step's tasks must succeed.
    #[serde(default, skip_serializing_if = "Quorum::is_all")]
    pub success: Quorum,
    /// Whether the remaining tasks are cancelled as soon as `success` is decided: reached, or out of
    /// reach.
    #[serde(default)]
    pub fail_fast: bool,
    /// The precondition, judged once, when the step is entered. If it does not hold, the step fails as
    /// `PRECONDITION_FAILED` without an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<Condition>,
    /// The postcondition of each attempt. If the result does not satisfy it, the attempt fails as
    /// `POSTCONDITION_FAILED` and the result is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ensures: Option<Condition>,
    /// The step whose successes it undoes, each with a task of its own. Such a step is entered only
    /// when the run rolls back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensates: Option<StepIx>,
    /// The longest time an attempt may run without a heartbeat. If `None`, its node keeps the lease
    /// for as long as the attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<Nanos>,
    /// How its tasks' failures are treated.
    pub policy: Policy,
    /// Where the policy came from.
    pub origin: Origin,
}

impl Step {
    /// A step that invokes `action` without arguments and waits for nothing. Its policy counts as
    /// its own.
    #[must_use]
    pub fn new(id: impl Into<String>, action: impl Into<String>, policy: Policy) -> Self {
        Self {
            id: id.into(),
            action: action.into(),
            args: Template::default(),
            after: Vec::new(),
            join: Quorum::All,
            for_each: None,
            goal: false,
            success: Quorum::All,
            fail_fast: false,
            requires: None,
            ensures: None,
            compensates: None,
            heartbeat_timeout: None,
            policy,
            origin: Origin::Task,
        }
    }
}

/// An edge that is taken when its source has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The source.
    pub from: StepIx,
    /// The target, entered when the edge is taken.
    pub to: StepIx,
    /// Edges are judged from the lowest number up, ties in text order.
    #[serde(default)]
    pub priority: i64,
    /// An exception edge: taken only on a failure of one of these types or codes; an empty set is
    /// every failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<BTreeSet<String>>,
    /// Must hold for the edge to be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// A workflow with a valid graph: see [`WorkflowError`] for what is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WorkflowParts")]
pub struct Workflow(WorkflowParts, Written);

/// The public form of a workflow's contents, checked when it becomes a [`Workflow`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowParts {
    /// The workflow's name.
    pub name: String,
    /// Default inputs, overlaid key by key by a run's own.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
    /// The declared actions by name.
    #[serde(default)]
    pub actions: BTreeMap<String, Action>,
    /// The steps in text order.
    pub steps: Vec<Step>,
    /// The transitions in text order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
    /// When a run rolls back by itself.
    #[serde(default, skip_serializing_if = "Rollback::is_never")]
    pub rollback: Rollback,
    /// The fields of the input by which runs are found.
    #[serde(default, skip_serializing_if = "SearchFields::is_empty")]
    pub search: SearchFields,
}

impl Serialize for Workflow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl From<Workflow> for WorkflowParts {
    fn from(workflow: Workflow) -> Self {
        workflow.0
    }
}

impl Workflow {
    /// The workflow's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Default inputs.
    #[must_use]
    pub fn input(&self) -> &Map<String, Value> {
        &self.0.input
    }

    /// The declared actions by name.
    #[must_use]
    pub fn actions(&self) -> &BTreeMap<String, Action> {
        &self.0.actions
    }

    /// The steps in text order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0.steps
    }

    /// The transitions in text order.
    #[must_use]
    pub fn transitions(&self) -> &[Transition] {
        &self.0.transitions
    }

    /// The retry budget of the step at `at`: its policy's, else its action's.
    #[must_use]
    pub fn retry_budget(&self, at: StepIx) -> Option<&Budget> {
        let step = self.step(at)?;
        let of_action = || self.0.actions.get(&step.action)?.guard.retry_budget.as_ref();
        step.policy.budget().or_else(of_action)
    }

    /// When a run rolls back by itself.
    #[must_use]
    pub fn rollback(&self) -> Rollback {
        self.0.rollback
    }

    /// The fields of the input by which runs are found.
    #[must_use]
    pub fn search(&self) -> &SearchFields {
        &self.0.search
    }

    /// The step that undoes `at`, if there is one.
    #[must_use]
    pub(crate) fn compensation_of(&self, at: StepIx) -> Option<StepIx> {
        self.places().find(|to| self.step(*to).is_some_and(|s| s.compensates == Some(at)))
    }

    /// Whether the step has one task an item: its own items, or those of the step that it undoes.
    #[must_use]
    pub fn fans_out(&self, at: StepIx) -> bool {
        let own = self.step(at).and_then(|s| s.compensates).unwrap_or(at);
        self.step(own).is_some_and(|s| s.for_each.is_some())
    }

    /// Every step's place, in text order.
    pub fn places(&self) -> impl Iterator<Item = StepIx> + use<> {
        (0..self.0.steps.len()).filter_map(|i| u16::try_from(i).ok()).map(StepIx)
    }

    /// The step at `at`, if there is one.
    #[must_use]
    pub fn step(&self, at: StepIx) -> Option<&Step> {
        self.0.steps.get(at.index())
    }

    /// The heartbeat timeout of the step at `at`: its own, else its action's.
    #[must_use]
    pub fn heartbeat_timeout(&self, at: StepIx) -> Option<Nanos> {
        let step = self.step(at)?;
        let of_action = || self.actions().get(&step.action)?.heartbeat_timeout;
        step.heartbeat_timeout.or_else(of_action)
    }

    /// The place of the step named `id`.
    #[must_use]
    pub fn place_of(&self, id: &str) -> Option<StepIx> {
        self.places().find(|at| self.step(*at).is_some_and(|s| s.id == id))
    }

    /// Whether `step`'s action may safely run again: true unless its declaration says otherwise.
    #[must_use]
    pub(crate) fn is_idempotent(&self, step: &Step) -> bool {
        let declared = self.0.actions.get(&step.action);
        declared.and_then(|action| action.idempotent) != Some(false)
    }

    /// The edges out of `from`, by ascending priority, ties in text order.
    #[must_use]
    pub fn edges_from(&self, from: StepIx) -> Vec<&Transition> {
        let mut edges: Vec<_> = self.0.transitions.iter().filter(|t| t.from == from).collect();
        edges.sort_by_key(|t| t.priority);
        edges
    }

    /// The edges into `to`.
    pub fn edges_into(&self, to: StepIx) -> impl Iterator<Item = &Transition> {
        self.0.transitions.iter().filter(move |t| t.to == to)
    }

    /// Whether any step is a goal.
    #[must_use]
    pub fn has_goals(&self) -> bool {
        self.0.steps.iter().any(|s| s.goal)
    }
}
