//! Holds answers against the OpenAPI document: a checker of the few words of JSON Schema that it
//! uses. A word that it does not know fails.

use serde_json::Value;

/// What is wrong with `value` by `schema`, a schema of `document`.
pub(crate) fn faults(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                let target = document.pointer(pointer);
                let target = target.unwrap_or_else(|| panic!("{pointer} leads nowhere"));
                found.extend(faults(document, target, value, at));
            }
            "type" => {
                let kinds: Vec<&str> = match rule {
                    Value::String(one) => vec![one],
                    many => many.as_array().unwrap().iter().map(|k| k.as_str().unwrap()).collect(),
                };
                if !kinds.iter().any(|kind| is(value, kind)) {
                    found.push(format!("{at}: {value} is no {kinds:?}"));
                }
            }
            "enum" if !value.is_null() && !rule.as_array().unwrap().contains(value) => {
                found.push(format!("{at}: {value} is none of {rule}"));
            }
            "required" if value.is_object() => {
                let missing = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                let missing = missing.filter(|name| value.get(name).is_none());
                found.extend(missing.map(|name| format!("{at}: `{name}` is missing")));
            }
            "properties" => {
                for (name, inner) in rule.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        found.extend(faults(document, inner, field, &format!("{at}.{name}")));
                    }
                }
            }
            "additionalProperties" => found.extend(others(document, schema, rule, value, at)),
            "items" => {
                for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(document, rule, item, &format!("{at}[{n}]")));
                }
            }
            "minimum" => {
                if value.as_i64().is_some_and(|n| n < rule.as_i64().unwrap()) {
                    found.push(format!("{at}: {value} is below {rule}"));
                }
            }
            "anyOf" => {
                let fits = |one: &Value| faults(document, one, value, at).is_empty();
                if !rule.as_array().unwrap().iter().any(fits) {
                    found.push(format!("{at}: {value} fits none of {rule}"));
                }
            }
            "format" => found.extend(format_fault(rule.as_str().unwrap(), value, at)),
            "enum" | "required" | "description" => {}
            other => panic!("the checker does not know `{other}`"),
        }
    }
    found
}

fn others(document: &Value, schema: &Value, rule: &Value, value: &Value, at: &str) -> Vec<String> {
    let known = schema.get("properties").and_then(Value::as_object);
    let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
    let fields = value.as_object().into_iter().flatten().filter(|(name, _)| !is_known(name));
    fields
        .flat_map(|(name, field)| match rule {
            Value::Bool(false) => vec![format!("{at}: `{name}` is not described")],
            rule => faults(document, rule, field, &format!("{at}.{name}")),
        })
        .collect()
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("there is no type `{other}`"),
    }
}

fn format_fault(format: &str, value: &Value, at: &str) -> Option<String> {
    let text = value.as_str()?;
    let fine = match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok() && text.ends_with('Z'),
        "uuid" => text.len() == 36 && text.parse::<retrial::run::RunId>().is_ok(),
        other => panic!("the checker does not know the format `{other}`"),
    };
    (!fine).then(|| format!("{at}: {value} is no {format}"))
}

/// The operation that answers `method` at `path`, where the document has one.
pub(crate) fn operation<'d>(document: &'d Value, method: &str, path: &str) -> Option<&'d Value> {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (mut a, mut b) = (template.split('/'), path.split('/'));
        loop {
            match (a.next(), b.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if a == b || a.starts_with('{') && !b.is_empty() => {}
                _ => return false,
            }
        }
    };
    let paths = document["paths"].as_object().unwrap();
    // A path that is written out comes before one with a blank.
    let mut found: Vec<_> = paths.iter().filter(|(template, _)| fits(template)).collect();
    found.sort_by_key(|(template, _)| template.matches('{').count());
    found.first()?.1.get(method.to_lowercase())
}

/// What is wrong with an answer of `status` and `text` to `method` at `path`.
pub(crate) fn answer_faults(
    document: &Value,
    (method, path): (&str, &str),
    (status, kind, text): (u16, &str, &str),
) -> Vec<String> {
    let Some(operation) = operation(document, method, path) else { return Vec::new() };
    let answer = &operation["responses"][status.to_string()];
    if answer.is_null() {
        return vec![format!("{method} {path}: status {status} is not described")];
    }
    let kind = kind.split(';').next().unwrap();
    let content = &answer["content"][kind];
    if content.is_null() {
        return vec![format!("{method} {path}: {status} as `{kind}` is not described")];
    }
    if !kind.ends_with("json") {
        return Vec::new();
    }
    let value: Value = serde_json::from_str(text).unwrap();
    faults(document, &content["schema"], &value, &format!("{method} {path} {status}"))
}
