//! Waymark's and Rappel's brackets, and the calls of a program (rows W1 to W6, R2, R3).

use serde_json::{Map, Value};

use super::fields::Fields;
use super::plain::{Growth, MILLION, PlainPolicy, PlainRule, SECOND};

/// The policy of a call's brackets.
pub(super) fn read(text: &str) -> Option<PlainPolicy> {
    let mut policy = PlainPolicy::new("ir");
    let mut settings = Map::new();
    let mut rest = blank(text);
    while let Some(open) = rest.strip_prefix('[') {
        let (body, after) = open.split_at(place_of(open, ']')?);
        let (names, pairs) = match body.split_once("->") {
            Some((names, pairs)) => (list(names)?, pairs),
            None => (Vec::new(), body),
        };
        let mut own = Map::new();
        for pair in pairs.split(',') {
            let (key, value) = pair.split_once(':')?;
            own.insert(key.trim().to_owned(), word(value.trim()));
        }
        if own.contains_key("retry") || own.contains_key("backoff") {
            policy.rules.push(rule(names, own)?);
        } else if names.is_empty() {
            settings.append(&mut own);
        } else {
            return None;
        }
        rest = blank(after.get(1..)?);
    }
    let mut settings = Fields::from_pairs(settings);
    policy.attempt_timeout = settings.length("timeout", SECOND)?;
    settings.settings(&mut policy)?;
    rest.is_empty().then(|| settings.finish(policy))?
}

/// `retry` counts the attempts after the first; the delay doubles from `backoff`.
fn rule(names: Vec<String>, pairs: Map<String, Value>) -> Option<PlainRule> {
    let mut pairs = Fields::from_pairs(pairs);
    let retries = pairs.number("retry")?.unwrap_or(0);
    let base = pairs.length("backoff", SECOND)?.unwrap_or(0);
    pairs.finish(PlainRule {
        scope: if names.is_empty() { "any" } else { "names" },
        names: names.into_iter().collect(),
        except: Default::default(),
        attempts: Some(retries + 1),
        growth: Growth::new("exponential", [("base", base), ("multiplier", 2 * MILLION)]),
        cap: None,
        jitter: ("none", 0),
    })
}

/// `NetworkError` or `(ValueError, KeyError)`.
fn list(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    let name = |name: &str| {
        let name = name.trim().trim_matches(['"', '\'']);
        (!name.is_empty()).then(|| name.to_owned())
    };
    inner.split(',').map(name).collect()
}

/// A number, a flag, or a text.
fn word(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Without the spaces and comments at its start.
fn blank(text: &str) -> &str {
    let mut text = text.trim_start();
    while let Some(comment) = text.strip_prefix('#') {
        text = comment.split_once('\n').map_or("", |(_, next)| next).trim_start();
    }
    text
}

/// Where `closing` stands outside of quotes and of inner parentheses.
fn place_of(text: &str, closing: char) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c == closing && depth == 0 => return Some(at),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// The calls of a program in text order: the action, and the brackets behind its arguments.
pub(super) fn calls(program: &str) -> Option<Vec<(&str, &str)>> {
    let statements = program.lines().map(blank).filter(|line| !line.is_empty());
    statements.map(call).collect()
}

/// `x = @action(n=1) [retry: 3]`.
fn call(line: &str) -> Option<(&str, &str)> {
    let (_, call) = line.split_once('@')?;
    let (action, args) = call.split_once('(')?;
    Some((action.trim(), blank(args.get(place_of(args, ')')? + 1..)?)))
}
