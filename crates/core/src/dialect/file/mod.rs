//! The workflow file in TOML or JSON, and the file of actions beside an IR program.

mod action;
mod condition;
mod declarations;
mod guard;
mod header;
mod quorum;
mod step;
mod transition;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

pub(super) use action::KEYS as ACTION_KEYS;
pub(super) use declarations::Named;
pub use declarations::{Declarations, parse_actions};
pub use guard::{GUARD_KEYS, read_guards};
pub(super) use header::parts as header_parts;

pub(super) use step::KEYS as STEP_KEYS;

use super::tree::{Data, Fields, Format, Node, did_you_mean};
use super::{Diagnostic, Diagnostics, Environment, Errors, Place, brief};
use crate::workflow::{Rollback, Target, Transition, Workflow, WorkflowError, WorkflowParts};

/// A parsed workflow text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Document {
    /// The workflow.
    pub workflow: Workflow,
    /// The `[simulate]` table as it stands.
    pub simulate: Option<Value>,
    /// The actions of steps and webhooks that have no HTTP endpoint. A program must register these
    /// functions.
    pub registered: Vec<Registered>,
    /// Where each step's policy is in the text; for a step without one, where the step is.
    pub policies: Vec<Place>,
    /// Where each action that has an endpoint says so, and its headers, by the action's name.
    pub endpoints: BTreeMap<String, EndpointPlace>,
}

/// Where the parts of an HTTP endpoint stand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointPlace {
    /// Its method and URL.
    pub http: Place,
    /// The values of its headers by lower-case name.
    pub headers: BTreeMap<String, Place>,
}

/// An action that must be a registered function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// The function's name.
    pub name: String,
    /// The error to report where it is not registered.
    pub missing: Diagnostic,
}

impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.missing.fmt(f)
    }
}

/// Where the parts of a workflow stand, for what is found wrong with the whole graph.
#[derive(Clone, Debug)]
pub(super) struct Places<'n> {
    /// The list of steps, or the whole text.
    pub(super) steps: Place,
    /// Every step, in text order.
    pub(super) step: Vec<StepPlace<'n>>,
    /// Every transition, in text order.
    pub(super) transition: Vec<Place>,
    /// The actions that alerts are told to.
    pub(super) webhooks: Vec<Named>,
    /// The endpoints by the action's name.
    pub(super) endpoints: BTreeMap<String, EndpointPlace>,
}

/// Where the parts of a step stand, for what is found wrong with the whole graph.
#[derive(Clone, Debug)]
pub(super) struct StepPlace<'n> {
    /// Its id.
    pub(super) id: Place,
    /// Its dependencies, or its id.
    pub(super) after: Place,
    /// The name of its action.
    pub(super) action: Place,
    /// Its other keys that a graph may be refused for.
    pub(super) keys: Vec<(&'static str, Place)>,
    /// Its policy, or its id.
    pub(super) policy: Place,
    /// What may hold texts with a reference in them.
    pub(super) texts: Vec<&'n Node>,
}

const KEYS: [&str; 9] = [
    "workflow",
    "input",
    "actions",
    "defaults",
    "steps",
    "transitions",
    "rollback",
    "search",
    "simulate",
];

const ROLLBACKS: [(&str, Rollback); 4] = [
    ("never", Rollback::Never),
    ("on_failure", Rollback::OnFailure),
    ("on_cancel", Rollback::OnCancel),
    ("always", Rollback::Always),
];

/// Parses a workflow file, called `file` in messages.
///
/// # Errors
/// Everything that is wrong with it, in text order.
pub fn parse_workflow(
    file: &str,
    text: &str,
    format: Format,
    environment: &Environment,
) -> Result<Document, Diagnostics> {
    let top = Node::parse(file, text, format)?;
    document(&top, environment)
}

