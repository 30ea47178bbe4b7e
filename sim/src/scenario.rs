//! Everything that one seed draws, as plain data: it can be saved, edited, shrunk and replayed.
//! Times are true simulated time, counted from the start of the world.

mod interventions;
mod reply;
mod topology;
mod user;
mod without;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use retrial::policy;
use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use interventions::{
    Cleanup, Follower, Interventions, LetterAct, LetterRound, ManualFailure, Pause, ReleaseRound,
};
pub use reply::{Reply, RetryAfter};
pub use topology::{NoNodeCount, NodeCount, Topology};
pub use user::{UserPart, UserStrike};

pub use crate::trace::Fork;

use crate::fault::FaultKind;
use crate::runtime::Priorities;

/// The host of every drawn endpoint: `http://api.test/e0` is the first one.
pub const ENDPOINT_HOST: &str = "api.test";

/// The name of the store's own node, where it has one.
pub const STORE: &str = "store";

/// The name of the endpoints' node.
pub const ENDPOINTS: &str = "endpoints";

/// One simulated world: who runs, what is asked of them, and what goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The seed of everything that is not listed here: latencies, run seeds, scheduling.
    pub seed: u64,
    /// Who runs and where they keep their runs.
    pub topology: Topology,
    /// How long a lease holds.
    pub lease: Nanos,
    /// How many attempts a node makes at once; an engine's defaults where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Places>,
    /// How long an attempt may take where its policy does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Nanos>,
    /// How many attempts in a row may lose their node before their task is held in quarantine; never
    /// held where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine_after: Option<NonZeroU32>,
    /// After how long without work a run leaves a node's memory; an engine's default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_idle: Option<Nanos>,
    /// How long a disk takes to sync, reads and writes in proportion; as a good one where absent. At
    /// zero all that waits only for a disk falls together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_takes: Option<Nanos>,
    /// Which of a node's tasks are polled first; any where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priorities: Option<Priorities>,
    /// One clock a node; in the shared topology the last one is the store's.
    pub clocks: Vec<NodeClock>,
    /// The workflows that submissions name by place.
    pub workflows: Vec<WorkflowText>,
    /// The answers of the endpoints.
    pub endpoints: Vec<EndpointPlan>,
    /// The runs that are asked for.
    pub submissions: Vec<Submission>,
    /// The runs that are cancelled.
    #[serde(default)]
    pub cancels: Vec<Cancel>,
    /// The runs that are deactivated for a while.
    #[serde(default, rename = "rests")]
    pub deactivations: Vec<Deactivation>,
    /// The other commands of users.
    #[serde(default, rename = "people")]
    pub interventions: Interventions,
    /// The registered functions that some nodes have not.
    #[serde(default, rename = "lacking", skip_serializing_if = "Vec::is_empty")]
    pub missing_functions: Vec<MissingFunction>,
    /// The scheduled faults, besides those in replies and clocks.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// When all faults stop, stalled and hung streams are reset, and dead nodes are started.
    pub heal_at: Mono,
    /// Whether endpoints answer well from `heal_at` on. A user's scenario may forbid it.
    #[serde(default = "yes")]
    pub endpoints_heal: bool,
    /// Texts that no output may contain.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// The part that a user's check brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<UserPart>,
    /// Where chance begins anew; nowhere where absent, as in all that is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
}

fn yes() -> bool {
    true
}

/// How many attempts a node makes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// All of them.
    pub all: u16,
    /// The percent of them that one action may take, but at least one.
    pub share: u8,
}

/// How one node's clocks differ from the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeClock {
    /// The offset of the wall clock, in nanoseconds.
    #[serde(default)]
    pub skew_ns: i64,
    /// How much faster the monotonic clock runs, in millionths; negative is slower.
    #[serde(default)]
    pub drift_ppm: i32,
    /// Steps of the wall clock.
    #[serde(default)]
    pub jumps: Vec<Jump>,
}

/// A step of a wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jump {
    /// When.
    pub at: Mono,
    /// By how much, in nanoseconds; negative is back.
    pub by_ns: i64,
}

/// A workflow as a user would write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowText {
    /// The syntax of `text`.
    pub format: Format,
    /// The workflow file, or the IR program.
    pub text: String,
    /// The file that declares an IR program's actions and input, in TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<String>,
    /// Policies built in Rust, by step id; they replace the step's own.
    #[serde(default)]
    pub builder: BTreeMap<String, policy::PolicyParts>,
}

/// The syntax of a workflow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
    /// IR text, named after its place: the first is `w0`.
    Ir,
    /// The JSON of a [`retrial::workflow::Workflow`] as stores keep it.
    Stored,
}

/// The answers of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointPlan {
    /// The path of its URL, from `/`.
    pub path: String,
    /// Scripts: the k-th distinct receipt token that arrives follows `scripts[k % len]`, its n-th
    /// arrival (from 0) getting the n-th reply.
    pub scripts: Vec<Vec<Reply>>,
    /// The reply after the script is used up. Once healed, it applies only if it is a success;
    /// otherwise `success_true` does.
    pub then: Reply,
    /// What an answer to a first arrival says that the attempt cost, in millionths; one to the n-th
    /// after it says n more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

