//! Reads the user's files and input: workflows, actions, `--input`.

use std::path::Path;
use std::sync::Arc;

use retrial::dialect::{
    Declarations, Diagnostic, Diagnostics, Document, Environment, Format, Place, Source,
    looks_like_ir, parse_actions, parse_ir_program, parse_workflow, tree,
};
use retrial::workflow::{HeaderText, Target, Workflow};
use serde_json::{Map, Value};

use super::Lookup;
use super::error::CliError;

/// The name that stands for standard input.
pub(super) const STDIN: &str = "-";

/// The text of the file at `path`, or of standard input.
pub(super) fn read(path: &str) -> Result<String, CliError> {
    let text = if path == STDIN {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|e| CliError::input(format!("`{path}` can't be read: {e}")))
}

/// The workflow in `file`: TOML or JSON by its extension, else IR text with its actions in
/// `actions`. Standard input has no extension: its text tells. Every action must be an HTTP endpoint, and the variables of its headers must be set:
/// the command line has no registered functions, and a missing variable is missing on every
/// attempt.
pub(super) fn workflow(
    file: &str,
    actions: Option<&str>,
    environment: &Environment,
    lookup: Lookup,
) -> Result<Document, CliError> {
    let text = read(file)?;
    let is_tree = file == STDIN && actions.is_none() && !looks_like_ir(&text);
    let format = Format::from_extension(file).or(is_tree.then(|| Format::of_text(&text)));
    let (document, declared_in) = match (format, actions) {
        (Some(format), None) => {
            (parse_workflow(file, &text, format, environment)?, Source::new(file, &text))
        }
        (Some(_), Some(_)) => {
            let message =
                format!("--actions is for IR text, and `{file}` declares its own actions");
            return Err(CliError::input(message).help("leave --actions out"));
        }
        (None, None) => {
            let declared = Declarations::default();
            (parse_ir_program(file, &text, &declared, environment)?, Source::new(file, &text))
        }
        (None, Some(path)) => {
            let source = Source::new(path, &read(path)?);
            let format = Format::from_extension(path).unwrap_or(Format::of_text(&source.text));
            let declared = parse_actions(path, &source.text, format)?;
            (parse_ir_program(file, &text, &declared, environment)?, source)
        }
    };
    if !document.registered.is_empty() {
        let wanted = document.registered.iter().map(|r| r.missing.clone());
        let wanted: Vec<_> = match format {
            Some(_) => wanted.collect(),
            None => wanted.map(|d| d.help_with(IR_ACTIONS)).collect(),
        };
        return Err(Diagnostics::from(wanted).into());
    }
    let unset = unset_variables(&document, &declared_in, lookup);
    if unset.is_empty() { Ok(document) } else { Err(Diagnostics::from(unset).into()) }
}

const IR_ACTIONS: &str =
    "declare it in a file given with --actions: [actions.NAME] http = \"POST http://...\"";

/// The headers written as `env:NAME` with a variable that is not set.
fn unset_variables(document: &Document, source: &Arc<Source>, lookup: Lookup) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, action) in document.workflow.actions() {
        let Target::Http(endpoint) = &action.target else { continue };
        for (header, text) in &endpoint.headers {
            for variable in text.variables().into_iter().filter(|v| lookup(v).is_none()) {
                let field = format!("actions.{name}.headers.{header}");
                found.push(unset(source, &field, variable));
            }
        }
    }
    found
}

fn unset(source: &Arc<Source>, field: &str, variable: &str) -> Diagnostic {
    let written = format!("env:{variable}");
    let whole = Place::whole(source).child(field);
    let place = match source.text.find(&written) {
        Some(at) => whole.at(at..at + written.len()),
        None => whole,
    };
    place
        .error(format!("the environment variable `{variable}` is not set"))
        .help_with(format!("set it: export {variable}=..."))
}

/// Fails unless every variable that a stored workflow's headers use is set.
pub(super) fn check_variables(workflow: &Workflow, lookup: Lookup) -> Result<(), CliError> {
    for (name, action) in workflow.actions() {
        let Target::Http(endpoint) = &action.target else { continue };
        let variables = endpoint.headers.values().flat_map(HeaderText::variables);
        if let Some(variable) = variables.into_iter().find(|variable| lookup(variable).is_none()) {
            let what = format!("the environment variable `{variable}` is not set");
            return Err(CliError::input(format!("{what}, and action `{name}` sends it"))
                .help(format!("set it: export {variable}=...")));
        }
    }
    Ok(())
}

/// The object that `--input` gives.
pub(super) fn input(text: Option<&str>) -> Result<Map<String, Value>, CliError> {
    let Some(text) = text else { return Ok(Map::new()) };
    let node = tree::Node::parse("--input", text, Format::Json)?;
    Ok(node.to_json_object()?)
}

/// Whether `text` can only have been meant as the path of a file.
pub(super) fn is_path(text: &str) -> bool {
    if text == STDIN {
        return true;
    }
    let is_plain = !text.contains(['\n', '[', '{', '=', '@', '"', ':']);
    let known = ["toml", "json", "ir"];
    let extension = Path::new(text).extension().and_then(|e| e.to_str());
    is_plain && (text.contains(['/', '\\']) || extension.is_some_and(|e| known.contains(&e)))
}
