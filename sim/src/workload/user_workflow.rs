//! A user's own workflow file in the simulated world: its endpoints become scripted ones, and its
//! `[simulate]` table bounds what is drawn.

use std::collections::{BTreeMap, BTreeSet};

use retrial::dialect::tree::Node;
use retrial::dialect::{
    self, Declarations, Diagnostic, Diagnostics, Document, Environment, Format,
};
use retrial::net::Url;
use retrial::time::{Mono, Nanos};
use retrial::workflow::{Action, Target, Webhook, Workflow, WorkflowParts};

use super::simulate_table::{Script, Table};
use super::{Draw, Swarm, bound, faults, replies};
use crate::fault::FaultKind;
use crate::scenario::{
    self, ENDPOINT_HOST, EndpointPlan, Interventions, Reply, Scenario, Submission, Topology,
    WorkflowText,
};

/// The content of a user's file.
#[derive(Clone, Debug)]
pub struct UserPlan {
    /// The workflow, its endpoints led to the simulated ones, as stored JSON.
    text: String,
    /// The longest that its policies wait.
    patience: Nanos,
    /// The endpoints by action name.
    endpoints: BTreeMap<String, Route>,
    table: Table,
}

/// One action's endpoint.
#[derive(Clone, Debug)]
struct Route {
    may_hang: bool,
    script: Option<Script>,
}

/// Why a workflow can't be simulated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UserPlanError {
    /// Its text is wrong at these places.
    #[error(transparent)]
    Text(#[from] Diagnostics),
    /// Its file can't be read, or it can't be stored.
    #[error("{0}")]
    Other(String),
}

impl UserPlan {
    /// Reads a workflow file called `file`.
    ///
    /// # Errors
    /// When the text is wrong, or names an action that is no HTTP endpoint.
    pub fn parse(file: &str, text: &str) -> Result<Self, UserPlanError> {
        let read = Self::read(file, text)?;
        if !read.registered.is_empty() {
            let missing: Vec<_> = read.registered.into_iter().map(|r| r.missing).collect();
            return Err(Diagnostics::from(missing).into());
        }
        Self::of_document(file, text, read, &BTreeSet::new())
    }

    /// Reads a workflow file. Its actions may be registered functions, and its endpoints at
    /// `services` are not replaced.
    pub(super) fn parse_own(
        file: &str,
        text: &str,
        services: &BTreeSet<String>,
    ) -> Result<Self, UserPlanError> {
        Self::of_document(file, text, Self::read(file, text)?, services)
    }

    /// A workflow that was made in Rust.
    pub(super) fn of(
        workflow: Workflow,
        services: &BTreeSet<String>,
    ) -> Result<Self, UserPlanError> {
        let made = Self::made(workflow, Table::default(), services);
        made.map_err(|e| UserPlanError::Other(e.to_string()))
    }

    fn read(file: &str, text: &str) -> Result<Document, Diagnostics> {
        let environment = Environment::default();
        match Format::from_extension(file) {
            Some(format) => dialect::parse_workflow(file, text, format, &environment),
            None => dialect::parse_ir_program(file, text, &Declarations::default(), &environment),
        }
    }

    fn of_document(
        file: &str,
        text: &str,
        read: Document,
        services: &BTreeSet<String>,
    ) -> Result<Self, UserPlanError> {
        let Document { workflow, simulate, .. } = read;
        let table = match simulate {
            Some(_) => table(file, text, &workflow).map_err(Diagnostics::from)?,
            None => Table::default(),
        };
        let made = Self::made(workflow, table, services);
        made.map_err(|e| UserPlanError::Other(format!("{file}: {e}")))
    }

    fn made(
        workflow: Workflow,
        table: Table,
        services: &BTreeSet<String>,
    ) -> Result<Self, serde_json::Error> {
        let mut endpoints = routes(&workflow, &table);
        endpoints.retain(|name, _| {
            let action = workflow.actions().get(name);
            let is_http = |action: &Action| action.target != Target::Registered;
            action.is_some_and(|action| is_http(action) && !is_at(action, services))
        });
        let patience = bound::patience(&workflow);
        let led = lead_to_simulation(workflow, services);
        Ok(Self { text: serde_json::to_string(&led)?, patience, endpoints, table })
    }

    /// The workflow, its endpoints led to the simulated ones.
    pub(crate) fn workflow(&self) -> Option<Workflow> {
        serde_json::from_str(&self.text).ok()
    }

