use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::error::GuardError;
use super::window::{Counts, Window};
use crate::policy::Share;
use crate::time::{Nanos, Timestamp};

const WHOLE: u128 = 1_000_000;

/// The share of outcomes that may be failures, and the shares of it that raise alerts: the error
/// budget of a service level objective (Google's SRE Workbook, "Alerting on SLOs").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct ErrorBudget(Parts);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Parts {
    #[serde(rename = "target_millionths")]
    target: Share,
    window: Nanos,
    min_calls: NonZeroU32,
    #[serde(rename = "alerts_millionths")]
    alerts: Vec<u64>,
}

impl ErrorBudget {
    /// How far back outcomes count unless set: an hour.
    pub const WINDOW: Nanos = Nanos::from_secs(3_600);
    /// Fewer outcomes than this raise nothing, unless set.
    pub const MIN_CALLS: NonZeroU32 = NonZeroU32::MIN.saturating_add(19);
    /// The alerts unless set: a half, nine tenths and all of the budget, in millionths.
    pub const ALERTS: [u64; 3] = [500_000, 900_000, 1_000_000];
    /// The most alerts of one budget.
    pub const MOST_ALERTS: usize = 10;

    /// A budget of `1 - target` of the outcomes within `window`. `alerts` are shares of it, in
    /// millionths; the order does not matter.
    ///
    /// # Errors
    /// When nothing or everything may fail, the window is no time, or an alert is not a possible share of the budget.
    pub fn new(
        target: Share,
        window: Nanos,
        min_calls: NonZeroU32,
        alerts: impl IntoIterator<Item = u64>,
    ) -> Result<Self, GuardError> {
        Self::try_from(Parts { target, window, min_calls, alerts: alerts.into_iter().collect() })
    }

    /// The share of outcomes that must not be failures.
    #[must_use]
    pub fn target(&self) -> Share {
        self.0.target
    }

    /// How far back outcomes count, to a tenth of itself.
    #[must_use]
    pub fn window(&self) -> Nanos {
        self.0.window
    }

    /// Fewer outcomes than this within the window raise nothing.
    #[must_use]
    pub fn min_calls(&self) -> NonZeroU32 {
        self.0.min_calls
    }

    /// The shares of the budget that raise an alert, in millionths, rising.
    #[must_use]
    pub fn alerts(&self) -> &[u64] {
        &self.0.alerts
    }

    /// The budget, in millionths of all outcomes.
    fn allowed(&self) -> u128 {
        WHOLE - u128::from(self.0.target.millionths())
    }

    /// The share of the budget that is burnt, in millionths, rounded down.
    fn burnt(&self, counts: Counts) -> u64 {
        let whole = self.allowed() * u128::from(counts.calls.max(1));
        let share = u128::from(counts.failures) * WHOLE * WHOLE / whole;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Whether as much as `share` millionths of the budget are burnt by one outcome or more.
    fn reaches(&self, counts: Counts, share: u64) -> bool {
        let least = u128::from(share) * self.allowed() * u128::from(counts.calls);
        u128::from(counts.failures) * WHOLE * WHOLE >= least
    }
}

impl TryFrom<Parts> for ErrorBudget {
    type Error = GuardError;

    fn try_from(mut parts: Parts) -> Result<Self, GuardError> {
        parts.alerts.sort_unstable();
        parts.alerts.dedup();
        let allowed = WHOLE - u128::from(parts.target.millionths());
        // All outcomes failed: nothing burns more than that.
        let out_of_reach = |share: &u64| u128::from(*share) * allowed > WHOLE * WHOLE;
        match &parts.alerts[..] {
            _ if allowed == 0 || allowed == WHOLE => Err(GuardError::NoErrorBudget),
            _ if parts.window.is_zero() => Err(GuardError::NoWindow),
            [] | [0, ..] => Err(GuardError::NoAlert),
            all if all.len() > Self::MOST_ALERTS => Err(GuardError::TooManyAlerts),
            [.., most] if out_of_reach(most) => Err(GuardError::AlertOutOfReach),
            _ => Ok(Self(parts)),
        }
    }
}

impl From<ErrorBudget> for Parts {
    fn from(budget: ErrorBudget) -> Self {
        budget.0
    }
}

/// An alert as it is raised, with what was counted then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alert {
    /// The share of the budget that raised it, in millionths.
    pub threshold: u64,
    /// The share that was burnt, in millionths, rounded down. May be more than the whole.
    pub burnt: u64,
    /// The failures within the window, the one that raised it included.
    pub failures: u64,
    /// The outcomes within the window.
    pub calls: u64,
}

/// The state of an error budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Burning {
    window: Window,
    /// The alerts that stand.
    raised: Vec<u64>,
}

impl Burning {
    pub(super) fn is_new(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn counts(&self, now: Timestamp) -> Counts {
        self.window.counts(now)
    }

    pub(super) fn raised(&self) -> &[u64] {
        &self.raised
    }

    /// Counts one outcome. An alert is lowered when less than half of its share is burnt, or when
    /// nothing was left within the window; a failure raises each that is reached and not raised.
    pub(super) fn hear(&mut self, rules: &ErrorBudget, failed: bool, now: Timestamp) -> Vec<Alert> {
        self.window.note(failed, rules.window(), now);
        let counts = self.window.counts(now);
        invariant!(counts.failures >= u64::from(failed), "the outcome itself is counted");
        let emptied = counts.calls == 1;
        self.raised.retain(|share| !emptied && rules.reaches(counts, share.div_ceil(2)));
        if !failed || counts.calls < u64::from(rules.min_calls().get()) {
            return Vec::new();
        }
        let is_new = |share: &&u64| !self.raised.contains(share) && rules.reaches(counts, **share);
        let new: Vec<u64> = rules.alerts().iter().filter(is_new).copied().collect();
        self.raised.extend(&new);
        let (burnt, Counts { failures, calls }) = (rules.burnt(counts), counts);
        new.into_iter().map(|threshold| Alert { threshold, burnt, failures, calls }).collect()
    }
}