/// Reads a workflow from a tree.
pub(super) fn document(top: &Node, environment: &Environment) -> Result<Document, Diagnostics> {
    let mut errors = Errors::default();
    let fields = errors.fields(top, &KEYS)?;
    let name = errors.keep(name(&fields)).unwrap_or_default();
    let rollback = fields.get("rollback").map(|n| n.choice(&ROLLBACKS)).transpose();
    let rollback = errors.keep(rollback).flatten().unwrap_or_default();
    let declared = Declarations::read(&fields, &mut errors);
    let ids = step::Ids::read(&fields, &mut errors);
    let (steps, places) = step::read(&fields, &ids, &declared, environment, &mut errors);
    let (transitions, edges) = transition::read(&fields, &ids, &mut errors);
    errors.or(())?;
    let actions = declared.actions_in(environment);
    let whole = fields.get("steps").map_or(&top.place, |n| &n.place).clone();
    let webhooks = declared.webhooks().cloned().collect();
    let Declarations { input, search, simulate, endpoints, .. } = declared;
    let places = Places { steps: whole, step: places, transition: edges, webhooks, endpoints };
    assemble(
        WorkflowParts { name, input, actions, steps, transitions, rollback, search },
        places,
        simulate,
    )
}

fn name(fields: &Fields<'_>) -> Result<String, Diagnostic> {
    let name = fields.require("workflow", "give the workflow a name")?;
    let text = name.name()?;
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
    if text.chars().all(is_plain) && !text.starts_with('.') && text.chars().count() <= 100 {
        return Ok(text.to_owned());
    }
    Err(name
        .place
        .error(format!("{:?} is not a name", brief(text)))
        .help_with("use up to 100 letters, digits, spaces, `_`, `-` and `.`, no dot first"))
}

/// Checks the graph and points at the text where it makes no sense.
pub(super) fn assemble(
    parts: WorkflowParts,
    places: Places<'_>,
    simulate: Option<Value>,
) -> Result<Document, Diagnostics> {
    let ids = parts.steps.iter().map(|s| s.id.clone()).collect();
    let id = |at: usize| parts.steps.get(at).map(|s| s.id.clone()).unwrap_or_default();
    let edge = |t: &Transition| (id(t.from.index()), id(t.to.index()));
    let edges = parts.transitions.iter().map(edge).collect();
    let graph = Graph { ids, edges, places: &places };
    let workflow = Workflow::try_from(parts).map_err(|e| graph.locate(&e))?;
    places.check_sendable(&workflow)?;
    let is_http = |action: &str| {
        workflow.actions().get(action).is_some_and(|a| matches!(a.target, Target::Http(_)))
    };
    let steps = workflow.steps().iter().zip(&places.step);
    let steps = steps.map(|(step, place)| (step.action.as_str(), &place.action));
    let webhooks = places.webhooks.iter().map(|named| (named.name.as_str(), &named.place));
    let registered = steps
        .chain(webhooks)
        .filter(|(action, _)| !is_http(action))
        .map(|(action, place)| Registered {
            name: action.to_owned(),
            missing: unregistered(action, place),
        })
        .collect();
    let policies = places.step.iter().map(|p| p.policy.clone()).collect();
    Ok(Document { workflow, simulate, registered, policies, endpoints: places.endpoints })
}

fn unregistered(action: &str, place: &Place) -> Diagnostic {
    place
        .error(format!(
            "action `{action}` has no HTTP endpoint, and no function of that name is registered"
        ))
        .help_with(format!("declare it: [actions.{action}] http = \"POST http://...\""))
}

/// A graph that was refused, and where its parts stand.
struct Graph<'p> {
    ids: Vec<String>,
    /// The ends of each transition.
    edges: Vec<(String, String)>,
    places: &'p Places<'p>,
}

