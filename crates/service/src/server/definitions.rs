//! Parses uploaded definitions and checks them against the service's settings.

use serde_json::{Value, json};

use super::Settings;
use super::problem::{Kind, Problem};
use retrial::dialect::{
    Declarations, Diagnostic, Diagnostics, Document, EndpointPlace, Format, Place, Policies,
    Source, masked_program, masked_workflow, parse_actions, parse_ir_program, parse_workflow,
};
use retrial::explain::{Explained, Explanation, explain_all};
use retrial::failure::sanitise::MASK;
use retrial::failure::sanitise::clean;
use retrial::net::Url;
use retrial::policy;
use retrial::workflow::{Action, HeaderText, Target};

/// The syntax of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Toml,
    Json,
    Ir,
}

impl Syntax {
    pub(super) const ALL: [(&str, Self); 3] =
        [("toml", Self::Toml), ("json", Self::Json), ("ir", Self::Ir)];

    /// Its name in stores and requests.
    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    pub(super) fn named(name: &str) -> Result<Self, Problem> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, syntax)| *syntax)
            .ok_or_else(|| Problem::bad_request("the format is unknown; use toml, json or ir"))
    }
}

/// A definition as text.
pub(super) struct DefinitionText<'t> {
    /// Its name in diagnostics, and the name of an IR program's workflow.
    pub(super) name: &'t str,
    pub(super) syntax: Syntax,
    pub(super) text: &'t str,
    /// The actions of an IR program, TOML or JSON.
    pub(super) actions: Option<&'t str>,
}

/// The most diagnostics or lint findings about a definition.
const MOST: usize = 100;

/// The most bytes of a definition.
const MAX_DEFINITION: usize = 256 * 1024;

impl DefinitionText<'_> {
    /// Fails if the text is too long.
    pub(super) fn bounded(self) -> Result<Self, Problem> {
        match self.text.len().max(self.actions.map_or(0, str::len)) {
            0..=MAX_DEFINITION => Ok(self),
            _ => {
                let detail =
                    format!("the definition is longer than {MAX_DEFINITION} bytes; shorten it");
                Err(Problem::new(Kind::TooLarge, detail))
            }
        }
    }

    /// The workflow, if the text is valid and the settings allow all that it uses.
    pub(super) fn read(&self, settings: &Settings) -> Result<Document, Diagnostics> {
        let document = self.parse(settings)?;
        let mut wrong: Vec<Diagnostic> = document
            .registered
            .iter()
            .filter(|function| !settings.functions.has(&function.name))
            .map(|function| function.missing.clone())
            .collect();
        for (name, action) in document.workflow.actions() {
            let place = document.endpoints.get(name);
            wrong.extend(place.into_iter().flat_map(|place| forbidden(action, place, settings)));
        }
        wrong.truncate(MOST);
        if wrong.is_empty() { Ok(document) } else { Err(wrong.into()) }
    }

    /// The same, if the workflow has this text's name: runs of an uploaded workflow must show the
    /// name that it was uploaded under.
    pub(super) fn read_as(&self, settings: &Settings) -> Result<Document, Diagnostics> {
        let document = self.read(settings)?;
        let is = document.workflow.name();
        if is == self.name {
            return Ok(document);
        }
        let whole = Place::whole(&Source::new(self.name, self.text)).child("workflow");
        let place = match self.text.find(is) {
            Some(start) => whole.at(start..start + is.len()),
            None => whole,
        };
        let wrong = place
            .error(format!("the workflow is called `{is}` here and `{}` in the path", self.name))
            .help_with("use the same name in both");
        Err(wrong.into())
    }

    /// The text with every value masked that may be a secret; `None` if it can't be read any more.
    pub(super) fn masked(&self) -> Option<String> {
        match self.syntax {
            Syntax::Toml => masked_workflow(self.name, self.text, Format::Toml).ok(),
            Syntax::Json => masked_workflow(self.name, self.text, Format::Json).ok(),
            Syntax::Ir => masked_program(self.name, self.text).ok(),
        }
    }

    fn parse(&self, settings: &Settings) -> Result<Document, Diagnostics> {
        let environment = &settings.environment;
        let format = match self.syntax {
            Syntax::Toml => Format::Toml,
            Syntax::Json => Format::Json,
            Syntax::Ir => {
                let declared = match self.actions {
                    Some(text) => parse_actions("actions", text, Format::of_text(text))?,
                    None => Declarations::default(),
                };
                // The parser removes an extension from the name.
                let file = format!("{}.ir", self.name);
                return parse_ir_program(&file, self.text, &declared, environment);
            }
        };
        parse_workflow(self.name, self.text, format, environment)
    }
}

