use serde::{Deserialize, Serialize};

use super::Outcomes;
use crate::time::{Nanos, Timestamp};

const PARTS: u64 = 10;

/// Outcomes of the last while, counted in ten parts: what is counted reaches back nine to ten
/// tenths of the window, in constant space (the rolling window of Hystrix).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    width: Nanos,
    /// Parts by number, the newest last; those in which nothing happened are missing.
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    number: u64,
    calls: u32,
    failures: u32,
}

/// How many outcomes there were, and how many of them failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) failures: u64,
}

impl From<Counts> for Outcomes {
    fn from(Counts { calls, failures }: Counts) -> Self {
        Self { calls, failures }
    }
}

impl Window {
    /// Counts one outcome at `now`. Outcomes counted over another window are forgotten.
    pub(super) fn note(&mut self, failed: bool, window: Nanos, now: Timestamp) {
        let width = Nanos::new(window.get().div_ceil(PARTS).max(1));
        if self.width != width {
            *self = Self { width, parts: Vec::new() };
        }
        let number = now.as_nanos() / width.get();
        self.parts.retain(|part| part.number + PARTS > number);
        if self.parts.last().is_none_or(|part| part.number < number) {
            self.parts.push(Part { number, calls: 0, failures: 0 });
        }
        if let Some(part) = self.parts.last_mut() {
            part.calls = part.calls.saturating_add(1);
            part.failures = part.failures.saturating_add(u32::from(failed));
        }
        invariant!(self.counts(now).calls > 0, "an outcome is recent when it comes");
    }

    pub(super) fn counts(&self, now: Timestamp) -> Counts {
        let number = now.as_nanos().checked_div(self.width.get()).unwrap_or_default();
        let recent = self.parts.iter().filter(|part| part.number + PARTS > number);
        recent.fold(Counts::default(), |sum, part| Counts {
            calls: sum.calls + u64::from(part.calls),
            failures: sum.failures + u64::from(part.failures),
        })
    }
}
