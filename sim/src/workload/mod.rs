//! Draws a whole [`Scenario`] from a seed, and says how long its runs may take once healed.
//!
//! Decides how often each thing is drawn. Must never know engines, stores or sockets: a scenario is
//! plain data. Swarm testing: each seed switches a random subset of fault kinds on, so some seeds
//! have one kind alone and others have many together. To add a fault, add its kind to `FaultKind`
//! and an arm in `faults` (or `replies`, if an endpoint does it); to add a shape of graph, add it
//! to `graphs`.

mod alerts;
mod backoff_functions;
mod bound;
mod check_plan;
mod draw;
mod faults;
mod graphs;
mod guards;
mod interventions;
mod partial_success;
mod policies;
mod read;
mod registered_functions;
mod replies;
mod requests;
mod sagas;
mod shared_actions;
mod simulate_table;
mod sketch;
mod task_order;
mod user_workflow;
mod webs;
mod workflow_text;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use retrial::time::{Mono, Nanos};

pub use backoff_functions::{BACKOFFS, functions};
pub use bound::bound;
pub(crate) use bound::guarded;
pub(crate) use check_plan::{CheckPlan, Text, UserKind};
pub use draw::Draw;
pub use read::workflow;
pub use registered_functions::names as registered;
pub use task_order::TaskOrder;
pub use user_workflow::{UserPlan, UserPlanError};

use crate::fault::FaultKind;
use crate::scenario::{Cancel, Deactivation, EndpointPlan, Places, Scenario, Submission, Topology};
use sketch::Draft;

/// Of a hundred seeds that would let bits rot, how many do: what rots can't be judged in full.
const ROTTEN: u64 = 35;

/// Of a hundred seeds, how many are crowded.
const CROWDED: u64 = 4;

/// The kinds that a seed has switched on.
struct Swarm {
    kinds: BTreeSet<FaultKind>,
    topology: Topology,
    heal_at: Mono,
    secrets: Vec<String>,
    /// Whether most answers come late: an attempt that takes long meets more.
    slow: bool,
    /// Whether nothing goes wrong, and much more is due at once than the nodes have places for.
    crowded: bool,
    /// How long an attempt may take where its policy does not say.
    attempt_timeout: Option<Nanos>,
    /// How many attempts in a row may lose their node.
    quarantine_after: Option<NonZeroU32>,
}

impl Swarm {
    fn draw(seed: u64) -> Self {
        let mut draw = Draw::new(seed, "swarm");
        let shared = draw.chance(45);
        let topology = Topology::of(if shared { draw.small(2, 3) } else { 1 });
        let share = draw.pick([0, 10, 25, 50]);
        let remote =
            [FaultKind::StoreRequestLost, FaultKind::StoreAnswerLost, FaultKind::StoreDuplicate];
        let kinds = FaultKind::ALL
            .into_iter()
            .filter(|k| *k != FaultKind::Poison && draw.chance(share))
            .filter(|k| shared || !remote.contains(k))
            .filter(|k| *k != FaultKind::BitRot || Draw::new(seed, "rot").chance(ROTTEN))
            .chain(Draw::new(seed, "poison").chance(share).then_some(FaultKind::Poison))
            .collect();
        let heal_at = Mono::from_nanos(draw.millis(2_000, 20_000).get());
        let secrets = (0..3).map(|_| format!("s3cr3t{:016x}", draw.bits())).collect();
        let (slow, crowded) = (draw.chance(20), false);
        let mut draw = Draw::new(seed, "attempt timeout");
        let attempt_timeout = draw.chance(30).then(|| draw.millis(500, 4_000));
        let mut draw = Draw::new(seed, "quarantine");
        let quarantine_after = NonZeroU32::new(draw.pick([0, 1, 2, 3]));
        Self { kinds, topology, heal_at, secrets, slow, crowded, attempt_timeout, quarantine_after }
    }

    /// Now and then nothing goes wrong, and there is much to do.
    fn crowded(self, seed: u64) -> Self {
        match Draw::new(seed, "crowd").chance(CROWDED) {
            true => Self { kinds: BTreeSet::new(), slow: true, crowded: true, ..self },
            false => self,
        }
    }

