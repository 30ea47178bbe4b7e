//! JSON (RFC 8259) to a located tree. Keys must be unique.

use std::collections::BTreeSet;
use std::sync::Arc;

use winnow::stream::{Location, Stream};

use super::{Data, Entry, Node};
use crate::dialect::scan::{Fault, Input, Scan, eat, expected, must, one, quoted, run};
use crate::dialect::{Diagnostic, Place, Source};

/// The deepest nesting read; beyond it the reader's own stack would be at stake.
const DEPTH: usize = 80;

pub(super) fn parse(source: &Arc<Source>) -> Result<Node, Diagnostic> {
    let top = Place::whole(source);
    let mut input = Input::new(&*source.text);
    document(&mut input, &top).map_err(|e| match e.field {
        Some(place) => e.fault.within(&top.child(place)),
        None => e.fault.within(&top),
    })
}

/// A fault, and the field it concerns where that is known.
struct Refused {
    fault: Fault,
    field: Option<String>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault, field: None }
    }
}

type Read<T> = Result<T, Refused>;

fn document(input: &mut Input<'_>, top: &Place) -> Read<Node> {
    let node = value(input, top, 0)?;
    space(input);
    match input.peek_token() {
        None => Ok(node),
        Some(_) => Err(expected(input, "the end of the text").into()),
    }
}

fn space(input: &mut Input<'_>) {
    run(input, |c| matches!(c, ' ' | '\t' | '\n' | '\r'));
}

fn value(input: &mut Input<'_>, place: &Place, depth: usize) -> Read<Node> {
    space(input);
    let start = input.current_token_start();
    if depth > DEPTH {
        return Err(Fault::new(start..start + 1, "nested too deeply")
            .help_with(format!("nest at most {DEPTH} levels"))
            .into());
    }
    let data = match input.peek_token() {
        Some('{') => table(input, place, depth)?,
        Some('[') => list(input, place, depth)?,
        Some('"') => {
            one(input);
            Data::Text(quoted(input, '"')?)
        }
        Some('-' | '0'..='9') => Data::Number(number(input)?),
        _ => word(input)?,
    };
    Ok(Node { place: place.at(start..input.current_token_start()), data })
}

fn word(input: &mut Input<'_>) -> Scan<Data> {
    for (text, data) in
        [("null", Data::Null), ("true", Data::Bool(true)), ("false", Data::Bool(false))]
    {
        if eat(input, text) {
            return Ok(data);
        }
    }
    Err(expected(input, "a JSON value"))
}

/// `-?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?`
fn number(input: &mut Input<'_>) -> Scan<String> {
    let (text, span) = run(input, |c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let valid = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if valid {
        return Ok(text.to_owned());
    }
    Err(Fault::new(span, format!("`{text}` is not a JSON number"))
        .help_with("write digits, such as 1, -2 or 0.5"))
}

fn list(input: &mut Input<'_>, place: &Place, depth: usize) -> Read<Data> {
    must(input, "[")?;
    let mut items = Vec::new();
    space(input);
    if eat(input, "]") {
        return Ok(Data::List(items));
    }
    loop {
        items.push(value(input, &place.child(items.len()), depth + 1)?);
        space(input);
        if eat(input, "]") {
            return Ok(Data::List(items));
        }
        if !eat(input, ",") {
            return Err(expected(input, "`,` or `]`").into());
        }
    }
}

fn table(input: &mut Input<'_>, place: &Place, depth: usize) -> Read<Data> {
    must(input, "{")?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut seen = BTreeSet::new();
    space(input);
    if eat(input, "}") {
        return Ok(Data::Table(entries));
    }
    loop {
        let entry = entry(input, place, depth)?;
        if !seen.insert(entry.key.clone()) {
            let fault = Fault::new(entry.place.span(), "the key is given twice")
                .help_with("keep one of them");
            return Err(Refused { fault, field: Some(entry.place.field().to_owned()) });
        }
        entries.push(entry);
        space(input);
        if eat(input, "}") {
            return Ok(Data::Table(entries));
        }
        if !eat(input, ",") {
            return Err(expected(input, "`,` or `}`").into());
        }
    }
}

fn entry(input: &mut Input<'_>, parent: &Place, depth: usize) -> Read<Entry> {
    space(input);
    let start = input.current_token_start();
    if !eat(input, "\"") {
        return Err(expected(input, "a key in double quotes").into());
    }
    let key = quoted(input, '"')?;
    let place = parent.child(&key).at(start..input.current_token_start());
    space(input);
    must(input, ":")?;
    Ok(Entry { node: value(input, &place, depth + 1)?, key, place })
}
