//! Typed readers: each gives the value or a diagnostic that says what was expected.

use std::collections::BTreeSet;

use super::suggest::nearest;
use super::{Data, Entry, Node, did_you_mean};
use crate::dialect::number::{self, NumberFault};
use crate::dialect::{Diagnostic, Place, brief};
use crate::failure::{looks_like_statuses, statuses};
use crate::policy::Share;
use crate::time::Nanos;

/// What is wrong with a name that looks like statuses but stands for none, and what to write.
pub(crate) const NO_STATUSES: (&str, &str) =
    ("not a valid range of HTTP statuses", "use 5xx or a range such as 500-599, from 100 to 599");

/// Whether a name that looks like statuses stands for some.
pub(crate) fn makes_sense(name: &str) -> bool {
    !looks_like_statuses(name) || statuses(name).is_some()
}

/// The fields of a table whose keys are all known. A null counts as absent.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'n> {
    place: &'n Place,
    entries: &'n [Entry],
}

impl<'n> Fields<'n> {
    /// The value of `key`, if it is there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        let found = self.entries.iter().find(|e| e.key == key)?;
        (found.node.data != Data::Null).then_some(&found.node)
    }

    /// The value of `key`, or that it is missing; `help` says what to write.
    ///
    /// # Errors
    /// When it is missing.
    pub fn require(&self, key: &str, help: &str) -> Result<&'n Node, Diagnostic> {
        self.get(key).ok_or_else(|| {
            let error = self.place.child(key).error(format!("`{key}` is missing"));
            error.help_with(help).of_missing()
        })
    }

    /// The one of `keys` that is there. Two are an error.
    ///
    /// # Errors
    /// When two are there.
    pub fn at_most_one(&self, keys: &[&str]) -> Result<Option<(&'n str, &'n Node)>, Diagnostic> {
        let is_one = |e: &&Entry| keys.contains(&e.key.as_str()) && e.node.data != Data::Null;
        let mut found = self.entries.iter().filter(is_one);
        let first = found.next();
        match (first, found.next()) {
            (Some(first), Some(second)) => Err(second
                .place
                .error(format!("`{}` is given beside `{}`", second.key, first.key))
                .help_with("keep one of them")),
            _ => Ok(first.map(|e| (e.key.as_str(), &e.node))),
        }
    }

    /// The table's place.
    #[must_use]
    pub fn place(&self) -> &'n Place {
        self.place
    }
}