/// A run that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// When.
    pub at: Mono,
    /// The node that is asked first, from 0; the next one is asked when it does not answer.
    pub node: u32,
    /// The workflow's place in [`Scenario::workflows`].
    pub workflow: usize,
    /// The input, laid over the workflow's defaults.
    #[serde(default)]
    pub input: Map<String, Value>,
    /// The idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A run that is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// When.
    pub at: Mono,
    /// The node that is asked, from 0.
    pub node: u32,
    /// The run, by its submission's place in [`Scenario::submissions`].
    pub submission: usize,
    /// Whether its successes are undone, also if its workflow does not say so.
    #[serde(default)]
    pub rollback: bool,
}

/// A run that is deactivated, and activated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deactivation {
    /// When it is deactivated.
    pub from: Mono,
    /// When it is activated; before everything heals.
    pub until: Mono,
    /// The node that is asked first, from 0.
    pub node: u32,
    /// The run, by its submission's place in [`Scenario::submissions`].
    pub submission: usize,
    /// Whether it is archived meanwhile.
    #[serde(default)]
    pub archive: bool,
}

/// A registered function that one node has not. Another node has it, so the run can finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingFunction {
    /// The node, from 0.
    pub node: u32,
    /// The function's name.
    pub function: String,
}

/// A fault. The meaning of `target`, `peer`, `when` and `lasts`, by kind:
///
/// - `crash`: the target dies at a poll or an instant and starts again after `lasts`;
/// - `torn_write`, `lost_write`: the same at the n-th call of its disk, with that fate for what was
///   not synced;
/// - `eio`: the n-th call of the target's disk fails;
/// - `disk_full`: during a window the target's disk has no room for what was never written before;
/// - `slow_sync`: the n-th sync of the target's disk takes `lasts` longer;
/// - `bit_rot`: at the n-th call of the target's disk a bit of what is durable flips; where `lasts`
///   is more than nothing the target dies of it, and starts again after that;
/// - `pause`: the target stands still for `lasts`;
/// - `slow_node`: during a window the target stands still for `lasts` again and again;
/// - `shutdown`: the target is shut down in good order and starts again after `lasts`;
/// - `refuse`, `connect_hang`, `stall`, `partition`: what the target sends to the peer meets this
///   during a window;
/// - `one_way`: what the target sends does not reach the peer during a window;
/// - `loss`: during a window packets between the two are lost and sent again;
/// - `delay`: likewise, each piece taking `lasts` longer;
/// - `reset`, `cut`: the target's n-th connection to the peer breaks after byte n of the answer;
/// - `store_request_lost`, `store_answer_lost`: the target's n-th request to the store meets this;
/// - `store_duplicate`: that request arrives again after `lasts`.
///
/// The other kinds stand in replies and clocks, never here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// Where.
    pub target: Place,
    /// The other end, for a fault of one link or direction; without it every peer is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Place>,
    /// When.
    pub when: When,
    /// How long a pause, a delay of bytes, the time until a crashed node starts again or the time
    /// until a request arrives again lasts.
    #[serde(default)]
    pub lasts: Nanos,
}

/// Where something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// An engine's node, from 0, with its disk where it has one.
    Node(u32),
    /// The store's node and disk in the shared topology.
    Store,
    /// The endpoints' node.
    Endpoints,
}

impl Place {
    /// The name of the node here.
    #[must_use]
    pub fn node(self) -> String {
        match self {
            Self::Node(number) => format!("node-{number}"),
            Self::Store => STORE.to_owned(),
            Self::Endpoints => ENDPOINTS.to_owned(),
        }
    }
}

/// When something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At an instant.
    At(Mono),
    /// Whenever it can, from one instant until before the other.
    During {
        /// From here.
        from: Mono,
        /// Until before here.
        until: Mono,
    },
    /// At the n-th poll of the node's tasks since it was last started, from 1.
    Poll(u64),
    /// At the n-th disk call, disk sync or store request of the target, from 1.
    Call(u64),
    /// On the target's n-th connection (from 1), at this byte of what it reads.
    Byte {
        /// Which connection.
        connection: u64,
        /// After how many bytes.
        byte: u64,
    },
}

impl Scenario {
    /// Every kind of fault that was drawn, in the schedule, the replies or the clocks.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<FaultKind> {
        let mut kinds: BTreeSet<_> = self.faults.iter().map(|f| f.kind).collect();
        kinds.extend(self.replies().filter_map(Reply::fault));
        if self.clocks.iter().any(|c| c.skew_ns != 0) {
            kinds.insert(FaultKind::Skew);
        }
        if self.clocks.iter().any(|c| !c.jumps.is_empty()) {
            kinds.insert(FaultKind::Jump);
        }
        if self.clocks.iter().any(|c| c.drift_ppm != 0) {
            kinds.insert(FaultKind::Drift);
        }
        kinds
    }

    /// Every reply of every endpoint.
    pub fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.endpoints.iter().flat_map(|e| e.scripts.iter().flatten().chain([&e.then]))
    }
}
