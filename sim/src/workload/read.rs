//! Reads a scenario's workflows as the program that submits them would.

use retrial::dialect::{self, Environment};
use retrial::policy::Policy;
use retrial::workflow::{Workflow, WorkflowParts};

use crate::scenario::{Format, WorkflowText};

/// The workflow that a text means, with the policies that were built in Rust. `place` is its place
/// in its scenario.
///
/// # Errors
/// Why the text makes no sense.
pub fn workflow(place: usize, drawn: &WorkflowText) -> Result<Workflow, String> {
    let mut parts = WorkflowParts::from(read(place, drawn)?);
    for step in &mut parts.steps {
        if let Some(built) = drawn.builder.get(&step.id) {
            step.policy = Policy::try_from(built.clone()).map_err(|e| e.to_string())?;
        }
    }
    Workflow::try_from(parts).map_err(|e| e.to_string())
}

fn read(place: usize, drawn: &WorkflowText) -> Result<Workflow, String> {
    let (text, environment) = (drawn.text.as_str(), Environment::default());
    let document = match drawn.format {
        Format::Stored => return serde_json::from_str(text).map_err(|e| e.to_string()),
        Format::Toml => dialect::parse_workflow("drawn", text, dialect::Format::Toml, &environment),
        Format::Json => dialect::parse_workflow("drawn", text, dialect::Format::Json, &environment),
        Format::Ir => {
            let actions = drawn.actions.as_deref().unwrap_or_default();
            dialect::parse_actions("actions", actions, dialect::Format::Toml).and_then(|declared| {
                let file = format!("w{place}.ir");
                dialect::parse_ir_program(&file, text, &declared, &environment)
            })
        }
    };
    Ok(document.map_err(|errors| errors.to_string())?.workflow)
}
