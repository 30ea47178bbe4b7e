//! A text about policies: a table, IR brackets or program, a preset's name or a workflow file.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use super::file::{Declarations, document};
use super::tree::{Format, Node};
use super::{Diagnostic, Diagnostics, Environment, Place, Source, ir, policy, preset};
use crate::policy::{Dialect, Origin, Policy, Preset};
use crate::workflow::Action;

/// A policy and the step that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Named {
    /// The step; `None` for a policy that stands alone.
    pub step: Option<String>,
    /// Where it came from.
    pub origin: Origin,
    /// The policy.
    pub policy: Policy,
    /// The declaration of the step's action, if there is one. Steps with the same action share it.
    pub action: Option<Arc<Action>>,
    /// Whether the step fans out: many tasks under one policy.
    pub fans_out: bool,
    /// Where the policy stands; where the step does, when it has none of its own.
    pub place: Place,
}

/// What a text about policies holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policies {
    /// One policy alone.
    One(Policy),
    /// A policy for each step of a workflow.
    Steps {
        /// The workflow's name.
        workflow: String,
        /// The steps' policies in text order.
        steps: Vec<Named>,
    },
}

/// Parses a policy's text, called `file` in messages: a dialect's table in TOML or JSON, bare or
/// under its key, IR brackets, the name of a preset, an IR program, or a whole workflow file. Without
/// `dialect` it is detected from the text.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse_policy(
    file: &str,
    text: &str,
    dialect: Option<Dialect>,
    environment: &Environment,
) -> Result<Policies, Diagnostics> {
    policies(file, text, dialect, environment).map_err(|found| match program(file, text) {
        Some(program) => program.into(),
        None => found,
    })
}

/// Calls in which the source documents give a policy in Python, and what to write instead.
const PYTHON: [(&str, &str); 2] = [
    (
        "RetryPolicy(",
        "write it in brackets, such as [NetworkError -> retry: 2, backoff: 60s] [timeout: 2m], where `retry` does not count the first try",
    ),
    (
        "RetryConfig(",
        "write its fields as TOML or JSON, such as retry_config = { max_attempts = 5, initial_delay = 2.0 }",
    ),
];

/// What is wrong with a text that is a program in Python.
fn program(file: &str, text: &str) -> Option<Diagnostic> {
    let (at, call, help) =
        PYTHON.iter().find_map(|(call, help)| Some((text.find(call)?, call, help)))?;
    let place = Place::whole(&Source::new(file, text)).at(at..at + call.len() - 1);
    Some(place.error("a policy in Python is not read").help_with(*help))
}

fn policies(
    file: &str,
    text: &str,
    dialect: Option<Dialect>,
    environment: &Environment,
) -> Result<Policies, Diagnostics> {
    let name = text.trim().trim_matches('"');
    match dialect {
        Some(Dialect::Preset) if !text.contains(['=', ':']) => {
            let place = Place::whole(&Source::new(file, text));
            let preset = preset::named(&place, name)?;
            Ok(Policies::One(preset.policy()))
        }
        None if Preset::named(name).is_some() => {
            Ok(Policies::One(Preset::named(name).unwrap_or(Preset::None).policy()))
        }
        Some(Dialect::Ir) => ir_text(file, text, environment),
        None if looks_like_ir(text) => ir_text(file, text, environment),
        _ => {
            let format = Format::from_extension(file).unwrap_or_else(|| Format::of_text(text));
            let top = Node::parse(file, text, format)?;
            if dialect.is_none() && top.has("steps") {
                return document(&top, environment).map(Policies::of);
            }
            policy::tree(&top, dialect).map(Policies::One)
        }
    }
}

/// Reads one policy in any dialect, as [`parse_policy`] does.
impl FromStr for Policy {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<Self, Diagnostics> {
        match parse_policy("policy", text, None, &Environment::default())? {
            Policies::One(policy) => Ok(policy),
            Policies::Steps { .. } => {
                let place = Place::whole(&Source::new("policy", text));
                let error = place.error("this is a whole workflow, not one policy");
                Err(error.help_with("give the policy of one step").into())
            }
        }
    }
}

impl Policies {
    /// The policies of a workflow's steps.
    #[must_use]
    pub fn of(document: super::Document) -> Self {
        let workflow = document.workflow;
        let shared = |(name, action): (&String, &Action)| (name.clone(), Arc::new(action.clone()));
        let actions: BTreeMap<String, Arc<Action>> =
            workflow.actions().iter().map(shared).collect();
        let steps = workflow.steps().iter().zip(document.policies).map(|(s, place)| Named {
            step: Some(s.id.clone()),
            origin: s.origin,
            policy: s.policy.clone(),
            action: actions.get(&s.action).cloned(),
            fans_out: s.for_each.is_some(),
            place,
        });
        Policies::Steps { workflow: workflow.name().to_owned(), steps: steps.collect() }
    }
}

/// Whether the first line that says anything is a call or a bracket with a colon or an arrow.
#[must_use]
pub fn looks_like_ir(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    let Some(first) = lines.into_iter().find(|l| !l.is_empty() && !l.starts_with('#')) else {
        return false;
    };
    let called = first.split_once('=').is_some_and(|(_, rest)| rest.trim_start().starts_with('@'));
    // `[retry: 3]` is a bracket, `[work_config]` the head of a TOML table.
    let bracket = first.starts_with('[') && (first.contains(':') || first.contains("->"));
    first.starts_with('@') || called || bracket
}

fn ir_text(file: &str, text: &str, environment: &Environment) -> Result<Policies, Diagnostics> {
    // Brackets may name an error with an `@` in it; no program begins with a bracket.
    let begins_with_bracket = text.trim_start().starts_with('[');
    let calls = || text.lines().any(|l| l.split('#').next().unwrap_or_default().contains('@'));
    if !begins_with_bracket && calls() {
        let declared = Declarations::default();
        return ir::parse_ir_program(file, text, &declared, environment).map(Policies::of);
    }
    let place = Place::whole(&Source::new(file, text));
    ir::brackets(&place, text).map(Policies::One).map_err(Diagnostics::from)
}
