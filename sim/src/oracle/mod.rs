//! The oracles: one for each promise of the design, each judging [`Evidence`] alone.
//!
//! Decides whether the evidence of a world keeps the promises. Written from the specification's
//! rows and decisions: it must never call the engine's decisions (`decide`, `apply`, verdicts,
//! backoff arithmetic), or a bug would excuse itself. To add an oracle, add a variant to
//! [`Promise`], a file with `judge`, an arm in [`judge_all`] and planted defects in
//! `sim/tests/oracles`.

mod answers;
mod attempt_records;
pub mod bit_rot;
pub mod branches;
pub mod by_hand;
pub mod cancellation;
pub mod classes;
mod costs;
mod could_meet;
pub mod durability;
pub mod error_budget;
pub mod event_refs;
pub mod exhaustion;
mod expected_state;
pub mod following;
pub mod free_places;
pub mod functions;
mod graph;
pub mod guards;
mod history;
pub mod interventions;
pub mod isolation;
pub mod jitter;
pub mod json_lines;
pub mod leases;
pub mod lists;
pub mod ownership;
mod policy_model;
pub mod policy_reader;
pub mod promptness;
pub mod quarantine;
pub mod replay;
pub mod rollback;
pub mod routing;
pub mod sequence;
pub mod silence;
mod step_outcomes;
pub mod submissions;
pub mod task_time;
pub mod termination;

use std::collections::BTreeMap;
use std::fmt;

use retrial::run::RunId;
use serde::Serialize;

pub(crate) use answers::{body_of, succeeds};
pub use could_meet::features_of;
pub(crate) use graph::{Truth, ensured, looks_at};
pub(crate) use guards::is_guarded;
pub use policy_model::{Delays, delays};
pub use replay::Replayer;
pub(crate) use silence::forms as spellings;

use crate::evidence::Evidence;

/// The promises, numbered as in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// 1: no infinite loop.
    Termination,
    /// 2: the right delays, no attempt before its time.
    Sequence,
    /// 3: exhaustion exactly once, then routing.
    Exhaustion,
    /// 4: replay gives the live state.
    Replay,
    /// 5: nothing lost.
    Durability,
    /// 6: one owner.
    Ownership,
    /// 7: branches do not touch each other.
    Isolation,
    /// 8: no secret shown.
    Silence,
    /// 9: what people do happens as they asked.
    Interventions,
    /// 10: guards hold.
    Guards,
}

impl Promise {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::Termination,
        Self::Sequence,
        Self::Exhaustion,
        Self::Replay,
        Self::Durability,
        Self::Ownership,
        Self::Isolation,
        Self::Silence,
        Self::Interventions,
        Self::Guards,
    ];

    /// Its number in the design, from 1.
    #[must_use]
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// The promise, in a sentence.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Termination => {
                "No infinite loop: attempts never exceed the policy's limit, the events kept of a \
                 run are bounded, and every run ends once faults stop."
            }
            Self::Sequence => {
                "Each delay is what the policy says, and no attempt starts before it is due or \
                 after the total timeout."
            }
            Self::Exhaustion => {
                "A task fails for good exactly once, after exactly the allowed attempts; then the \
                 failure is routed, and nothing starts after an end."
            }
            Self::Replay => {
                "A snapshot and the events after it give the live state, byte for byte, without \
                 invoking an action or waiting."
            }
            Self::Durability => {
                "Nothing is lost: what was acknowledged or told survives any crash, nothing is done \
                 before it is written, and what succeeded is not run again."
            }
            Self::Ownership => {
                "Each attempt has one owner: a stale delivery token changes nothing, whatever the \
                 clocks say."
            }
            Self::Isolation => {
                "One branch's retries and failures do not change another's history, and what is \
                 recorded of an attempt is what that attempt met, said and cost."
            }
            Self::Silence => "Secrets in errors, URLs, headers and payloads appear in no output.",
            Self::Interventions => {
                "What people do to runs and failed work happens as they asked, once, and touches \
                 nothing else."
            }
            Self::Guards => {
                "No attempt starts that a guard of its action forbids, and none is held back or \
                 denied without need."
            }
        }
    }
}

/// The promise's name, as its JSON spells it.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which promise.
    pub oracle: Promise,
    /// The run, where one is concerned.
    pub run: Option<RunId>,
    /// A short code that stays the same while a scenario is shrunk.
    pub reason: &'static str,
    /// A sentence with the events that prove it.
    pub text: String,
}

