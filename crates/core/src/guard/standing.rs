use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The state of an action's guards, for display. Nothing is decided by it: its meaning depends on the
/// rules, which each run has pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its circuit breaker.
    pub breaker: BreakerStanding,
    /// The attempts in progress.
    pub running: u64,
    /// When its rate limit will be as if nothing had started; in the past where it is.
    pub unpaced_at: Timestamp,
    /// What its retry budget held when it last changed, in millionths of a token. None before
    /// anything has touched it.
    pub tokens_millionths: Option<u64>,
    /// What its error budget has counted.
    pub errors: Outcomes,
    /// The alerts that stand, as shares of its error budget in millionths, in the order in which
    /// they were raised.
    pub alerts_millionths: Vec<u64>,
}

/// Outcomes within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// All of them.
    pub calls: u64,
    /// Those that were failures.
    pub failures: u64,
}

/// How a circuit breaker stands. One that the rules don't have is closed and has counted nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BreakerStanding {
    /// Attempts start.
    Closed {
        /// The failures since the last success.
        in_a_row: u32,
        /// What its rate of failures has counted.
        recent: Outcomes,
    },
    /// No attempt starts.
    Open {
        /// Until then; after it the next attempt is a probe.
        until: Timestamp,
    },
    /// Probes are out.
    HalfOpen {
        /// Those that have succeeded.
        successes: u32,
    },
}
