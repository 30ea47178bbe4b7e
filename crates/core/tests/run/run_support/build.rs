//! Workflows in a few words.

use retrial_core::policy::Dialect;
use retrial_core::policy::{Backoff, Limit, Matcher, Policy, PolicyParts, Rule};
use retrial_core::time::Nanos;
use retrial_core::workflow::{self, Condition, Step, StepIx, Template, Transition, Workflow};
use serde_json::{Map, Value, json};

/// A workflow under construction.
#[derive(Default)]
pub struct Flow {
    parts: workflow::WorkflowParts,
}

/// No retries.
pub fn once() -> Policy {
    Policy::no_retries(Dialect::Builder)
}

/// `attempts` in all, on every failure, doubling from a second.
pub fn doubling(attempts: u32) -> Policy {
    change(attempts, |_| {})
}

/// As [`doubling`], changed.
pub fn change(attempts: u32, change: impl FnOnce(&mut PolicyParts)) -> Policy {
    let mut parts = PolicyParts::new(Dialect::Builder);
    parts.rules.push(Rule {
        matcher: Matcher::any(),
        limit: Limit::attempts(attempts).expect("at least one attempt"),
        backoff: Backoff::exponential(Nanos::from_secs(1)),
    });
    change(&mut parts);
    Policy::try_from(parts).expect("a policy that makes sense")
}

/// As [`doubling`], for failures of the retryable class alone.
pub fn transient(attempts: u32) -> Policy {
    change(attempts, |p| p.rules[0].matcher = Matcher::retryable())
}

impl Flow {
    pub fn new() -> Self {
        Self {
            parts: workflow::WorkflowParts {
                name: "test".into(),
                ..workflow::WorkflowParts::default()
            },
        }
    }

    /// Adds a step with the action of the same name.
    pub fn step(mut self, id: &str, policy: Policy) -> Self {
        self.parts.steps.push(Step {
            args: Template::try_from(json!({})).expect("no templates"),
            ..Step::new(id, id, policy)
        });
        self
    }

    fn last(&mut self) -> &mut Step {
        self.parts.steps.last_mut().expect("a step")
    }

    fn at(&self, id: &str) -> StepIx {
        let at = self.parts.steps.iter().position(|s| s.id == id).expect("a step of that name");
        StepIx(u16::try_from(at).expect("few steps"))
    }

    pub fn after(mut self, ids: &[&str]) -> Self {
        self.last().after = ids.iter().map(|id| self.at(id)).collect();
        self
    }

    pub fn goal(mut self) -> Self {
        self.last().goal = true;
        self
    }

    pub fn fail_fast(mut self) -> Self {
        self.last().fail_fast = true;
        self
    }

    /// How many tasks of the last step must succeed: `"all"`, `"any"` or `{"at_least": k}`.
    pub fn success(mut self, quorum: Value) -> Self {
        self.last().success = serde_json::from_value(quorum).expect("a quorum");
        self
    }

    /// How many of the steps before the last one must have succeeded.
    pub fn join(mut self, quorum: Value) -> Self {
        self.last().join = serde_json::from_value(quorum).expect("a quorum");
        self
    }

    pub fn requires(mut self, condition: Value) -> Self {
        self.last().requires = Some(serde_json::from_value(condition).expect("a condition"));
        self
    }

    pub fn ensures(mut self, condition: Value) -> Self {
        self.last().ensures = Some(serde_json::from_value(condition).expect("a condition"));
        self
    }

    /// The last step undoes the one named `id`.
    pub fn compensates(mut self, id: &str) -> Self {
        self.last().compensates = Some(self.at(id));
        self
    }

    /// When the run rolls back by itself: `"on_failure"` and so on.
    pub fn rollback(mut self, when: &str) -> Self {
        self.parts.rollback = serde_json::from_value(json!(when)).expect("a rollback");
        self
    }

    pub fn args(mut self, args: Value) -> Self {
        self.last().args = Template::try_from(args).expect("templates that parse");
        self
    }

    /// Fans the last step out over what the template gives.
    pub fn for_each(mut self, list: Value) -> Self {
        self.last().for_each = Some(Template::try_from(list).expect("a template that parses"));
        self
    }

    fn edge(
        mut self,
        (from, to): (&str, &str),
        priority: i64,
        on_error: Option<&[&str]>,
        condition: Option<Value>,
    ) -> Self {
        let condition: Option<Condition> =
            condition.map(|c| serde_json::from_value(c).expect("a condition"));
        let on_error = on_error.map(|n| n.iter().map(|n| (*n).to_owned()).collect());
        let (from, to) = (self.at(from), self.at(to));
        self.parts.transitions.push(Transition { from, to, priority, on_error, condition });
        self
    }

    /// An unconditional transition.
    pub fn then(self, edge: (&str, &str)) -> Self {
        self.edge(edge, 0, None, None)
    }

    /// A transition with a priority and a condition.
    pub fn when(self, edge: (&str, &str), priority: i64, condition: Value) -> Self {
        self.edge(edge, priority, None, Some(condition))
    }

    /// An exception edge for `names`; none are all.
    pub fn on_error(self, edge: (&str, &str), priority: i64, names: &[&str]) -> Self {
        self.edge(edge, priority, Some(names), None)
    }

    /// The defaults of the input.
    pub fn input(mut self, input: Map<String, Value>) -> Self {
        self.parts.input = input;
        self
    }

    pub fn build(self) -> Workflow {
        self.try_build().expect("a workflow that makes sense")
    }

    pub fn try_build(self) -> Result<Workflow, workflow::WorkflowError> {
        Workflow::try_from(self.parts)
    }
}