impl Node {
    /// The table's entries in text order.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn entries(&self) -> Result<&[Entry], Diagnostic> {
        match &self.data {
            Data::Table(entries) => Ok(entries),
            _ => Err(self.expected("a table")),
        }
    }

    /// The table's fields; a key that is not in `known` is an error.
    ///
    /// # Errors
    /// When it is not a table or has another key.
    pub fn fields(&self, known: &[&str]) -> Result<Fields<'_>, Diagnostic> {
        let fields = self.any_fields()?;
        match self.unknown_keys(known).next() {
            Some(unknown) => Err(unknown),
            None => Ok(fields),
        }
    }

    /// The table's fields, whatever its keys.
    pub(crate) fn any_fields(&self) -> Result<Fields<'_>, Diagnostic> {
        Ok(Fields { place: &self.place, entries: self.entries()? })
    }

    /// A diagnostic for each of the table's keys that is not in `known`.
    pub fn unknown_keys(&self, known: &[&str]) -> impl Iterator<Item = Diagnostic> {
        let entries = self.entries().unwrap_or_default().iter();
        entries.filter(|e| !known.contains(&e.key.as_str())).map(|e| {
            let known = known.iter().copied();
            let error = e.place.error(format!("unknown key `{}`", brief(&e.key)));
            let meant = nearest(&e.key, known.clone());
            error.help_with(did_you_mean(&e.key, known)).of_key(meant)
        })
    }

    /// Whether the table has `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        matches!(&self.data, Data::Table(entries) if entries.iter().any(|e| e.key == key))
    }

    /// The text.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn text(&self) -> Result<&str, Diagnostic> {
        match &self.data {
            Data::Text(text) => Ok(text),
            _ => Err(self.expected("a text")),
        }
    }

    /// A text that is not empty.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn name(&self) -> Result<&str, Diagnostic> {
        match self.text()? {
            text if text.trim().is_empty() => {
                Err(self.fault("the text is empty").help_with("write a name"))
            }
            text => Ok(text),
        }
    }

    /// The boolean.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn boolean(&self) -> Result<bool, Diagnostic> {
        match self.data {
            Data::Bool(b) => Ok(b),
            _ => Err(self.expected("true or false")),
        }
    }

    /// The items of a list.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn items(&self) -> Result<&[Node], Diagnostic> {
        match &self.data {
            Data::List(items) => Ok(items),
            _ => Err(self.expected("a list")),
        }
    }

    /// A list of names.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn names(&self) -> Result<BTreeSet<String>, Diagnostic> {
        let name = |n: &Self| match &n.data {
            Data::Number(code) => {
                Err(n.expected("a text").help_with(format!("write \"{}\"", brief(code))))
            }
            _ => n.name().map(str::to_owned),
        };
        self.items()?.iter().map(name).collect()
    }

    /// A list of the codes and types of failures, among them names such as `5xx`.
    ///
    /// # Errors
    /// When it is anything else.
    pub(crate) fn failures(&self) -> Result<BTreeSet<String>, Diagnostic> {
        let names = self.names()?;
        let wrong = |n: &&Self| n.text().is_ok_and(|name| !makes_sense(name));
        match self.items()?.iter().find(wrong) {
            Some(wrong) => Err(wrong.fault(NO_STATUSES.0).help_with(NO_STATUSES.1)),
            None => Ok(names),
        }
    }

    /// A whole number that may be negative.
    ///
    /// # Errors
    /// When it is anything else.
    pub(crate) fn whole(&self) -> Result<i64, Diagnostic> {
        let text = self.number("a whole number")?;
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            let error = self.fault(format!("`{}` is not a whole number", brief(text)));
            return Err(error.help_with("use digits alone, such as 3"));
        }
        text.parse().map_err(|_| {
            self.fault(format!("`{}` is too large", brief(text)))
                .help_with("whole numbers have at most 64 bits")
        })
    }

    /// A whole number from `least` to `most`.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn count(&self, least: u32, most: u32) -> Result<u32, Diagnostic> {
        let n = self.whole()?;
        let within = |n: &u32| (least..=most).contains(n);
        u32::try_from(n).ok().filter(within).ok_or_else(|| {
            self.fault(format!("`{n}` is out of range")).help_with(format!("use {least} to {most}"))
        })
    }

    /// A decimal number, in millionths.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn millionths(&self) -> Result<u64, Diagnostic> {
        let text = self.number("a number")?;
        number::scaled(text, 1_000_000).map_err(|fault| self.number_fault(text, fault))
    }

    /// A share from 0 to 1.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn share(&self) -> Result<Share, Diagnostic> {
        let share = u32::try_from(self.millionths()?).unwrap_or(u32::MAX);
        Share::from_millionths(share).map_err(|e| self.place.refuse(&e).of_value())
    }

    /// A length of time: a number of `unit` nanoseconds, or a text with a suffix such as `2m`.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn duration(&self, unit: u64) -> Result<Nanos, Diagnostic> {
        match &self.data {
            Data::Number(text) => number::scaled(text, unit)
                .map(Nanos::new)
                .map_err(|fault| self.number_fault(text, fault)),
            Data::Text(text) => {
                number::duration(text, None).map_err(|fault| self.number_fault(text, fault))
            }
            _ => Err(self.expected("a length of time")),
        }
    }

    /// A length of time above zero.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn timeout(&self, unit: u64) -> Result<Nanos, Diagnostic> {
        match self.duration(unit)? {
            Nanos::ZERO => Err(self
                .fault("a timeout of zero lets no attempt run")
                .help_with("leave it out for no timeout")),
            limit => Ok(limit),
        }
    }

    /// The meaning of one of the words in `choices`.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Diagnostic> {
        let all: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let word = self.text().map_err(|e| e.help_with(format!("use {}", all.join(", "))))?;
        choices.iter().find_map(|(name, value)| (*name == word).then_some(*value)).ok_or_else(
            || {
                let help = did_you_mean(word, all);
                self.fault(format!("`{}` is not known here", brief(word))).help_with(help)
            },
        )
    }

    fn number(&self, what: &str) -> Result<&str, Diagnostic> {
        match &self.data {
            Data::Number(text) => Ok(text),
            _ => Err(self.expected(what)),
        }
    }

    fn expected(&self, what: &str) -> Diagnostic {
        let shown = match &self.data {
            Data::Text(text) if text.chars().nth(40).is_none() => format!("the text {text:?}"),
            Data::Number(text) => format!("the number {}", brief(text)),
            Data::Bool(b) => b.to_string(),
            _ => self.kind().to_owned(),
        };
        self.fault(format!("expected {what}, found {shown}"))
    }

    fn number_fault(&self, text: &str, fault: NumberFault) -> Diagnostic {
        self.fault(format!("`{}` {fault}", brief(text))).help_with(fault.help())
    }

    /// A diagnostic about this value alone.
    fn fault(&self, message: impl Into<String>) -> Diagnostic {
        self.place.error(message).of_value()
    }
}
