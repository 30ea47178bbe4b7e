use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Step, StepIx, Target, Workflow};

/// What a node must have to run a task: the action, as a function or over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Need {
    /// The action's name.
    pub action: Arc<str>,
    /// How it is reached.
    pub via: Via,
}

/// How an action is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A function registered under the action's name.
    Function,
    /// An HTTP client.
    Http,
}

/// ``action `x` `` or ``HTTP action `x` ``.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = &self.action;
        match self.via {
            Via::Function => write!(f, "action `{action}`"),
            Via::Http => write!(f, "HTTP action `{action}`"),
        }
    }
}

/// What a node can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Able {
    /// Every action.
    Anything,
    /// These functions, and HTTP actions where there is a client.
    Only {
        /// Whether there is an HTTP client.
        http: bool,
        /// The registered functions.
        functions: BTreeSet<Arc<str>>,
    },
}

impl Able {
    /// Whether the node can run a task that needs `need`.
    #[must_use]
    pub fn can(&self, need: &Need) -> bool {
        self.has(&need.action, need.via)
    }

    fn has(&self, action: &str, via: Via) -> bool {
        match (self, via) {
            (Self::Anything, _) => true,
            (Self::Only { http, .. }, Via::Http) => *http,
            (Self::Only { functions, .. }, Via::Function) => functions.contains(action),
        }
    }
}

impl Workflow {
    /// What a node must have to run the tasks of the step at `at`.
    #[must_use]
    pub fn need(&self, at: StepIx) -> Option<Need> {
        let action = self.step(at)?.action.as_str();
        Some(Need { action: action.into(), via: self.via(action) })
    }

    /// The first step that a node can't run.
    #[must_use]
    pub fn beyond(&self, able: &Able) -> Option<StepIx> {
        let is_beyond = |step: &Step| !able.has(&step.action, self.via(&step.action));
        self.places().zip(self.steps()).find(|(_, step)| is_beyond(step)).map(|(at, _)| at)
    }

    fn via(&self, action: &str) -> Via {
        match self.actions().get(action).map(|declared| &declared.target) {
            Some(Target::Http(_)) => Via::Http,
            Some(Target::Registered) | None => Via::Function,
        }
    }
}
