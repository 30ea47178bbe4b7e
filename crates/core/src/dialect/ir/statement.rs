//! `x = @action(a=1, b=x.value, c=[1, "two"])` and the brackets behind it.

use std::collections::BTreeSet;
use std::ops::Range;

use winnow::stream::{Location, Stream};

use super::bracket::{Brackets, behind_call, blank};
use crate::dialect::brief;
use crate::dialect::scan::{Fault, Input, Scan, eat, expected, must, next_span, one, quoted, run};

/// A word and its place.
#[derive(Debug)]
pub(in crate::dialect) struct Word {
    pub(in crate::dialect) text: Box<str>,
    pub(in crate::dialect) span: Range<usize>,
}

/// One call of an action.
#[derive(Debug)]
pub(in crate::dialect) struct Statement {
    /// What the result is called.
    pub(in crate::dialect) name: Option<Word>,
    pub(in crate::dialect) action: Word,
    pub(in crate::dialect) args: Vec<(Word, Expr)>,
    pub(in crate::dialect) brackets: Option<Brackets>,
    /// The call, without its brackets.
    pub(in crate::dialect) span: Range<usize>,
}

/// An argument.
#[derive(Debug)]
pub(in crate::dialect) enum Expr {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(Word),
    /// A result or the input, and a path into it.
    Path(Word),
    List(Vec<Expr>),
    Table(Vec<(Box<str>, Expr)>),
}

/// The deepest nesting of an argument.
const DEPTH: usize = 40;

/// One line: a statement, or nothing but space and a comment.
pub(super) fn line(input: &mut Input<'_>) -> Scan<Option<Statement>> {
    blank(input);
    let statement = match input.peek_token() {
        None | Some('#' | '\r') => None,
        _ => Some(statement(input)?),
    };
    blank(input);
    if eat(input, "#") {
        run(input, |_| true);
    }
    run(input, |c| c == '\r');
    match input.peek_token() {
        None => Ok(statement),
        Some(_) => Err(expected(input, "`[`, `#` or the end of the line")
            .help_with("write one statement a line")),
    }
}

fn statement(input: &mut Input<'_>) -> Scan<Statement> {
    let start = input.current_token_start();
    let name = if input.peek_token() == Some('@') { None } else { Some(assigned(input)?) };
    if !eat(input, "@") {
        return Err(expected(input, "`@` and the name of an action")
            .help_with("write a call such as x = @action(a=1)"));
    }
    let action = word(input, "the name of an action", |c| matches!(c, '_' | '.' | '-'))?;
    blank(input);
    must(input, "(")?;
    let args = pairs(input, ")", 0, '=')?;
    let span = start..input.current_token_start();
    let brackets = behind_call(input)?;
    Ok(Statement { name, action, args, brackets, span })
}

fn assigned(input: &mut Input<'_>) -> Scan<Word> {
    let name = word(input, "a name or `@`", |c| c == '_')?;
    blank(input);
    must(input, "=")?;
    blank(input);
    Ok(name)
}

fn word(input: &mut Input<'_>, what: &str, also: impl Fn(char) -> bool) -> Scan<Word> {
    if !input.peek_token().is_some_and(|c| c.is_ascii_alphabetic() || c == '_') {
        return Err(expected(input, what));
    }
    let (text, span) = run(input, |c| c.is_ascii_alphanumeric() || also(c));
    Ok(Word { text: text.into(), span })
}

/// `key SEPARATOR value, ...` up to `close`, which is taken.
fn pairs(
    input: &mut Input<'_>,
    close: &'static str,
    depth: usize,
    separator: char,
) -> Scan<Vec<(Word, Expr)>> {
    let mut pairs: Vec<(Word, Expr)> = Vec::new();
    let mut keys = BTreeSet::new();
    loop {
        blank(input);
        if eat(input, close) {
            return Ok(pairs);
        }
        let key = key(input, separator)?;
        if !keys.insert(key.text.clone()) {
            let message = format!("`{}` is given twice", brief(&key.text));
            return Err(Fault::new(key.span, message).help_with("keep one of them"));
        }
        pairs.push((key, expr(input, depth)?));
        blank(input);
        if !eat(input, ",") && input.peek_token() != close.chars().next() {
            return Err(expected(input, &format!("`,` or `{close}`")));
        }
    }
}

fn key(input: &mut Input<'_>, separator: char) -> Scan<Word> {
    let start = input.current_token_start();
    let key = match input.peek_token() {
        Some(quote @ ('"' | '\'')) => {
            one(input);
            Word { text: quoted(input, quote)?.into(), span: start..input.current_token_start() }
        }
        _ => word(input, "the name of an argument", |c| c == '_')?,
    };
    blank(input);
    must(input, if separator == '=' { "=" } else { ":" })?;
    Ok(key)
}

fn expr(input: &mut Input<'_>, depth: usize) -> Scan<Expr> {
    blank(input);
    if depth > DEPTH {
        return Err(Fault::new(next_span(input), "nested too deeply")
            .help_with(format!("nest at most {DEPTH} levels")));
    }
    let start = input.current_token_start();
    match input.peek_token() {
        Some(quote @ ('"' | '\'')) => {
            one(input);
            let text = quoted(input, quote)?.into();
            Ok(Expr::Text(Word { text, span: start..input.current_token_start() }))
        }
        Some('[') => list(input, depth),
        Some('{') => {
            one(input);
            let pairs = pairs(input, "}", depth + 1, ':')?;
            Ok(Expr::Table(pairs.into_iter().map(|(k, v)| (k.text, v)).collect()))
        }
        Some('-' | '0'..='9') => number(input),
        _ => path(input),
    }
}

fn list(input: &mut Input<'_>, depth: usize) -> Scan<Expr> {
    must(input, "[")?;
    let mut items = Vec::new();
    loop {
        blank(input);
        if eat(input, "]") {
            return Ok(Expr::List(items));
        }
        items.push(expr(input, depth + 1)?);
        blank(input);
        if !eat(input, ",") && input.peek_token() != Some(']') {
            return Err(expected(input, "`,` or `]`"));
        }
    }
}

fn number(input: &mut Input<'_>) -> Scan<Expr> {
    let (text, span) = run(input, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'));
    serde_json::from_str(text).map(Expr::Number).map_err(|_| {
        Fault::new(span, format!("`{}` is not a number", brief(text)))
            .help_with("write digits such as 1, -2 or 0.5, or put a text in quotes")
    })
}

fn path(input: &mut Input<'_>) -> Scan<Expr> {
    let word = word(input, "a value", |c| matches!(c, '_' | '.'))?;
    Ok(match &*word.text {
        "true" | "True" => Expr::Bool(true),
        "false" | "False" => Expr::Bool(false),
        "null" | "None" => Expr::Null,
        _ => Expr::Path(word),
    })
}
