//! What was seen beside the histories: leases and reservations by the store's answers, and nodes that
//! were shut down.

use std::collections::{BTreeMap, BTreeSet};

use retrial::run::{Lapse, RunId, TaskId, Token};
use retrial::time::{Mono, Timestamp};

/// What the store said of leases and reservations.
#[derive(Clone, Debug, Default)]
pub struct LeaseEvidence {
    /// How often an answer was held against the ones before it.
    pub compared: u64,
    /// The answers that contradict the ones before them.
    pub contradictions: Vec<Contradiction>,
    /// Leases that another node than their holder's ended before their time.
    pub early_ends: Vec<EarlyEnd>,
    /// Leases that were ended because they had passed.
    pub lapsed: Vec<LapsedLease>,
    /// The node and its incarnation that asked for the lease of an attempt.
    pub started: BTreeMap<(RunId, Token), (String, u32)>,
    /// Reservations that their nodes made no use of.
    pub in_vain: Vec<VainReservation>,
    /// What had ended a lease whenever the store was asked which leases had passed. It may have been
    /// renewed since.
    pub told: BTreeSet<(RunId, Token, Lapse)>,
}

/// An answer of the store that contradicts the ones before it.
#[derive(Clone, Copy, Debug)]
pub struct Contradiction {
    /// The run and the task; `None` where it concerns no single one.
    pub place: Option<(RunId, TaskId)>,
    /// Store time of the answer.
    pub at: Timestamp,
    /// The mistake.
    pub slip: Slip,
}

/// A mistake of the store, given that what it said before was right, or of a node that asks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// A commit landed under a token that held nothing.
    LandedUnheld,
    /// A commit was refused although all of its tokens held.
    RefusedWhileHeld,
    /// A lease was renewed after its attempt's time, or that for a heartbeat, was over.
    RenewedPastItsEnd,
    /// A lease was called lost that was held.
    LostWhileHeld,
    /// A lease that had passed was not among those that had.
    LapseUntold,
    /// A renewal was answered for only some of its leases.
    RenewalUnanswered,
    /// A lease that had not passed was among those that had.
    LapsedTooEarly,
    /// Something else ended a lease than the store says.
    WrongLapse,
    /// A task was reserved for two at once.
    ReservedTwice,
    /// A task was reserved that an attempt had leased.
    ReservedWhileLeased,
    /// A claim that was sent again got another answer.
    AnotherAnswer,
    /// A claim with room left passed over a task that was due.
    DueUnclaimed,
    /// A claim took two tasks of one run and none of another that had one due.
    OutOfTurn,
    /// A claim took a task of a run and passed over one that was due before it.
    NotTheEarliest,
    /// A node did not renew a lease, and then stored the attempt's outcome or tried to.
    NotRenewed,
    /// A node that had no answer to a claim made another one.
    ClaimGivenUp,
}

/// A lease that a commit ended before its time, by another writer than its holder or as a lost one.
/// That is right where the holder was dead.
#[derive(Clone, Copy, Debug)]
pub struct EarlyEnd {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The token of the lease.
    pub token: Token,
    /// Store time of the commit.
    pub at: Timestamp,
    /// The end of the lease, by the store's last answer to its holder.
    pub until: Timestamp,
    /// True time of the commit's answer.
    pub seen: Mono,
}

/// A reservation that ended, of which no commit of its node had spoken.
#[derive(Clone, Copy, Debug)]
pub struct VainReservation {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// Store time of the claim.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

/// A lease that was ended because it had passed.
#[derive(Clone, Copy, Debug)]
pub struct LapsedLease {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The token of the lease.
    pub token: Token,
    /// What passed first.
    pub lapse: Lapse,
}

/// A shutdown in good order that ended before the time for it was over: so everything had ended.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// The node.
    pub node: String,
    /// Its incarnation.
    pub incarnation: u32,
    /// True time at which it was done.
    pub at: Mono,
    /// How many of its claims and starts of attempts had no answer then.
    pub unanswered: u32,
}
