//! The OpenAPI document: paths from the table of routes, schemas from `openapi/schemas.json`.

use axum::response::Response;
use serde_json::{Map, Value, json};

use super::json::ok;
use super::routes::{self, Answer, Parameter, Route};
use retrial::engine::World;

const SCHEMAS: &str = include_str!("openapi/schemas.json");

/// The answers that every route may give, beside its own.
const ANYWHERE: [(u16, Answer); 7] = [
    (400, Answer::Problem),
    (401, Answer::Problem),
    (403, Answer::Problem),
    (408, Answer::Problem),
    (414, Answer::Problem),
    (500, Answer::Problem),
    (503, Answer::Problem),
];

pub(super) async fn show<W: World>() -> Response {
    ok(&document::<W>())
}

fn document<W: World>() -> Value {
    let mut paths = Map::new();
    for (route, _) in routes::table::<W>() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation(&route);
    }
    let schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Retrial",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Submit runs of workflows, follow them and send them commands.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route) -> Value {
    let in_path = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(
            json!({ "in": "path", "name": name, "required": true, "schema": { "type": "string" } }),
        )
    });
    let taken = route.takes.iter().map(|(place, name, kind, what): &Parameter| {
        let schema = match *kind {
            "array" => json!({ "type": "array", "items": { "type": "string" } }),
            kind => json!({ "type": kind }),
        };
        json!({ "in": place, "name": name, "description": what, "schema": schema })
    });
    let answers: Map<String, Value> = route
        .answers
        .iter()
        .chain(&ANYWHERE)
        .map(|(status, answer)| (status.to_string(), response(*status, *answer)))
        .collect();
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": in_path.chain(taken).collect::<Vec<_>>(),
        "responses": answers,
    });
    if let Some(schema) = route.body {
        operation["requestBody"] = json!({ "content": { "application/json": schema_of(schema) } });
    }
    if let Some(role) = route.role {
        operation["security"] = json!([{ "token": [] }]);
        operation["x-role"] = role.to_string().into();
    }
    operation
}

fn schema_of(name: &str) -> Value {
    json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } })
}

fn response(status: u16, answer: Answer) -> Value {
    const STREAM: &str = "text/event-stream";
    let text = json!({ "schema": { "type": "string" } });
    let content = match answer {
        Answer::Json(schema) => json!({ "application/json": schema_of(schema) }),
        Answer::Stream => json!({ STREAM: text }),
        Answer::StreamOr(schema) => json!({ STREAM: text, "application/json": schema_of(schema) }),
        Answer::Text(kind) => json!({ kind: text }),
        Answer::Problem => json!({ "application/problem+json": schema_of("Problem") }),
    };
    let status = axum::http::StatusCode::from_u16(status).ok();
    let reason = status.and_then(|status| status.canonical_reason()).unwrap_or_default();
    json!({ "description": reason, "content": content })
}
