use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Step, Template, Workflow, WorkflowParts};
use crate::policy::{Origin, Policy};

/// An action that receives another action's alerts, with everything needed to call it. It is called
/// in a separate run, because the run that raised the alert may have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    name: String,
    action: Box<Action>,
    policy: Policy,
    origin: Origin,
}

impl Webhook {
    /// The action called `name`. Its own webhook is removed: a webhook that fails must not call
    /// another.
    #[must_use]
    pub fn new(name: impl Into<String>, action: Action, policy: Policy, origin: Origin) -> Self {
        let action = Box::new(Action { webhook: None, ..action });
        Self { name: name.into(), action, policy, origin }
    }

    /// The action's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The action.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// How its failures are treated.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Where the policy came from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The workflow that sends it an alert of the action `of`: one step, whose arguments are the run's
    /// input.
    #[must_use]
    pub fn workflow(&self, of: &str) -> Option<Workflow> {
        let args = Template::try_from(Value::from("${input}")).ok()?;
        let step = Step {
            args,
            origin: self.origin,
            ..Step::new("alert", self.name.as_str(), self.policy.clone())
        };
        let parts = WorkflowParts {
            name: format!("{of} alert"),
            actions: [(self.name.clone(), Action { webhook: None, ..(*self.action).clone() })]
                .into(),
            steps: vec![step],
            ..WorkflowParts::default()
        };
        Workflow::try_from(parts).ok()
    }
}
