//! A user's own workflow file in the simulated world: its endpoints become scripted ones, and its
//! `[simulate]` table bounds what is drawn.

use std::collections::{BTreeMap, BTreeSet};

use retrial::dialect::{self, Declarations, Diagnostic, Document, Environment, Format};
use retrial::time::{Mono, Nanos};
use retrial::workflow::{Parts, Target, Workflow};
use serde::Deserialize;

use super::{Draw, Swarm, faults, replies};
use crate::fault::FaultKind;
use crate::scenario::{
    self, ENDPOINT_HOST, EndpointPlan, Reply, Scenario, Submission, Topology, WorkflowText,
};

/// The most runs of one simulated world.
const MAX_RUNS: u32 = 100;

/// What a user's file says.
#[derive(Clone, Debug)]
pub struct UserPlan {
    /// The workflow, its endpoints led to the simulated ones, as stored JSON.
    text: String,
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

/// The `[simulate]` table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    /// Engines: 1 is one on its own store, 2 or 3 share one. Drawn where absent.
    nodes: Option<u32>,
    /// Runs submitted. Drawn from 1 to 4 where absent.
    runs: Option<u32>,
    /// The kinds of faults that may be drawn; all where absent, none where empty.
    faults: Option<BTreeSet<FaultKind>>,
    /// When everything heals, in milliseconds. Drawn from 2 s to 20 s where absent.
    heal_after_ms: Option<u64>,
    /// Whether endpoints answer well once healed.
    endpoints_heal: Option<bool>,
    /// What endpoints answer, by action; drawn where absent.
    endpoints: BTreeMap<String, Script>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    /// The replies to each task's attempts, in turn.
    #[serde(default)]
    replies: Vec<Reply>,
    /// The reply to all further ones.
    #[serde(default = "success")]
    then: Reply,
}

fn success() -> Reply {
    Reply::SuccessTrue
}

impl UserPlan {
    /// Reads a workflow file called `file`.
    ///
    /// # Errors
    /// Everything that is wrong with it, a line each, naming file, line and field.
    pub fn parse(file: &str, text: &str) -> Result<Self, String> {
        let environment = Environment::default();
        let read = match Format::from_extension(file) {
            Some(format) => dialect::parse_workflow(file, text, format, &environment),
            None => dialect::parse_ir_program(file, text, &Declarations::default(), &environment),
        };
        let Document { workflow, simulate, registered } = read.map_err(|e| lines(&e))?;
        if !registered.is_empty() {
            return Err(lines(&registered));
        }
        let about = |what: String| format!("{file}: simulate: {what}");
        let table = simulate.unwrap_or_else(|| serde_json::json!({}));
        let table: Table = serde_json::from_value(table).map_err(|e| about(e.to_string()))?;
        table.check(&workflow).map_err(about)?;
        let endpoints = routes(&workflow, &table);
        let led = lead_to_simulation(workflow);
        let text = serde_json::to_string(&led).map_err(|e| about(e.to_string()))?;
        Ok(Self { text, endpoints, table })
    }

    /// The world of `seed`.
    #[must_use]
    pub fn scenario(&self, seed: u64) -> Scenario {
        let swarm = self.swarm(seed);
        let mut answers = Draw::new(seed, "replies");
        let endpoints = self.endpoints.iter().map(|(name, route)| EndpointPlan {
            path: format!("/{name}"),
            ..match &route.script {
                Some(s) => EndpointPlan {
                    path: String::new(),
                    scripts: vec![s.replies.clone()],
                    then: s.then.clone(),
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
            lease: Nanos::from_secs(Draw::new(seed, "lease").pick([1, 3, 30])),
            clocks: faults::clocks(seed, &swarm),
            workflows: vec![text],
            endpoints: endpoints.collect(),
            submissions: self.submissions(seed, &swarm),
            cancels: Vec::new(),
            rests: Vec::new(),
            faults: faults::schedule(seed, &swarm),
            heal_at: swarm.heal_at,
            endpoints_heal: self.table.endpoints_heal.unwrap_or(true),
            secrets: swarm.secrets.clone(),
        }
    }

    /// Whether no fault can strike.
    #[must_use]
    pub fn is_fault_free(&self) -> bool {
        let scripted =
            |r: &Route| r.script.as_ref().is_some_and(|s| s.replies.iter().all(Reply::is_success));
        self.table.faults.as_ref().is_some_and(BTreeSet::is_empty)
            && self.endpoints.values().all(scripted)
    }

    fn swarm(&self, seed: u64) -> Swarm {
        let mut swarm = Swarm::draw(seed);
        if let Some(nodes) = self.table.nodes {
            swarm.topology =
                if nodes <= 1 { Topology::Embedded } else { Topology::Shared { nodes } };
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

impl Table {
    fn check(&self, workflow: &Workflow) -> Result<(), String> {
        if self.nodes.is_some_and(|n| !(1..=3).contains(&n)) {
            return Err("`nodes` must be 1, 2 or 3".to_owned());
        }
        if self.runs.is_some_and(|n| !(1..=MAX_RUNS).contains(&n)) {
            return Err(format!("`runs` must be 1 to {MAX_RUNS}"));
        }
        let known = workflow.actions();
        match self.endpoints.keys().find(|name| !known.contains_key(*name)) {
            Some(name) => Err(format!("endpoints.{name}: no action has this name")),
            None => Ok(()),
        }
    }
}

pub(super) fn lines(diagnostics: &[Diagnostic]) -> String {
    let each: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    each.join("\n")
}

fn routes(workflow: &Workflow, table: &Table) -> BTreeMap<String, Route> {
    let may_hang = |action: &str| {
        let mut steps = workflow.steps().iter().filter(|s| s.action == action);
        steps.all(|s| s.policy.attempt_timeout().or(s.policy.total_timeout()).is_some())
    };
    let route = |name: &String| Route {
        may_hang: may_hang(name),
        script: table.endpoints.get(name).cloned(),
    };
    workflow.actions().keys().map(|name| (name.clone(), route(name))).collect()
}

/// The same workflow with each action's URL led to the simulated endpoints.
fn lead_to_simulation(workflow: Workflow) -> Parts {
    let mut parts = Parts::from(workflow);
    for (name, action) in &mut parts.actions {
        if let Target::Http(endpoint) = &mut action.target {
            endpoint.url = format!("http://{ENDPOINT_HOST}/{name}");
        }
    }
    parts
}
