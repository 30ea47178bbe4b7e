//! What users bring into the simulated world: functions, services and kinds of faults, as code.
//!
//! Decides which inputs such code gets and what is recorded of it. Must never know runs, oracles or
//! how a world is built. A function of the user makes everything with state anew for each world. To
//! accept one more thing from users, add it to [`UserCode`] and to the builder in `check`, and say
//! in `world` who calls it.

mod fault;
mod service;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use retrial::action::Registry;
use retrial::policy::{Functions, Shape};
use retrial::workflow::{Target, Webhook, Workflow};

pub use fault::UserFault;
pub(crate) use fault::strike;
pub(crate) use service::{MakeService, Service, make};
pub use service::{Request, Response};
pub use world::{Fact, Peer, World};

/// Makes the functions of one incarnation of a node.
pub(crate) type MakeRegistry = Arc<dyn Fn(&mut Registry) + Send + Sync>;

/// The code that a user brings. Clones share it; nothing in it belongs to one world.
#[derive(Clone, Default)]
pub struct UserCode {
    pub(crate) registries: Vec<MakeRegistry>,
    pub(crate) backoffs: Functions,
    /// By host, as in URLs, in lower case.
    pub(crate) services: BTreeMap<String, MakeService>,
    pub(crate) faults: Vec<Arc<dyn UserFault>>,
}

impl UserCode {
    /// The functions of one incarnation of a node.
    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        self.registries.iter().for_each(|add| add(&mut registry));
        registry
    }

    /// The services of one world.
    pub(crate) fn services(&self, world: &World) -> BTreeMap<String, Service> {
        self.services.iter().map(|(host, make)| (host.clone(), make(world))).collect()
    }

    /// The record of the user's code in `world`.
    pub(crate) fn evidence(&self, world: &World) -> UserEvidence {
        let services = self.services.keys().cloned().collect();
        UserEvidence { is_own: true, services, ..world.evidence() }
    }

    /// A message for each function and backoff that the workflow names and that is not registered.
    pub(crate) fn missing(&self, workflow: &Workflow) -> Vec<String> {
        let registry = self.registry();
        let is_http = |name: &str| {
            matches!(workflow.actions().get(name).map(|a| &a.target), Some(Target::Http(_)))
        };
        let of_steps = workflow.steps().iter().map(|step| step.action.as_str());
        let webhooks = workflow.actions().values().filter_map(|action| action.webhook.as_ref());
        let actions: BTreeSet<&str> = of_steps.chain(webhooks.map(Webhook::name)).collect();
        let functions = actions.into_iter().filter(|name| !is_http(name) && !registry.has(name));
        let mut wrong: Vec<String> =
            functions.map(|name| format!("no function `{name}` is registered")).collect();
        for step in workflow.steps() {
            for rule in step.policy.rules() {
                if let Shape::Custom { name } = &rule.backoff.shape
                    && self.backoffs.get(name).is_none()
                {
                    wrong.push(format!("no backoff `{name}` is registered (step `{}`)", step.id));
                }
            }
        }
        wrong
    }

    pub(crate) fn fault(&self, name: &str) -> Option<&Arc<dyn UserFault>> {
        self.faults.iter().find(|fault| fault.name() == name)
    }
}

impl fmt::Debug for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserCode")
            .field("functions", &self.registry())
            .field("services", &self.services.keys())
            .finish_non_exhaustive()
    }
}

/// The record of the user's code in a world.
#[derive(Clone, Debug, Default)]
pub struct UserEvidence {
    /// Whether the registered functions were the user's own.
    pub is_own: bool,
    /// The facts that services, faults and functions recorded, in order.
    pub facts: Vec<Fact>,
    /// How often each own fault struck.
    pub struck: BTreeMap<String, u64>,
    /// The services' hosts.
    pub services: BTreeSet<String>,
}
