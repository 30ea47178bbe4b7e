//! A workflow in Rust, written in the order of a file.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::Value;

use super::{
    Action, Condition, Quorum, Rollback, SearchFields, Step, StepIx, Template, Transition,
    Workflow, WorkflowError, WorkflowParts,
};
use crate::policy::{Dialect, Policy};
use crate::time::Nanos;

/// Builds a [`Workflow`]: first what holds for all of it, then each step with its settings, then the
/// transitions. Steps are named by their ids, also before they are there.
///
/// ```
/// use retrial_core::policy::Policy;
/// use retrial_core::workflow::Workflow;
/// use serde_json::json;
///
/// let patient = Policy::builder().attempts(5).build()?;
/// let order = Workflow::builder("order")
///     .input(json!({ "item": "lamp" }))
///     .step("charge", "charge_card")
///     .args(json!({ "item": "${input.item}" }))
///     .retry(patient)
///     .step("ship", "ship")
///     .after(["charge"])
///     .step("tell", "tell_support")
///     .transition("charge", "tell")
///     .on_error(["CardDeclined"])
///     .build()?;
/// assert_eq!(order.steps().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is built before `build`"]
pub struct WorkflowBuilder<At> {
    parts: WorkflowParts,
    /// Of each step, by its place: what it names.
    names: Vec<Names>,
    /// The ends of each transition.
    edges: Vec<[String; 2]>,
    wrong: Option<WorkflowError>,
    at: PhantomData<At>,
}

/// The steps that a step names.
#[derive(Debug, Default)]
struct Names {
    after: Vec<String>,
    compensates: Option<String>,
}

/// Says that the builder is where a workflow begins.
#[derive(Debug)]
pub enum AtTop {}

/// Says that the builder is at a step.
#[derive(Debug)]
pub enum AtStep {}

/// Says that the builder is at a transition.
#[derive(Debug)]
pub enum AtTransition {}

impl Workflow {
    /// Begins a workflow called `name`.
    pub fn builder(name: impl Into<String>) -> WorkflowBuilder<AtTop> {
        let parts = WorkflowParts { name: name.into(), ..WorkflowParts::default() };
        let (names, edges) = Default::default();
        WorkflowBuilder { parts, names, edges, wrong: None, at: PhantomData }
    }
}

impl<At> WorkflowBuilder<At> {
    /// Begins the next step: its id, and the action that it invokes. Without settings it has no
    /// arguments, waits for nothing and is not retried.
    pub fn step(
        mut self,
        id: impl Into<String>,
        action: impl Into<String>,
    ) -> WorkflowBuilder<AtStep> {
        self.parts.steps.push(Step::new(id, action, Policy::no_retries(Dialect::Builder)));
        self.names.push(Names::default());
        self.at()
    }

    /// Begins the next transition: an edge that is taken when the step `from` has ended.
    pub fn transition(
        mut self,
        from: impl Into<String>,
        to: impl Into<String>,
    ) -> WorkflowBuilder<AtTransition> {
        let edge = Transition {
            from: StepIx(0),
            to: StepIx(0),
            priority: 0,
            on_error: None,
            condition: None,
        };
        self.parts.transitions.push(edge);
        self.edges.push([from.into(), to.into()]);
        self.at()
    }

    /// The workflow.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn build(self) -> Result<Workflow, WorkflowError> {
        let Self { mut parts, names, edges, wrong, .. } = self;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let ids = parts.steps.iter().map(|step| step.id.clone());
        let ids: BTreeMap<String, StepIx> = ids.zip((0..=u16::MAX).map(StepIx)).collect();
        let find = |id: &String, what: &str| {
            let unknown = || WorkflowError::UnknownStep { what: format!("`{id}` in {what}") };
            ids.get(id).copied().ok_or_else(unknown)
        };
        for (step, names) in parts.steps.iter_mut().zip(names) {
            let what = format!("`after` of step `{}`", step.id);
            let after = names.after.iter().map(|id| find(id, &what));
            step.after = after.collect::<Result<_, _>>()?;
            let what = format!("`compensates` of step `{}`", step.id);
            step.compensates = names.compensates.map(|id| find(&id, &what)).transpose()?;
        }
        for (edge, [from, to]) in parts.transitions.iter_mut().zip(edges) {
            let what = format!("the transition from `{from}` to `{to}`");
            (edge.from, edge.to) = (find(&from, &what)?, find(&to, &what)?);
        }
        parts.try_into()
    }

    fn at<Next>(self) -> WorkflowBuilder<Next> {
        let Self { parts, names, edges, wrong, .. } = self;
        WorkflowBuilder { parts, names, edges, wrong, at: PhantomData }
    }
}

