//! TOML to a located tree.

use std::ops::Range;
use std::sync::Arc;

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};

use toml_parser::lexer::TokenKind;

use super::load::{Load, TABLE, TOO_MUCH};
use super::{Data, Entry, Node};
use crate::dialect::{Diagnostic, Place, Source, brief};

/// The most parts of a dotted key.
const PARTS: usize = 80;

pub(super) fn parse(source: &Arc<Source>) -> Result<Node, Diagnostic> {
    let top = Place::whole(source);
    check_load(&top)?;
    let table = DeTable::parse(&source.text).map_err(|e| refuse(&top, &e))?;
    Ok(Node { data: table_of(&top, table.get_ref()), place: top })
}

/// The parser keeps every token at once, and goes as deep as dotted keys are long. So they are counted
/// before it starts.
fn check_load(top: &Place) -> Result<(), Diagnostic> {
    let (mut load, mut dots, mut before) = (Load::new(), 0, TokenKind::Newline);
    for token in ::toml_parser::Source::new(&top.source().text).lex() {
        let kind = token.kind();
        let at = || top.at(token.span().start()..token.span().end());
        let is_table = match kind {
            TokenKind::LeftCurlyBracket | TokenKind::Dot => true,
            TokenKind::LeftSquareBracket => before == TokenKind::Newline,
            _ => false,
        };
        dots = match kind {
            TokenKind::Dot => dots + 1,
            TokenKind::Atom | TokenKind::BasicString | TokenKind::LiteralString => dots,
            TokenKind::Whitespace => dots,
            _ => 0,
        };
        if dots >= PARTS {
            let error = at().error("the key has too many parts");
            return Err(error.help_with(format!("nest at most {PARTS} levels")));
        }
        let counts = if is_table { 1 + TABLE } else { 1 };
        load.take(counts).ok_or_else(|| at().error(TOO_MUCH.0).help_with(TOO_MUCH.1))?;
        before = kind;
    }
    Ok(())
}

fn refuse(top: &Place, error: &::toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or_else(|| top.span().end..top.span().end);
    let place = top.at(span.clone());
    if error.message() == "duplicate key" {
        let key = top.source().text.get(span).unwrap_or_default();
        return place
            .child(brief(key))
            .error("the key is given twice")
            .help_with("keep one of them");
    }
    place.error(error.message()).help_with("the text is read as TOML")
}

fn table_of(place: &Place, table: &DeTable<'_>) -> Data {
    let place = &place.as_parent();
    let mut entries: Vec<Entry> = table.iter().map(|(k, v)| entry(place, k, v)).collect();
    // The table is sorted by key; a tree keeps the text's order.
    entries.sort_by_key(|e| e.place.span().start);
    Data::Table(entries.into())
}

fn entry(parent: &Place, key: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) -> Entry {
    let name = key.get_ref().as_ref();
    let place = parent.child(name).at(key.span());
    Entry { key: name.to_owned(), node: node(&place, value.span(), value.get_ref()), place }
}

fn node(place: &Place, span: Range<usize>, value: &DeValue<'_>) -> Node {
    let place = place.at(span);
    let data = match value {
        DeValue::String(text) => Data::Text(text.as_ref().into()),
        DeValue::Integer(number) => Data::Number(decimal(number).into()),
        DeValue::Float(number) => Data::Number(number.as_str().into()),
        DeValue::Boolean(b) => Data::Bool(*b),
        DeValue::Datetime(date) => Data::Text(date.to_string().into()),
        DeValue::Array(items) => {
            let (place, nodes) = (place.as_parent(), items.iter().enumerate());
            Data::List(nodes.map(|(i, v)| node(&place.item(i), v.span(), v.get_ref())).collect())
        }
        DeValue::Table(table) => table_of(&place, table),
    };
    Node { place, data }
}

/// The integer in decimal. What is beyond 128 bits in another base is beyond every field as well.
fn decimal(number: &DeInteger<'_>) -> String {
    match number.radix() {
        10 => number.as_str().to_owned(),
        radix => i128::from_str_radix(number.as_str(), radix).unwrap_or(i128::MAX).to_string(),
    }
}
