//! `key: value` inside a bracket, and what values can be.

use std::ops::Range;

use crate::dialect::brief;
use crate::dialect::number::{self, SECOND};
use crate::dialect::scan::{Fault, Scan};
use crate::dialect::tree::did_you_mean;
use crate::policy::Share;
use crate::time::Nanos;

/// `key: value` with the places of both.
pub(super) struct Setting<'t> {
    pub(super) key: &'t str,
    pub(super) key_span: Range<usize>,
    pub(super) value: &'t str,
    pub(super) value_span: Range<usize>,
}

impl Setting<'_> {
    /// Sets `slot`, unless an earlier bracket has.
    pub(super) fn once<T>(&self, slot: &mut Option<T>, value: T) -> Scan<()> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => {
                let message = format!("`{}` is given twice", self.key);
                Err(Fault::new(self.key_span.clone(), message).help_with("keep one of them"))
            }
        }
    }

    /// A bare number is seconds.
    pub(super) fn duration(&self) -> Scan<Nanos> {
        number::duration(self.value, Some(SECOND))
            .map_err(|fault| self.refuse(&fault.to_string(), fault.help()))
    }

    pub(super) fn timeout(&self) -> Scan<Nanos> {
        match self.duration()? {
            Nanos::ZERO => Err(Fault::new(
                self.value_span.clone(),
                format!("`{}` of zero lets no attempt run", self.key),
            )
            .help_with("leave it out for no timeout")),
            limit => Ok(limit),
        }
    }

    pub(super) fn count(&self, least: u32, most: u32) -> Scan<u32> {
        self.value.parse().ok().filter(|n| (least..=most).contains(n)).ok_or_else(|| {
            let message =
                format!("`{}` must be a whole number, found `{}`", self.key, brief(self.value));
            Fault::new(self.value_span.clone(), message).help_with(format!("use {least} to {most}"))
        })
    }

    /// A share from 0 to 1.
    pub(super) fn share(&self) -> Scan<Share> {
        let millionths = number::scaled(self.value, 1_000_000)
            .map_err(|fault| self.refuse(&fault.to_string(), "use 0 to 1, such as 0.1"))?;
        let share = Share::from_millionths(u32::try_from(millionths).unwrap_or(u32::MAX));
        share.map_err(|_| self.refuse("is above 1", "use 0 to 1"))
    }

    /// The meaning of one of the words in `choices`.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Scan<T> {
        let found = choices.iter().find(|(word, _)| *word == self.value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words = choices.iter().map(|(word, _)| *word);
            self.refuse("is not known here", &did_you_mean(self.value, words))
        })
    }

    fn refuse(&self, what: &str, help: &str) -> Fault {
        let message = format!("`{}`: `{}` {what}", self.key, brief(self.value));
        Fault::new(self.value_span.clone(), message).help_with(help)
    }
}
