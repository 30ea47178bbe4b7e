//! The evidence of a world, as plain data: the input of the oracles.

mod followed;
mod interventions;
mod leases;
mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use bytes::Bytes;
use retrial::failure::ErrorCode;
use retrial::run::{Recorded, RunId, TaskId, Version};
use retrial::store::Hold;
use retrial::time::{Mono, Nanos, Timestamp};
use serde::{Deserialize, Serialize};

pub use followed::{Followed, Told};
pub use interventions::{ByHand, InterventionEvidence, Listing, Pruning, RedriveAnswer};
pub use leases::{
    Contradiction, EarlyEnd, LapsedLease, LeaseEvidence, Shutdown, Slip, VainReservation,
};
pub use runs::RunEvidence;

use crate::fault::FaultKind;
use crate::incarnation::Lifespan;
use crate::runtime::FunctionPanic;
use crate::scenario::{Places, Reply};
use crate::user::{Request, Response, UserEvidence};

/// How the source of a node's JSON lines begins: `json node-0/1` are those of its second
/// incarnation.
pub const JSON_LINES: &str = "json";
/// The source of what all nodes counted: `name{label=value,...} count`, a line a counter.
pub const METRICS: &str = "metrics";

/// The evidence of one world.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The runs that were asked for, acknowledged or not.
    pub runs: Vec<RunEvidence>,
    /// The events that observers received, in that order.
    pub observed: Vec<ObservedEvent>,
    /// The requests that arrived at the endpoints, in the order of arrival.
    pub ledger: Vec<Arrival>,
    /// The registered functions that some node lacks.
    pub missing_functions: BTreeSet<String>,
    /// How many attempts a node makes at once, where that is drawn.
    pub places: Option<Places>,
    /// How long an attempt may take where its policy does not say.
    pub attempt_timeout: Option<Nanos>,
    /// How many attempts in a row might lose their node before their task was held in quarantine.
    pub quarantine_after: Option<NonZeroU32>,
    /// How often each kind of fault struck.
    pub strikes: BTreeMap<FaultKind, u64>,
    /// Every incarnation of every node.
    pub lifespans: Vec<Lifespan>,
    /// When the faults stopped and when the world ended.
    pub phases: Phases,
    /// How far the clocks may be from the truth.
    pub clock: ClockBounds,
    /// Whether a bit rotted: then what is reported as damaged may be lost.
    pub rot: bool,
    /// Whether the store said that it could not be opened, and nothing was read back.
    pub store_lost: bool,
    /// Every event that was sent to the store; recorded only where bit rot is planned.
    pub sent: Vec<CommitRecord>,
    /// Texts that no output may contain.
    pub secrets: Vec<String>,
    /// Every text that was put out.
    pub outputs: Vec<Output>,
    /// The commands of users, and the dead letters in the store.
    pub interventions: InterventionEvidence,
    /// How many commits were refused because their token was stale.
    pub fenced: u64,
    /// What the store said of leases and reservations.
    pub leases: LeaseEvidence,
    /// The shutdowns in good order that were not cut short.
    pub shutdowns: Vec<Shutdown>,
    /// The acts of registered functions, and the returns of all actions.
    pub function_records: Vec<FunctionRecord>,
    /// The answers of the store to commits of runs with guarded actions.
    pub answers: Vec<StoreAnswer>,
    /// True time at which a node first asked the store to write an event of this number.
    pub asked: BTreeMap<(RunId, Version), Mono>,
    /// How many polls and disk calls each node had made when everything healed.
    pub steps: BTreeMap<String, Steps>,
    /// The record of the user's code.
    pub own: UserEvidence,
    /// The requests that reached a user's own services, in the order of arrival.
    pub requests: Vec<ServiceRequest>,
    /// Panics of registered functions that their attempts outlived.
    pub panics: Vec<FunctionPanic>,
}

impl Evidence {
    /// Whether a fault of one of these kinds struck.
    #[must_use]
    pub fn struck(&self, kinds: &[FaultKind]) -> bool {
        kinds.iter().any(|kind| self.strikes.get(kind).is_some_and(|n| *n > 0))
    }
}

/// How many moments a node has had at which it might have died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Polls of its tasks.
    pub polls: u64,
    /// Calls of its disk.
    pub calls: u64,
}

/// A request that reached a user's own service.
#[derive(Clone, Debug)]
pub struct ServiceRequest {
    /// True time at which the request was whole.
    pub at: Mono,
    /// The service's host.
    pub service: String,
    /// The node that sent it.
    pub node: String,
    /// The request.
    pub request: Request,
    /// The answer of the service; `None` if it was not asked or had not answered.
    pub response: Option<Response>,
    /// Whether the whole answer was given. It may still have been lost on the way.
    pub is_handed_over: bool,
}

/// Something that an attempt of a registered function did, or the return of any action.
#[derive(Clone, Debug)]
pub struct FunctionRecord {
    /// True time.
    pub at: Mono,
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The act.
    pub did: FunctionEvent,
}

