//! The OpenAPI document and the routes are the same, both ways.

use serde_json::{Value, json};

use super::contract::faults;
use super::kit::serve;

/// Each operation of the document: method and path.
fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, methods): (&String, &Value)| {
        let methods: Vec<_> = methods.as_object().unwrap().keys().cloned().collect();
        methods.into_iter().map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

fn filled(path: &str) -> String {
    let run = "00000000-0000-4000-8000-000000000000";
    path.replace("{run}", run).replace("{step}", "0").replace("{item}", "0").replace("{name}", "n")
}

/// A path that no route has and a method that no route has are answered differently from what a
/// route says by their titles.
#[tokio::test]
async fn every_operation_is_answered() {
    let served = serve().await;
    let document = served.client.get("/openapi.json").await.expect(200);
    let all = operations(&document);
    assert!(all.len() >= 25, "{all:?}");
    for (method, path) in all {
        if path.ends_with("/watch") {
            continue;
        }
        let answer = served.client.ask(&method, &filled(&path), "").await;
        let json: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        assert_ne!(answer.status, 405, "{method} {path}");
        assert_ne!(
            json["detail"], "no route has this path; /openapi.json lists the routes",
            "{method} {path}"
        );
    }
}

/// What is at no path of the document is answered with 404, what it does not know there with 405.
#[tokio::test]
async fn nothing_else_is_answered() {
    let served = serve().await;
    let document = served.client.get("/openapi.json").await.expect(200);
    let known = operations(&document);
    for (_, path) in &known {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            if known.contains(&(method.to_owned(), path.clone())) {
                continue;
            }
            // A path with a blank beside this one may know the method.
            let also = ["/v1/runs/watch", "/v1/workflows/validate"].contains(&path.as_str());
            let answer = served.client.ask(method, &filled(path), "").await;
            assert!(answer.status == 405 || also, "{method} {path}: {}", answer.status);
        }
    }
    for path in ["/v1", "/v1/", "/v2/runs", "/v1/runs/", "/assets/none", "//v1/runs"] {
        assert_eq!(served.client.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn the_document_is_whole() {
    let served = serve().await;
    let document = served.client.get("/openapi.json").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for (_, methods) in document["paths"].as_object().unwrap() {
        for (_, operation) in methods.as_object().unwrap() {
            assert_ne!(operation["summary"], "", "{operation}");
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            // OpenAPI 3.1, "Parameter Object": one in the path must be required.
            for parameter in parameters.filter(|parameter| parameter["in"] == "path") {
                assert_eq!(parameter["required"], true, "{parameter}");
            }
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "two operations have one name");
    // Every reference leads somewhere, and every schema is named by something.
    let text = document.to_string();
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        let named = format!("\"#/components/schemas/{name}\"");
        assert!(text.contains(&named), "nothing names the schema {name}");
    }
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "no schema {name}");
    }
}

#[test]
fn a_wrong_answer_is_found() {
    let schema = json!({
        "type": "object",
        "required": ["a"],
        "properties": { "a": { "type": "string", "enum": ["x"] }, "n": { "type": ["integer", "null"], "minimum": 1 } },
        "additionalProperties": false,
    });
    let count = |value: Value| faults(&json!({}), &schema, &value, "").len();
    assert_eq!(count(json!({ "a": "x", "n": null })), 0);
    assert_eq!(count(json!({ "a": "y" })), 1);
    assert_eq!(count(json!({ "n": 1 })), 1);
    assert_eq!(count(json!({ "a": "x", "n": 0 })), 1);
    assert_eq!(count(json!({ "a": "x", "b": 1 })), 1);
    assert_eq!(count(json!([])), 1);
}
