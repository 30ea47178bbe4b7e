//! JSON (RFC 8259) to a located tree. Keys must be unique.

use std::sync::Arc;

use winnow::stream::{Location, Stream};

use super::load::{Load, TABLE, TOO_MUCH};
use super::{Data, Entry, Node};
use crate::dialect::scan::{Fault, Input, Scan, eat, expected, must, one, quoted, run};
use crate::dialect::{Diagnostic, Place, Source, brief};

/// The deepest nesting read; beyond it the reader's own stack would be at stake.
const DEPTH: usize = 80;

pub(super) fn parse(source: &Arc<Source>) -> Result<Node, Diagnostic> {
    let top = Place::whole(source);
    let mut input = Input::new(&*source.text);
    document(&mut input, &top).map_err(|e| match e {
        Refused::Grammar(fault) => fault.within(&top),
        Refused::Field(diagnostic) => *diagnostic,
    })
}

/// Why a text is refused.
enum Refused {
    Grammar(Fault),
    /// It is known which field is wrong.
    Field(Box<Diagnostic>),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Grammar(fault)
    }
}

type Read<T> = Result<T, Refused>;

fn document(input: &mut Input<'_>, top: &Place) -> Read<Node> {
    let node = value(input, top, 0, &mut Load::new())?;
    space(input);
    match input.peek_token() {
        None => Ok(node),
        Some(_) => Err(expected(input, "the end of the text").into()),
    }
}

fn space(input: &mut Input<'_>) {
    run(input, |c| matches!(c, ' ' | '\t' | '\n' | '\r'));
}

fn value(input: &mut Input<'_>, place: &Place, depth: usize, load: &mut Load) -> Read<Node> {
    space(input);
    let start = input.current_token_start();
    if depth > DEPTH {
        return Err(Fault::new(start..start + 1, "nested too deeply")
            .help_with(format!("nest at most {DEPTH} levels"))
            .into());
    }
    let too_much = || Fault::new(start..start, TOO_MUCH.0).help_with(TOO_MUCH.1);
    load.take(1).ok_or_else(too_much)?;
    let data = match input.peek_token() {
        Some('{') => {
            load.take(TABLE).ok_or_else(too_much)?;
            table(input, &place.as_parent(), depth, load)?
        }
        Some('[') => list(input, &place.as_parent(), depth, load)?,
        Some('"') => {
            one(input);
            Data::Text(quoted(input, '"')?.into())
        }
        Some('-' | '0'..='9') => Data::Number(number(input)?.into()),
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
    Err(Fault::new(span, format!("`{}` is not a JSON number", brief(text)))
        .help_with("write digits, such as 1, -2 or 0.5"))
}

fn list(input: &mut Input<'_>, place: &Place, depth: usize, load: &mut Load) -> Read<Data> {
    must(input, "[")?;
    let mut items = Vec::new();
    space(input);
    if eat(input, "]") {
        return Ok(Data::List(items.into()));
    }
    loop {
        items.push(value(input, &place.item(items.len()), depth + 1, load)?);
        space(input);
        if eat(input, "]") {
            return Ok(Data::List(items.into()));
        }
        if !eat(input, ",") {
            return Err(expected(input, "`,` or `]`").into());
        }
    }
}

fn table(input: &mut Input<'_>, place: &Place, depth: usize, load: &mut Load) -> Read<Data> {
    must(input, "{")?;
    let mut entries: Vec<Entry> = Vec::new();
    space(input);
    if eat(input, "}") {
        return Ok(Data::Table(entries.into()));
    }
    loop {
        entries.push(entry(input, place, depth, load)?);
        space(input);
        if eat(input, "}") {
            break;
        }
        if !eat(input, ",") {
            return Err(expected(input, "`,` or `}`").into());
        }
    }
    match given_twice(&entries) {
        None => Ok(Data::Table(entries.into())),
        Some(second) => {
            let error = second.place.error("the key is given twice");
            Err(Refused::Field(Box::new(error.help_with("keep one of them"))))
        }
    }
}

/// The first entry whose key an earlier one has.
fn given_twice(entries: &[Entry]) -> Option<&Entry> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|e| &e.key);
    let twice = sorted.windows(2).filter(|pair| pair[0].key == pair[1].key).map(|pair| pair[1]);
    twice.min_by_key(|e| e.place.span().start)
}

fn entry(input: &mut Input<'_>, parent: &Place, depth: usize, load: &mut Load) -> Read<Entry> {
    space(input);
    let start = input.current_token_start();
    if !eat(input, "\"") {
        let fault = expected(input, "a key in double quotes");
        return Err(fault.help_with("JSON has its keys and texts in double quotes").into());
    }
    load.take(1).ok_or_else(|| Fault::new(start..start, TOO_MUCH.0).help_with(TOO_MUCH.1))?;
    let key = quoted(input, '"')?;
    let place = parent.child(&key).at(start..input.current_token_start());
    space(input);
    must(input, ":")?;
    Ok(Entry { node: value(input, &place, depth + 1, load)?, key, place })
}