/// One act of a registered function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionEvent {
    /// Its precondition was looked at.
    Checked,
    /// Its precondition did not hold.
    Refused,
    /// It began, with this progress of earlier attempts.
    Began(Option<u64>),
    /// It gave a heartbeat with this progress.
    Beat(u64),
    /// It sent a heartbeat without progress.
    Alive,
    /// It said that it cost so many millionths more.
    TaskTime(u64),
    /// It returned, well or not. Recorded of the simulation's functions and HTTP actions.
    Returned,
    /// It returned a failure. Recorded of user functions only.
    Failed {
        /// The failure's code.
        code: ErrorCode,
        /// Whether it reports that its effect is unknown.
        unknown: bool,
    },
}

/// An answer of the store to a commit, as seen beside the store. In the order of the answers; the
/// store may have decided those of one instant in another order.
#[derive(Clone, Debug)]
pub enum StoreAnswer {
    /// The store restarted, or did not know whether a commit landed. Commits without an answer
    /// landed at such a place.
    Unsure,
    /// The commit landed.
    Landed(CommitRecord),
    /// Guards held something back, so nothing landed.
    Held(CommitRecord, Vec<Hold>),
    /// No answer: the commit was sent here, and the store was [unsure](Self::Unsure) before it
    /// answered. Until then it may have held others back by what it has lost.
    Asked(CommitRecord),
}

/// A commit to one run.
#[derive(Clone, Debug)]
pub struct CommitRecord {
    /// Store time of the answer: exact, where it is the first to this.
    pub at: Timestamp,
    /// The incarnation of the node that sent it.
    pub writer: u64,
    /// The run.
    pub run: RunId,
    /// The number of the first event.
    pub first: Version,
    /// The events.
    pub events: Vec<Recorded>,
}

/// One event as an observer received it.
#[derive(Clone, Debug)]
pub struct ObservedEvent {
    /// The node that reported it.
    pub node: String,
    /// That node's incarnation, from 0.
    pub incarnation: u32,
    /// True time.
    pub at: Mono,
    /// The run.
    pub run: RunId,
    /// The event's number.
    pub number: Version,
    /// The event.
    pub recorded: Recorded,
}

/// One request that reached an endpoint.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// True time at which the request was whole.
    pub at: Mono,
    /// The path of its URL.
    pub path: String,
    /// `Receipt-Token`.
    pub receipt_token: Option<String>,
    /// `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// `X-Retry-Attempt`: 0 for the first attempt.
    pub retry_attempt: Option<u32>,
    /// `X-Retry-Timeout-Ms`.
    pub retry_timeout_ms: Option<u64>,
    /// The body.
    pub body: Bytes,
    /// The cost that its answer names, in millionths.
    pub cost: Option<u64>,
    /// The reply that the endpoint chose.
    pub reply: Reply,
    /// True time at which it had given all of its answer, if it did.
    pub answered_at: Option<Mono>,
    /// True time at which the exchange ended, well or not, if it did.
    pub ended_at: Option<Mono>,
    /// How it ended, as the endpoint saw it.
    pub end: ArrivalEnd,
}

/// How an exchange ended, as the endpoint saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalEnd {
    /// The whole answer was given; the caller may still have missed it.
    Answered,
    /// The caller went away first.
    CallerGone,
    /// The endpoint cut the stream on purpose.
    CutShort,
    /// Still open when the world ended.
    Open,
}

/// When the faults stopped and when the world ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// True time at which everything healed.
    pub healed_at: Mono,
    /// True time at which the world ended.
    pub ended_at: Mono,
    /// How long after healing every run must have ended.
    pub bound: Bound,
}

/// How long after healing every run must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Within this time.
    Within(Nanos),
    /// Never, by policy: endpoints stay broken and retries are unlimited.
    UnboundedByPolicy,
}

impl Default for Bound {
    fn default() -> Self {
        Self::Within(Nanos::MAX)
    }
}

/// How far clocks may be from the truth.
#[derive(Clone, Debug, Default)]
pub struct ClockBounds {
    /// The largest drift of any monotonic clock, in millionths.
    pub drift_ppm: u32,
    /// A fixed tolerance on top.
    pub slack: Nanos,
    /// True times at which the store's own clock may have leapt ahead: it was opened again under
    /// another wall clock. Waits across one are not judged in true time.
    pub jumps: Vec<Mono>,
}

impl ClockBounds {
    /// How much two clocks may disagree about a wait of `span`.
    #[must_use]
    pub fn tolerance(&self, span: Nanos) -> Nanos {
        let part = u128::from(span.get()) * 2 * u128::from(self.drift_ppm) / 1_000_000;
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        self.slack.saturating_add(Nanos::new(part))
    }

    /// Whether the store's clock may have leapt between the two.
    #[must_use]
    pub fn leapt(&self, from: Mono, until: Mono) -> bool {
        self.jumps.iter().any(|at| (from..=until).contains(at))
    }
}

/// A text that was put out.
#[derive(Clone, Debug)]
pub struct Output {
    /// Where: `printer`, `json node-0/0`, `spans`, `metrics` and so on.
    pub source: String,
    /// Its text.
    pub text: String,
}
