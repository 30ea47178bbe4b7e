//! Parses uploaded definitions and checks them against the service's settings.

use std::sync::Arc;

use serde_json::{Value, json};

use super::problem::{Kind, Problem};
use super::{Settings, masking};
use retrial::dialect::{
    Declarations, Diagnostic, Document, Format, Place, Policies, Source, parse_actions,
    parse_ir_program, parse_workflow,
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
    pub(super) fn read(&self, settings: &Settings) -> Result<Document, Vec<Diagnostic>> {
        let (document, source) = self.parse(settings)?;
        let mut wrong: Vec<Diagnostic> = document
            .registered
            .iter()
            .filter(|function| !settings.functions.has(&function.name))
            .map(|function| function.missing.clone())
            .collect();
        for (name, action) in document.workflow.actions() {
            wrong.extend(forbidden(name, action, &source, settings));
        }
        if wrong.is_empty() { Ok(document) } else { Err(wrong) }
    }

    /// The same, if the workflow has this text's name: runs of an uploaded workflow must show the
    /// name that it was uploaded under.
    pub(super) fn read_as(&self, settings: &Settings) -> Result<Document, Vec<Diagnostic>> {
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
        Err(vec![wrong])
    }

    /// The text with secrets masked; `None` if it is not valid any more.
    pub(super) fn masked(&self, settings: &Settings) -> Option<String> {
        let (document, _) = self.parse(settings).ok()?;
        Some(masking::masked(self.text, &document.workflow))
    }

    /// The document, and the text that its actions are declared in.
    fn parse(&self, settings: &Settings) -> Result<(Document, Arc<Source>), Vec<Diagnostic>> {
        let environment = &settings.environment;
        let own = || Source::new(self.name, self.text);
        let format = match self.syntax {
            Syntax::Toml => Format::Toml,
            Syntax::Json => Format::Json,
            Syntax::Ir => {
                let (declared, source) = match self.actions {
                    Some(text) => {
                        let format = Format::of_text(text);
                        (parse_actions("actions", text, format)?, Source::new("actions", text))
                    }
                    None => (Declarations::default(), own()),
                };
                // The parser removes an extension from the name.
                let file = format!("{}.ir", self.name);
                let document = parse_ir_program(&file, self.text, &declared, environment)?;
                return Ok((document, source));
            }
        };
        Ok((parse_workflow(self.name, self.text, format, environment)?, own()))
    }
}

/// What `action` uses that the settings forbid. Its webhook is a separate action.
fn forbidden(
    name: &str,
    action: &Action,
    source: &Arc<Source>,
    settings: &Settings,
) -> Vec<Diagnostic> {
    let Target::Http(endpoint) = &action.target else { return Vec::new() };
    let at = |field: &str, written: &str| {
        let whole = Place::whole(source).child(format!("actions.{name}.{field}"));
        match source.text.find(written) {
            Some(start) => whole.at(start..start + written.len()),
            None => whole,
        }
    };
    let to = endpoint.url.parse::<Url>().ok();
    let to = to.as_ref().map(Url::authority);
    let mut wrong = Vec::new();
    for (header, text) in &endpoint.headers {
        let field = format!("headers.{header}");
        match text {
            HeaderText::Env(variable) if !settings.allow_env.contains_key(variable) => wrong.push(
                at(&field, &format!("env:{variable}"))
                    .error(format!("definitions may not use the variable `{variable}`"))
                    .help_with("ask the service's operator to add it to allow_env, with the host"),
            ),
            HeaderText::Env(variable) if !settings.may_have(variable, to) => wrong.push(
                at(&field, &format!("env:{variable}"))
                    .error(format!("the variable `{variable}` may not be sent to this host"))
                    .help_with("ask the service's operator to add it to allow_env, with the host"),
            ),
            HeaderText::Literal(value) if value.contains(MASK) => wrong.push(
                at(&field, value)
                    .error(
                        "the value is masked: the service masked it when it showed the definition",
                    )
                    .help_with("write the real value, or env:NAME"),
            ),
            HeaderText::Env(_) | HeaderText::Literal(_) => {}
        }
    }
    let allowed = settings.hosts.as_ref().zip(to).is_none_or(|(hosts, to)| hosts.may_allow(to));
    if !allowed {
        wrong.push(
            at("http", &endpoint.url)
                .error("actions may not call this host")
                .help_with("ask the service's operator to add it to allow_hosts"),
        );
    }
    wrong
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
    diagnostics_json(&all.iter().flat_map(of).collect::<Vec<_>>())
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