impl Finding {
    /// Whether it says that a run did not end in time, rather than that something was wrong.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.oracle == Promise::Termination
            && [termination::STUCK, termination::LATE].contains(&self.reason)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.oracle, self.reason)?;
        if let Some(run) = self.run {
            write!(f, "run {run}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// The report of one oracle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Its promise.
    pub oracle: Promise,
    /// How many things it looked at. Zero means that it proved nothing.
    pub judged: u64,
    /// How often it met each of the [`FEATURES`].
    pub features: BTreeMap<&'static str, u64>,
    /// The finding.
    pub findings: Vec<Finding>,
}

/// Rare cases. A sweep shows how often each was judged.
pub const FEATURES: [&str; 34] = [
    COUNT_PER_RULE,
    TRUNCATED,
    WRITTEN_DELAYS,
    OUTCOME_UNKNOWN,
    PRESET,
    PARTIAL,
    JOIN,
    GATHERED,
    REQUIRES,
    ENSURES,
    ROLLBACK,
    COMPENSATION,
    ALERT,
    ALERTS_TO_COME,
    WEBHOOK,
    guards::BREAKER,
    guards::PROBE,
    guards::CONCURRENCY,
    guards::RATE,
    guards::DENIED,
    guards::WAITED,
    guards::GROUP,
    guards::SHARE,
    quarantine::QUARANTINE,
    functions::FUNCTION,
    functions::CHECKED,
    functions::COST,
    functions::HEARTBEAT,
    functions::ELSEWHERE,
    bit_rot::REPORTED,
    bit_rot::SURVIVED,
    following::FOLLOWER,
    following::SOON_TOLD,
    FREE_PLACES,
];
/// An attempt on a node that has few places, where nothing else stands in its way.
pub(crate) const FREE_PLACES: &str = "few places";
/// An alert that was raised.
pub(crate) const ALERT: &str = "alert";
/// The alerts of an action with outcomes in a known order.
pub(crate) const ALERTS_TO_COME: &str = "alerts foretold";
/// A webhook's run.
pub(crate) const WEBHOOK: &str = "webhook";
/// A run that was rolled back.
pub(crate) const ROLLBACK: &str = "rollback";
/// Something that was undone.
pub(crate) const COMPENSATION: &str = "compensation";
/// The end of a fan-out that need not succeed as a whole.
pub(crate) const PARTIAL: &str = "partial success";
/// The beginning of a join that can do without some of its branches.
pub(crate) const JOIN: &str = "join";
/// The errors of several branches, as they were sent.
pub(crate) const GATHERED: &str = "errors of branches";
/// A precondition.
pub(crate) const REQUIRES: &str = "requires";
/// A broken postcondition.
pub(crate) const ENSURES: &str = "ensures";
/// A failure that leaves open whether harm was done, of an action that is not idempotent.
pub(crate) const OUTCOME_UNKNOWN: &str = "unknown outcome";
/// A retry under a preset.
pub(crate) const PRESET: &str = "preset";
/// A retry that counts against a rule of its own.
pub(crate) const COUNT_PER_RULE: &str = "count per rule";
/// A delay cut short at the total timeout.
pub(crate) const TRUNCATED: &str = "truncated delay";
/// A delay from a list or a polynomial.
pub(crate) const WRITTEN_DELAYS: &str = "list or polynomial";

impl Report {
    fn new(oracle: Promise) -> Self {
        Self { oracle, judged: 0, features: BTreeMap::new(), findings: Vec::new() }
    }

    /// Says that one of the [`FEATURES`] was met and is judged.
    fn met(&mut self, feature: &'static str) {
        *self.features.entry(feature).or_default() += 1;
    }

    /// Judges one thing.
    fn check(
        &mut self,
        holds: bool,
        run: impl Into<Option<RunId>>,
        reason: &'static str,
        text: impl FnOnce() -> String,
    ) {
        self.judged += 1;
        if !holds {
            let (oracle, run) = (self.oracle, run.into());
            self.findings.push(Finding { oracle, run, reason, text: text() });
        }
    }
}

/// Every oracle's report, in the order of the promises.
#[must_use]
pub fn judge_all(evidence: &Evidence, replayer: &dyn Replayer) -> Vec<Report> {
    if evidence.rot {
        return bit_rot::judge_all(evidence, replayer);
    }
    vec![
        termination::judge(evidence),
        sequence::judge(evidence),
        exhaustion::judge(evidence),
        replay::judge(evidence, replayer),
        durability::judge(evidence),
        ownership::judge(evidence),
        isolation::judge(evidence),
        silence::judge(evidence),
        interventions::judge(evidence),
        guards::judge(evidence),
    ]
}