    fn on(&self, kind: FaultKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether something may keep an attempt from ever ending by itself.
    fn hangs(&self) -> bool {
        use FaultKind::{ConnectHang, EndpointHang, Partition, SlowStream, Stall};
        [ConnectHang, EndpointHang, Partition, SlowStream, Stall].into_iter().any(|k| self.on(k))
    }
}

/// Everything that `seed` draws.
#[must_use]
pub fn draw(seed: u64) -> Scenario {
    let swarm = Swarm::draw(seed).crowded(seed);
    let mut work = Draw::new(seed, "workflows");
    let count = work.pick([1, 1, 1, 2, 2, 3]);
    let mut drafts: Vec<Draft> = (0..count).map(|n| graphs::draw(&mut work, &swarm, n)).collect();
    if !swarm.crowded {
        guards::draw(seed, &mut drafts);
    }
    registered_functions::draw(seed, &mut drafts);
    shared_actions::draw(seed, &mut drafts);
    requests::draw(seed, &mut drafts);
    let mut search = Draw::new(seed, "search");
    for draft in &mut drafts {
        draft.search = search.pick([&[], &[], &["n"], &["word", "n", "none"]]);
    }
    let webhooks = alerts::add(seed, &swarm, &mut drafts);
    let mut answers = Draw::new(seed, "replies");
    let mut endpoints: Vec<EndpointPlan> = drafts
        .iter()
        .flat_map(|d| &d.steps)
        .filter(|step| step.shares.is_none())
        .map(|step| replies::plan(&mut answers, &swarm, step))
        .chain(webhooks)
        .collect();
    replies::costs(&mut Draw::new(seed, "costs"), &mut endpoints);
    if swarm.on(FaultKind::Poison) {
        replies::poison(&mut Draw::new(seed, "poisoned"), &mut endpoints);
    }
    let submissions = submissions(seed, &swarm, &drafts);
    let cancels = cancels(seed, &swarm, &submissions, &drafts);
    let deactivations = deactivations(seed, &swarm, &submissions);
    let interventions = interventions::draw(seed, &swarm, &submissions);
    let (mut formats, mut stands) = (Draw::new(seed, "texts"), Draw::new(seed, "policy places"));
    let mut write = |draft| workflow_text::write(&mut formats, &mut stands, draft);
    Scenario {
        seed,
        topology: swarm.topology,
        lease: Nanos::from_secs(Draw::new(seed, "lease").pick([1, 3, 30])),
        places: places(seed, swarm.crowded),
        attempt_timeout: swarm.attempt_timeout,
        quarantine_after: swarm.quarantine_after,
        lane_idle: lane_idle(seed),
        sync_takes: sync_takes(seed),
        clocks: faults::clocks(seed, &swarm),
        workflows: drafts.iter().map(&mut write).collect(),
        endpoints,
        submissions,
        cancels,
        deactivations,
        interventions,
        faults: faults::schedule(seed, &swarm),
        heal_at: swarm.heal_at,
        missing_functions: registered_functions::missing_functions(seed, swarm.topology, &drafts),
        endpoints_heal: true,
        secrets: swarm.secrets,
        priorities: task_order::priorities(seed),
        own: None,
        fork: None,
    }
}

/// Now and then runs leave a node's memory as soon as nothing is to be done for them.
fn lane_idle(seed: u64) -> Option<Nanos> {
    let mut draw = Draw::new(seed, "idle");
    draw.chance(30).then(|| Nanos::from_millis(draw.pick([1, 50, 300, 2_000])))
}

/// Now and then disks take no time, as in memory, so that much falls on one instant; or very little.
fn sync_takes(seed: u64) -> Option<Nanos> {
    let mut draw = Draw::new(seed, "sync");
    draw.chance(25).then(|| Nanos::new(draw.pick([0, 0, 0, 100_000])))
}

/// Now and then a node has few places, so that one action may take its share of them.
fn places(seed: u64, crowded: bool) -> Option<Places> {
    let mut draw = Draw::new(seed, "places");
    (draw.chance(35) || crowded).then(|| Places {
        all: draw.pick([1, 2, 3, 4, 4, 8]),
        share: draw.pick([75, 75, 75, 50, 34, 100]),
    })
}

/// Everything that `seed` draws, with the tasks of each node in another order.
#[must_use]
pub fn draw_in_order(seed: u64, order: TaskOrder) -> Scenario {
    let priorities = order.draw(&mut Draw::new(seed, "order"));
    Scenario { priorities, ..draw(seed) }
}

/// Everything that `seed` draws, with further faults of `kind`.
#[must_use]
pub fn draw_more(seed: u64, kind: FaultKind) -> Scenario {
    let mut scenario = draw(seed);
    scenario.faults.extend(faults::more(seed, &Swarm::draw(seed), kind));
    scenario
}

/// A few runs over the first half of the faults, now and then all at once, now and then the same
/// one asked for twice.
fn submissions(seed: u64, swarm: &Swarm, drafts: &[Draft]) -> Vec<Submission> {
    let mut draw = Draw::new(seed, "submissions");
    let (count, burst) = (draw.pick([1, 1, 2, 3, 4, 8]), draw.chance(30));
    let (count, burst) = if swarm.crowded { (12, true) } else { (count, burst) };
    let half = Mono::from_nanos(swarm.heal_at.as_nanos() / 2);
    let together = draw.instant(half);
    let mut found: Vec<Submission> = Vec::new();
    for n in 0..count {
        let workflow = draw.index(drafts.len());
        let submission = Submission {
            at: if burst { together } else { draw.instant(half) },
            node: draw.small(0, swarm.topology.nodes() - 1),
            workflow,
            input: drafts.get(workflow).map(|d| d.input_of_a_run(&mut draw)).unwrap_or_default(),
            key: draw.chance(40).then(|| format!("order-{n}")),
        };
        if submission.key.is_some() && draw.chance(30) {
            let mut again = Submission { at: draw.instant(swarm.heal_at), ..submission.clone() };
            let mut other = Draw::new(seed, &format!("again {n}"));
            if other.chance(30) {
                let draft = drafts.get(workflow);
                again.input = draft.map(|d| d.input_of_a_run(&mut other)).unwrap_or_default();
            }
            found.push(again);
        }
        found.push(submission);
    }
    found.sort_by_key(|s| s.at);
    found
}

/// Runs that roll back are cancelled more often, and more often twice.
fn cancels(seed: u64, swarm: &Swarm, submissions: &[Submission], drafts: &[Draft]) -> Vec<Cancel> {
    let mut draw = Draw::new(seed, "cancels");
    let rolls_back =
        |s: &Submission| drafts.get(s.workflow).is_some_and(|draft| draft.rollback.is_some());
    let saga = submissions.iter().position(rolls_back).filter(|_| draw.chance(45));
    if saga.is_none() && !draw.chance(20) {
        return Vec::new();
    }
    let submission = saga.unwrap_or_else(|| draw.index(submissions.len()));
    let from = submissions.get(submission).map_or(Mono::from_nanos(0), |s| s.at);
    let at = from.after(draw.millis(0, 4_000));
    let node = draw.small(0, swarm.topology.nodes() - 1);
    let first = Cancel { at, node, submission, rollback: draw.chance(40) };
    // Calling a run off twice stops its rollback.
    let again = draw.chance(if saga.is_some() { 60 } else { 30 }).then(|| Cancel {
        at: at.after(draw.millis(0, 2_000)),
        rollback: draw.chance(30),
        ..first
    });
    [Some(first), again].into_iter().flatten().collect()
}

/// Now and then a run is left alone for a while. It is taken back by the time that everything
/// heals, so the bound holds for it as well.
fn deactivations(seed: u64, swarm: &Swarm, submissions: &[Submission]) -> Vec<Deactivation> {
    let mut draw = Draw::new(seed, "rests");
    if !draw.chance(20) {
        return Vec::new();
    }
    let submission = draw.index(submissions.len());
    let asked = submissions.get(submission).map_or(Mono::from_nanos(0), |s| s.at);
    let from = asked.after(draw.millis(0, 3_000)).min(swarm.heal_at);
    let until = from.after(draw.millis(50, 6_000)).min(swarm.heal_at);
    let node = draw.small(0, swarm.topology.nodes() - 1);
    vec![Deactivation { from, until, node, submission, archive: draw.chance(40) }]
}
