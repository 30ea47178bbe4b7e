//! How delays grow, in every table dialect: a word for the kind, the first delay,
//! and what only one kind takes: linear its own step, polynomial its degree, list its delays.

use super::Diagnostic;
use super::tree::Node;
use crate::policy::{DelayList, Multiplier, Shape};
use crate::time::Nanos;

/// The kinds of growth; each dialect has its own words for those it knows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Growth {
    None,
    Fixed,
    Linear,
    Exponential,
    Fibonacci,
    Polynomial,
    List,
}

/// The power of n where none is given.
const DEGREE: u32 = 2;
/// The highest power of n.
pub(super) const MOST_DEGREE: u32 = 20;

/// What a table says beside the kind. Lengths of time are in `unit` nanoseconds.
pub(super) struct Terms<'n> {
    pub(super) first: Option<&'n Node>,
    pub(super) base: Nanos,
    pub(super) multiplier: Multiplier,
    pub(super) step: Option<&'n Node>,
    pub(super) degree: Option<&'n Node>,
    pub(super) delays: Option<&'n Node>,
    pub(super) unit: u64,
}

impl Terms<'_> {
    /// The shape of `growth`, said at `node`. What is for another kind is an error.
    pub(super) fn shape(&self, growth: Growth, node: &Node) -> Result<Shape, Diagnostic> {
        for (term, kind, word) in [
            (self.step, Growth::Linear, "linear"),
            (self.degree, Growth::Polynomial, "polynomial"),
            (self.delays, Growth::List, "list"),
        ] {
            if let Some(stray) = term.filter(|_| growth != kind) {
                let error = stray.place.error(format!("this applies only to `{word}` backoff"));
                return Err(error.help_with(format!("make the backoff `{word}`, or leave it out")));
            }
        }
        let (base, multiplier) = (self.base, self.multiplier);
        Ok(match growth {
            Growth::None => Shape::None,
            Growth::Fixed => Shape::Fixed { base },
            Growth::Linear => {
                let step = self.step.map_or(Ok(base), |n| n.duration(self.unit))?;
                Shape::Linear { base, step }
            }
            Growth::Exponential => Shape::Exponential { base, multiplier },
            Growth::Fibonacci => Shape::Fibonacci { base },
            Growth::Polynomial => {
                let degree = self.degree.map_or(Ok(DEGREE), |n| n.count(1, MOST_DEGREE))?;
                Shape::Polynomial { base, degree }
            }
            Growth::List => Shape::List { delays: self.list(node)? },
        })
    }

    fn list(&self, node: &Node) -> Result<DelayList, Diagnostic> {
        let Some(list) = self.delays else {
            let error = node.place.error("the list of delays is missing");
            return Err(error.help_with("write them out, such as [1, 5, 30]"));
        };
        if let Some(first) = self.first {
            let error = first.place.error("a list of delays takes no first delay");
            return Err(error.help_with("leave it out"));
        }
        let delays = list.items()?.iter().map(|n| n.duration(self.unit));
        let delays: Vec<Nanos> = delays.collect::<Result<_, _>>()?;
        DelayList::try_from(delays).map_err(|e| list.place.refuse(&e))
    }
}