impl Graph<'_> {
    fn locate(&self, error: &WorkflowError) -> Diagnostic {
        let step = |n: &usize| self.places.step.get(*n);
        let place = match error {
            WorkflowError::NoSteps { .. }
            | WorkflowError::InputNoObject
            | WorkflowError::BadSearch(_)
            | WorkflowError::BadTemplate { .. }
            | WorkflowError::TooManySteps { .. }
            | WorkflowError::PoliciesTooLarge { .. }
            | WorkflowError::UnknownStep { .. } => None,
            WorkflowError::DuplicateStep { step: n, .. } => step(n).map(|p| &p.id),
            WorkflowError::Cycle { step: n, path } => {
                self.edge_of(path).or_else(|| step(n).map(|p| &p.after))
            }
            WorkflowError::CompensatesCompensation { step: n, .. }
            | WorkflowError::CompensatedTwice { step: n, .. }
            | WorkflowError::CompensationInFlow { step: n, .. } => {
                step(n).map(|p| p.key("compensates"))
            }
            WorkflowError::LoneSuccess { step: n, .. } => step(n).map(|p| p.key("success")),
            WorkflowError::JoinTooLarge { step: n, .. } => step(n).map(|p| p.key("join")),
            WorkflowError::UnknownReference { step: n, reference, .. }
            | WorkflowError::NotBefore { step: n, reference, .. } => {
                step(n).map(|p| p.text_with(reference))
            }
        };
        let diagnostic = place.unwrap_or(&self.places.steps).refuse(error);
        match error {
            WorkflowError::UnknownReference { reference, .. } => {
                let named = reference.split('.').nth(1).unwrap_or_default();
                let ids = self.ids.iter().map(String::as_str);
                diagnostic.help_with(did_you_mean(named, ids))
            }
            _ => diagnostic,
        }
    }

    /// The first transition along the cycle, if any edge of it is one.
    fn edge_of(&self, cycle: &[String]) -> Option<&Place> {
        let on: BTreeSet<_> = cycle.windows(2).map(|pair| (&pair[0], &pair[1])).collect();
        let at = self.edges.iter().position(|(from, to)| on.contains(&(from, to)))?;
        self.places.transition.get(at)
    }
}

impl Places<'_> {
    /// The arguments that the requests of HTTP actions can't carry.
    fn check_sendable(&self, workflow: &Workflow) -> Result<(), Diagnostics> {
        let mut errors = Errors::default();
        for (step, place) in workflow.steps().iter().zip(&self.step) {
            let target = workflow.actions().get(&step.action).map(|a| &a.target);
            let Some(Target::Http(endpoint)) = target else { continue };
            if let Err(error) = endpoint.check(step.args.raw()) {
                errors.push(place.argument(&error.argument).refuse(&error));
            }
        }
        errors.or(())
    }
}

impl StepPlace<'_> {
    /// Where an argument stands, or what stands for all of them.
    fn argument(&self, name: &str) -> &Place {
        let first = name.split('.').next().unwrap_or_default();
        let args = self.texts.iter().filter_map(|node| node.entries().ok());
        let found = args.flatten().find(|e| e.key == name || e.key == first);
        found.map_or(&self.action, |entry| &entry.node.place)
    }

    /// All of it in one place.
    pub(super) fn at(place: &Place) -> Self {
        let [id, after, policy, action] = [(); 4].map(|()| place.clone());
        Self { id, after, policy, action, keys: Vec::new(), texts: Vec::new() }
    }

    fn key(&self, name: &str) -> &Place {
        self.keys.iter().find(|(key, _)| *key == name).map_or(&self.id, |(_, place)| place)
    }

    fn text_with(&self, reference: &str) -> &Place {
        let found = self.texts.iter().find_map(|node| text_with(node, reference));
        found.unwrap_or(&self.id)
    }
}

/// The first text below `node` with `reference` in it.
fn text_with<'n>(node: &'n Node, reference: &str) -> Option<&'n Place> {
    match &node.data {
        Data::Text(text) => text.contains(reference).then_some(&node.place),
        Data::List(items) => items.iter().find_map(|n| text_with(n, reference)),
        Data::Table(entries) => entries.iter().find_map(|e| text_with(&e.node, reference)),
        _ => None,
    }
}