/// What `action`, whose endpoint stands at `place`, uses that the settings forbid. Its webhook is a
/// separate action.
fn forbidden(action: &Action, place: &EndpointPlace, settings: &Settings) -> Vec<Diagnostic> {
    let Target::Http(endpoint) = &action.target else { return Vec::new() };
    let to = endpoint.url.parse::<Url>().ok();
    let to = to.as_ref().map(Url::authority);
    let mut wrong = Vec::new();
    for (header, text) in &endpoint.headers {
        let place = place.headers.get(header).unwrap_or(&place.http);
        for part in text.parts() {
            let error = match part {
                HeaderText::Env(variable) if !settings.allow_env.contains_key(variable) => {
                    place.error(format!("definitions may not use the variable `{variable}`"))
                }
                HeaderText::Env(variable) if !settings.may_have(variable, to) => {
                    place.error(format!("the variable `{variable}` may not be sent to this host"))
                }
                HeaderText::Literal(value) if value.contains(MASK) => {
                    wrong.push(masked_value(place).help_with("write the real value, or env:NAME"));
                    continue;
                }
                _ => continue,
            };
            wrong.push(
                error.help_with("ask the service's operator to add it to allow_env, with the host"),
            );
        }
    }
    if endpoint.url.contains(MASK) {
        wrong.push(masked_value(&place.http).help_with("write the whole URL"));
    }
    let allowed = settings.hosts.as_ref().zip(to).is_none_or(|(hosts, to)| hosts.may_allow(to));
    if !allowed {
        wrong.push(
            place
                .http
                .error("actions may not call this host")
                .help_with("ask the service's operator to add it to allow_hosts"),
        );
    }
    wrong
}

fn masked_value(place: &Place) -> Diagnostic {
    place.error("the value is masked: the service masked it when it showed the definition")
}

/// The lint findings of a document's policies, as JSON.
pub(super) fn findings(document: Document) -> Value {
    let explained = explain_all(&Policies::of(document), Some(1), &policy::Functions::default());
    let all = match explained {
        Explained::One(one) => vec![*one],
        Explained::Steps { steps, .. } => steps,
    };
    let of = |one: &Explanation| {
        let place = one.step.as_ref().map(|named| named.place.clone());
        let place = place.unwrap_or_else(|| Place::whole(&Source::new("", "")));
        one.warnings.iter().map(|finding| finding.at(&place)).collect::<Vec<_>>()
    };
    diagnostics_json(&all.iter().flat_map(of).take(MOST).collect::<Vec<_>>())
}

/// Diagnostics as JSON.
pub(super) fn diagnostics_json(found: &[Diagnostic]) -> Value {
    let one = |d: &Diagnostic| {
        json!({
            "file": clean(d.file()),
            "line": d.line(),
            "column": d.column(),
            "field": clean(d.field()),
            "message": clean(d.message()),
            "help": d.help().map(clean),
        })
    };
    found.iter().map(one).collect()
}

/// The problem of an invalid definition, with its diagnostics.
pub(super) fn invalid_definition(found: &[Diagnostic]) -> Problem {
    let count = found.len();
    let detail = match found {
        [one] => format!("the definition is invalid: {}", one.message()),
        _ => format!("the definition is invalid: it has {count} problems"),
    };
    Problem::invalid(detail).with("diagnostics", diagnostics_json(found))
}
