use serde::{Deserialize, Serialize};

use super::rules::Pace;
use crate::time::{Nanos, Timestamp};

/// A rate limit's state: when its bucket will be full again (the theoretical arrival time of the
/// generic cell rate algorithm, ITU-T I.371).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Meter {
    full_at: Timestamp,
}

impl Meter {
    pub(super) fn full_at(self) -> Timestamp {
        self.full_at
    }

    /// When an attempt may start, if not at `now`.
    pub(super) fn refuses(self, rules: &Pace, now: Timestamp) -> Option<Timestamp> {
        let burst = rules.interval().saturating_mul(u64::from(rules.calls().get()) - 1);
        let from = Timestamp::from_nanos(self.full_at.as_nanos().saturating_sub(burst.get()));
        (now < from).then_some(from)
    }

    pub(super) fn admit(&mut self, rules: &Pace, now: Timestamp) {
        // Rules may have become stricter or laxer: the bucket is never emptier than empty.
        let most = now.after(Nanos::new(rules.per().get()));
        self.full_at = self.full_at.max(now).after(rules.interval()).min(most.max(now));
    }
}
