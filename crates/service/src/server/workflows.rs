//! `/v1/workflows`: definitions that are uploaded once and submitted by name.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::definitions::{self, DefinitionText, Syntax};
use super::extract::{NamePath, QueryParameters, media_type, parse};
use super::json::ok;
use super::problem::{Kind, Problem};
use super::service::{ServiceState, SharedState};
use retrial::engine::World;
use retrial::failure::sanitise::clean;
use retrial::store::{Definition, Store, StoreError, StoredDefinition};
use retrial::workflow::Workflow;

/// The most definitions in a store.
const MOST: usize = 1_000;
/// Definitions read in one page.
const PAGE: usize = 64;

/// The media types of definitions.
const TYPES: [(&str, Syntax); 3] = [
    ("application/toml", Syntax::Toml),
    ("application/json", Syntax::Json),
    ("text/plain", Syntax::Ir),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    definition: String,
    format: String,
    name: Option<String>,
    actions: Option<String>,
}

pub(super) async fn put<W: World>(
    State(service): State<SharedState<W>>,
    NamePath(name): NamePath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let kind = media_type(&headers);
    let syntax = TYPES.iter().find(|(name, _)| Some(*name) == kind).map(|(_, syntax)| *syntax);
    let syntax = syntax.ok_or_else(|| {
        let names = TYPES.map(|(name, _)| name).join(", ");
        Problem::new(
            Kind::MediaType,
            format!("the definition's media type is not supported; send one of {names}"),
        )
    })?;
    let bytes = service.body(body).await?;
    let format = syntax.name().to_owned();
    let definition = Definition { name: name.clone(), format, text: bytes };
    let checked = service.away(move |settings| {
        let text = std::str::from_utf8(&definition.text)
            .map_err(|_| Problem::invalid("the definition is not valid UTF-8"))?;
        let text = DefinitionText { name: &definition.name, syntax, text, actions: None };
        let document = text
            .bounded()?
            .read_as(settings)
            .map_err(|found| definitions::invalid_definition(&found))?;
        Ok((definitions::findings(document), definition))
    });
    let (lint, definition) = checked.await?;
    service.check_definition_count(&name).await?;
    let defined = service.engine.store().define(definition).await?;
    Ok(ok(&json!({
        "name": clean(&name),
        "revision": defined.revision,
        "at": defined.at.to_string(),
        "lint": lint,
    })))
}

pub(super) async fn validate<W: World>(
    State(service): State<SharedState<W>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = service.json_body(&headers, body).await?;
    let validated = service.away(move |settings| {
        let written: Written = parse(&body)?;
        let text = DefinitionText {
            name: written.name.as_deref().unwrap_or("workflow"),
            syntax: Syntax::named(&written.format)?,
            text: &written.definition,
            actions: written.actions.as_deref(),
        };
        Ok(match text.bounded()?.read(settings) {
            Ok(document) => {
                json!({ "valid": true, "diagnostics": [], "lint": definitions::findings(document) })
            }
            Err(found) => {
                json!({ "valid": false, "diagnostics": definitions::diagnostics_json(&found), "lint": [] })
            }
        })
    });
    Ok(ok(&validated.await?))
}

pub(super) async fn list<W: World>(
    State(service): State<SharedState<W>>,
    mut asked: QueryParameters,
) -> Result<Response, Problem> {
    let limit = asked.limit(service.settings.limits.page.min(PAGE))?;
    let after = asked.take("after");
    asked.end()?;
    let page = service.engine.store().definitions(after, limit).await?;
    let next = page.last().filter(|_| page.len() >= limit);
    Ok(ok(&json!({
        "workflows": page.iter().map(head).collect::<Vec<_>>(),
        "next": next.map(|last| last.definition.name.clone()),
    })))
}

pub(super) async fn show<W: World>(
    State(service): State<SharedState<W>>,
    NamePath(name): NamePath,
) -> Result<Response, Problem> {
    let stored = service.stored(&name).await?;
    let shown = service.away(move |_| {
        let mut shown = head(&stored);
        let masked = text(&stored.definition)?.masked();
        shown["text"] = masked.unwrap_or_default().into();
        Ok(shown)
    });
    Ok(ok(&shown.await?))
}

fn head(stored: &StoredDefinition) -> Value {
    json!({
        "name": clean(&stored.definition.name),
        "format": clean(&stored.definition.format),
        "revision": stored.revision,
        "at": stored.at.to_string(),
        "bytes": stored.definition.text.len(),
    })
}

/// A stored definition as text.
fn text(definition: &Definition) -> Result<DefinitionText<'_>, StoreError> {
    let Definition { name, format, text } = definition;
    let damaged = || StoreError::Broken(format!("the definition `{name}`"));
    let syntax = Syntax::named(format).map_err(|_| damaged())?;
    let text = std::str::from_utf8(text).map_err(|_| damaged())?;
    Ok(DefinitionText { name, syntax, text, actions: None })
}

impl<W: World> ServiceState<W> {
    async fn stored(&self, name: &str) -> Result<StoredDefinition, Problem> {
        let stored = self.engine.store().definition(name.to_owned()).await?;
        stored.ok_or_else(|| Problem::not_found(format!("no workflow `{name}` is uploaded")))
    }

    /// The newest definition of a name, checked against the current settings.
    pub(super) async fn named(self: &Arc<Self>, name: &str) -> Result<Workflow, Problem> {
        let stored = self.stored(name).await?;
        let read = self.away(move |settings| {
            let read = text(&stored.definition)?.read_as(settings);
            read.map(|document| document.workflow)
                .map_err(|found| definitions::invalid_definition(&found))
        });
        read.await
    }

    /// Fails if the name is new and the store has the most definitions.
    async fn check_definition_count(&self, name: &str) -> Result<(), Problem> {
        let store = self.engine.store();
        if store.definition(name.to_owned()).await?.is_some() {
            return Ok(());
        }
        let (mut count, mut after) = (0, None);
        loop {
            let page = store.definitions(after, PAGE).await?;
            count += page.len();
            let Some(last) = page.into_iter().next_back() else { return Ok(()) };
            after = Some(last.definition.name);
            if count >= MOST {
                let detail = format!(
                    "the store holds {MOST} workflows, which is the limit; replace one of them"
                );
                return Err(Problem::new(Kind::Conflict, detail));
            }
        }
    }
}