impl WorkflowBuilder<AtTop> {
    /// Default inputs, overlaid key by key by a run's own: an object.
    pub fn input(mut self, input: Value) -> Self {
        match input {
            Value::Object(input) => self.parts.input = input,
            _ => self.wrong = self.wrong.or(Some(WorkflowError::InputNoObject)),
        }
        self
    }

    /// When a run rolls back by itself; never, unless said.
    pub fn rollback(mut self, rollback: Rollback) -> Self {
        self.parts.rollback = rollback;
        self
    }

    /// The fields of the input by which runs are found, such as `customer` and `order.id`.
    pub fn search<S: Into<String>>(mut self, fields: impl IntoIterator<Item = S>) -> Self {
        match SearchFields::new(fields) {
            Ok(fields) => self.parts.search = fields,
            Err(error) => self.wrong = self.wrong.or(Some(WorkflowError::BadSearch(error))),
        }
        self
    }

    /// Declares an action: where it is, what protects it. Registered functions need no declaration.
    pub fn action(mut self, name: impl Into<String>, action: Action) -> Self {
        self.parts.actions.insert(name.into(), action);
        self
    }
}

impl WorkflowBuilder<AtStep> {
    /// The arguments, with `${...}` filled in when the step is entered.
    pub fn args(self, args: Value) -> Self {
        self.template("args", args, |step, args| step.args = args)
    }

    /// The list to fan out over, one task an item, such as `${input.rows}`.
    pub fn for_each(self, list: &str) -> Self {
        self.template("for_each", list.into(), |step, list| step.for_each = Some(list))
    }

    /// How its tasks' failures are treated.
    pub fn retry(self, policy: Policy) -> Self {
        self.set(|step| step.policy = policy)
    }

    /// The steps that must have succeeded before it.
    pub fn after<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        if let Some(names) = self.names.last_mut() {
            names.after = ids.into_iter().map(Into::into).collect();
        }
        self
    }

    /// How many of those must have succeeded; all, unless said.
    pub fn join(self, join: Quorum) -> Self {
        self.set(|step| step.join = join)
    }

    /// How many tasks of a fan-out must succeed; all, unless said.
    pub fn success(self, success: Quorum) -> Self {
        self.set(|step| step.success = success)
    }

    /// Cancels the tasks that remain as soon as `success` is decided.
    pub fn fail_fast(self) -> Self {
        self.set(|step| step.fail_fast = true)
    }

    /// The run needs this step.
    pub fn goal(self) -> Self {
        self.set(|step| step.goal = true)
    }

    /// What must hold when the step is entered.
    pub fn requires(self, condition: Condition) -> Self {
        self.set(|step| step.requires = Some(condition))
    }

    /// What each attempt's result must satisfy.
    pub fn ensures(self, condition: Condition) -> Self {
        self.set(|step| step.ensures = Some(condition))
    }

    /// The step whose successes it undoes in a rollback.
    pub fn compensates(mut self, id: impl Into<String>) -> Self {
        if let Some(names) = self.names.last_mut() {
            names.compensates = Some(id.into());
        }
        self
    }

    /// The longest time an attempt may run without a heartbeat.
    pub fn heartbeat_timeout(self, limit: impl Into<Nanos>) -> Self {
        self.set(|step| step.heartbeat_timeout = Some(limit.into()))
    }

    fn set(mut self, set: impl FnOnce(&mut Step)) -> Self {
        self.parts.steps.last_mut().map(set);
        self
    }

    fn template(
        mut self,
        field: &'static str,
        text: Value,
        set: impl FnOnce(&mut Step, Template),
    ) -> Self {
        match Template::try_from(text) {
            Ok(template) => self.set(|step| set(step, template)),
            Err(error) => {
                let id = self.parts.steps.last().map(|step| step.id.clone()).unwrap_or_default();
                let wrong = WorkflowError::BadTemplate { id, field, error };
                self.wrong = self.wrong.or(Some(wrong));
                self
            }
        }
    }
}

impl WorkflowBuilder<AtTransition> {
    /// Takes the edge only on a failure of one of these types or codes; on any, if there are none.
    pub fn on_error<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.set(|edge| edge.on_error = Some(names.into_iter().map(Into::into).collect()))
    }

    /// What must hold for the edge to be taken.
    pub fn when(self, condition: Condition) -> Self {
        self.set(|edge| edge.condition = Some(condition))
    }

    /// Edges are judged from the lowest number up; 0, unless said.
    pub fn priority(self, priority: i64) -> Self {
        self.set(|edge| edge.priority = priority)
    }

    fn set(mut self, set: impl FnOnce(&mut Transition)) -> Self {
        self.parts.transitions.last_mut().map(set);
        self
    }
}