    /// The HTTP actions that no service and no script answers for.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = &str> {
        let drawn = self.endpoints.iter().filter(|(_, route)| route.script.is_none());
        drawn.map(|(name, _)| name.as_str())
    }

    /// Draws no other kinds of faults.
    pub(super) fn limit_faults(&mut self, kinds: BTreeSet<FaultKind>) {
        self.table.faults = Some(kinds);
    }

    /// Runs on so many engines.
    pub(super) fn on_nodes(&mut self, nodes: u32) {
        self.table.nodes = Some(nodes);
    }

    /// Heals everything after so long.
    pub(super) fn heal_after(&mut self, length: Nanos) {
        self.table.heal_after_ms = Some(length.as_millis());
    }

    /// The world of `seed`.
    #[must_use]
    pub fn scenario(&self, seed: u64) -> Scenario {
        let swarm = self.swarm(seed);
        let mut answers = Draw::new(seed, "replies");
        let endpoints = self.endpoints.iter().map(|(name, route)| EndpointPlan {
            path: path_of(name),
            ..match &route.script {
                Some(s) => EndpointPlan {
                    path: String::new(),
                    scripts: vec![s.replies.clone()],
                    then: s.then.clone(),
                    cost: None,
                },
                None => replies::plan_for(&mut answers, &swarm, String::new(), 2, route.may_hang),
            }
        });
        let format = scenario::Format::Stored;
        let text = WorkflowText {
            format,
            text: self.text.clone(),
            actions: None,
            builder: BTreeMap::new(),
        };
        Scenario {
            seed,
            topology: swarm.topology,
            lease: self.lease(seed),
            clocks: faults::clocks(seed, &swarm),
            workflows: vec![text],
            endpoints: endpoints.collect(),
            submissions: self.submissions(seed, &swarm),
            cancels: Vec::new(),
            deactivations: Vec::new(),
            interventions: Interventions::default(),
            faults: faults::schedule(seed, &swarm),
            heal_at: swarm.heal_at,
            places: None,
            attempt_timeout: None,
            quarantine_after: None,
            lane_idle: None,
            sync_takes: super::sync_takes(seed),
            missing_functions: Vec::new(),
            endpoints_heal: self.table.endpoints_heal.unwrap_or(true),
            secrets: swarm.secrets.clone(),
            priorities: super::task_order::priorities(seed),
            own: None,
            fork: None,
        }
    }

    /// Nodes sweep every third of a lease. If retries wait for hours, most events would be sweeps,
    /// so leases are longer then.
    fn lease(&self, seed: u64) -> Nanos {
        let drawn = Nanos::from_secs(Draw::new(seed, "lease").pick([1, 3, 30]));
        drawn.max(Nanos::new(self.patience.get() / 100))
    }

    /// Whether no fault can strike.
    #[must_use]
    pub fn is_fault_free(&self) -> bool {
        let scripted =
            |r: &Route| r.script.as_ref().is_some_and(|s| s.replies.iter().all(Reply::is_success));
        self.table.faults.as_ref().is_some_and(BTreeSet::is_empty)
            && self.endpoints.values().all(scripted)
    }

    pub(super) fn swarm(&self, seed: u64) -> Swarm {
        let mut swarm = Swarm::draw(seed);
        if let Some(nodes) = self.table.nodes {
            swarm.topology = Topology::of(nodes);
        }
        if let Some(kinds) = &self.table.faults {
            swarm.kinds = swarm.kinds.intersection(kinds).copied().collect();
        }
        if let Some(heal) = self.table.heal_after_ms {
            swarm.heal_at = Mono::from_nanos(Nanos::from_millis(heal).get());
        }
        swarm
    }

    fn submissions(&self, seed: u64, swarm: &Swarm) -> Vec<Submission> {
        let mut draw = Draw::new(seed, "submissions");
        let count = self.table.runs.unwrap_or_else(|| draw.pick([1, 1, 2, 4]));
        let half = Mono::from_nanos(swarm.heal_at.as_nanos() / 2);
        let one = |_| Submission {
            at: draw.instant(half),
            node: draw.small(0, swarm.topology.nodes() - 1),
            workflow: 0,
            input: serde_json::Map::new(),
            key: None,
        };
        (0..count).map(one).collect()
    }
}

/// The `[simulate]` table of a file that has one.
fn table(file: &str, text: &str, workflow: &Workflow) -> Result<Table, Diagnostic> {
    let format = Format::from_extension(file).unwrap_or(Format::Toml);
    let top = Node::parse(file, text, format)?;
    let found = top.entries()?.iter().find(|entry| entry.key == "simulate");
    found.map_or_else(|| Ok(Table::default()), |entry| Table::read(&entry.node, workflow))
}

fn routes(workflow: &Workflow, table: &Table) -> BTreeMap<String, Route> {
    let may_hang = |action: &str| {
        let mut steps = workflow.steps().iter().filter(|s| s.action == action);
        // A webhook's policy has no such limits.
        let is_webhook = |a: &Action| a.webhook.as_ref().is_some_and(|w| w.name() == action);
        !workflow.actions().values().any(is_webhook)
            && steps.all(|s| s.policy.attempt_timeout().or(s.policy.total_timeout()).is_some())
    };
    let route = |name: &String| Route {
        may_hang: may_hang(name),
        script: table.endpoints.get(name).cloned(),
    };
    workflow.actions().keys().map(|name| (name.clone(), route(name))).collect()
}

/// The path of an action's scripted endpoint: its name.
fn path_of(action: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let encoded = action.bytes().map(|b| match plain(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    });
    format!("/{}", encoded.collect::<String>())
}

/// Whether the action is an endpoint of one of these hosts.
fn is_at(action: &Action, services: &BTreeSet<String>) -> bool {
    let Target::Http(endpoint) = &action.target else { return false };
    let url = endpoint.url.parse::<Url>();
    url.is_ok_and(|url| services.contains(&url.authority().host))
}

/// The same workflow with each action's URL led to the simulated endpoints, unless it is one of
/// `services`.
fn lead_to_simulation(workflow: Workflow, services: &BTreeSet<String>) -> WorkflowParts {
    let mut parts = WorkflowParts::from(workflow);
    for (name, action) in &mut parts.actions {
        if is_at(action, services) {
            continue;
        }
        if let Target::Http(endpoint) = &mut action.target {
            endpoint.url = format!("http://{ENDPOINT_HOST}{}", path_of(name));
        }
    }
    let led = parts.actions.clone();
    for webhook in parts.actions.values_mut().filter_map(|action| action.webhook.as_mut()) {
        if let Some(action) = led.get(webhook.name()) {
            let (name, policy) = (webhook.name().to_owned(), webhook.policy().clone());
            *webhook = Webhook::new(name, action.clone(), policy, webhook.origin());
        }
    }
    parts
}
