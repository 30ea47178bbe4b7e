//! Every event of every run, with its place: the node that reported it, and the true time at which
//! an observer got it. Events carry the store's time, which may be wrong by any amount.

use std::collections::BTreeMap;
use std::sync::Arc;

use retrial::observe::{Notice, json};
use retrial::run::{Event, Recorded, RunId, TaskId, Version};
use retrial::time::Mono;
use retrial::workflow::Workflow;
use serde_json::Value;

use super::exact;
use super::lanes::Lanes;
use super::mask::Mask;
use super::model::{Detail, Mark, MarkKind, Run};
use crate::evidence::{Evidence, ObservedEvent, RunEvidence};

/// Fields of an event's JSON that its mark says otherwise.
const SHOWN: [&str; 5] = ["schema", "run", "workflow", "number", "event"];

/// All events of a world.
#[derive(Debug, Default)]
pub(super) struct Events {
    runs: Vec<Run>,
    of_runs: Vec<RunEvents>,
}

/// One run's events, by number.
#[derive(Debug)]
pub(super) struct RunEvents {
    pub(super) id: RunId,
    pub(super) workflow: Arc<Workflow>,
    pub(super) events: Vec<Placed>,
}

/// One event and its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) number: u64,
    pub(super) recorded: Recorded,
    pub(super) lane: usize,
    pub(super) at: Mono,
    /// A note for the reader.
    pub(super) note: Option<&'static str>,
}

impl Events {
    pub(super) fn of(evidence: &Evidence, lanes: &mut Lanes) -> Self {
        let mut observed: BTreeMap<RunId, BTreeMap<u64, &ObservedEvent>> = BTreeMap::new();
        for one in &evidence.observed {
            observed.entry(one.run).or_default().entry(one.number.0).or_insert(one);
        }
        let mut events = Self::default();
        for run in &evidence.runs {
            let observed = observed.remove(&run.id).unwrap_or_default();
            let workflow = run.workflow.name().to_owned();
            events.runs.push(Run { id: run.id.to_string(), workflow });
            let (id, workflow) = (run.id, Arc::clone(&run.workflow));
            events.of_runs.push(RunEvents { id, workflow, events: placed(run, &observed, lanes) });
        }
        events
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Every run with its place.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &RunEvents)> {
        self.of_runs.iter().enumerate()
    }

    /// The place of a run.
    pub(super) fn place(&self, run: RunId) -> Option<usize> {
        self.of_runs.iter().position(|of| of.id == run)
    }

    /// Every event as a mark.
    pub(super) fn marks(&self, mask: &Mask) -> Vec<Mark> {
        let all = self.each().flat_map(|(place, of)| of.events.iter().map(move |e| (place, of, e)));
        all.map(|(place, of, event)| mark(place, of, event, mask)).collect()
    }
}

fn mark(place: usize, of: &RunEvents, placed: &Placed, mask: &Mask) -> Mark {
    let Placed { recorded, number, .. } = placed;
    let notice = Notice {
        run: of.id,
        workflow: &of.workflow,
        number: Version(*number),
        at: recorded.at,
        event: &recorded.event,
    };
    let object = json::object(&notice);
    let shown = object.iter().filter(|(name, _)| !SHOWN.contains(&name.as_str()));
    let detail = |(name, value): (&String, &Value)| {
        let name = if name == "at" { "store time" } else { name.as_str() };
        Detail::new(name, mask.text(&words(value)))
    };
    let mut details: Vec<Detail> = shown.map(detail).collect();
    details.extend(placed.note.map(|note| Detail::new("note", note)));
    let mut name = recorded.event.name().to_owned();
    name.extend(recorded.event.task().map(|task| format!(" {}", of.name(task))));
    name.extend(object.get("attempt").map(|attempt| format!(" {attempt}")));
    Mark {
        lane: placed.lane,
        at: exact(placed.at),
        kind: MarkKind::Event,
        name: mask.text(&name),
        run: Some(place),
        number: Some(*number),
        details,
    }
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl RunEvents {
    /// The step's id; of a fanned-out step also the item, as in `fetch[3]`.
    pub(super) fn name(&self, task: TaskId) -> String {
        let step = self.workflow.step(task.step);
        let name = step.map_or_else(|| format!("step {}", task.step.0), |step| step.id.clone());
        if self.workflow.fans_out(task.step) { format!("{name}[{}]", task.item) } else { name }
    }

    /// The start of an attempt.
    pub(super) fn start(&self, task: TaskId, attempt: u32) -> Option<&Placed> {
        let is = |event: &Event| {
            matches!(event, Event::AttemptStarted { task: t, attempt: n, .. }
                if *t == task && *n == attempt)
        };
        self.events.iter().find(|placed| is(&placed.recorded.event))
    }
}

/// The events of a run in the store and those that observers got, in one list. An event that no
/// observer got stands beside the previous one that an observer got.
fn placed(
    run: &RunEvidence,
    observed: &BTreeMap<u64, &ObservedEvent>,
    lanes: &mut Lanes,
) -> Vec<Placed> {
    let kept = run.events.iter().zip(run.first.0..).map(|(recorded, number)| (number, recorded));
    let mut all: BTreeMap<u64, (&Recorded, bool)> =
        kept.map(|(number, recorded)| (number, (recorded, true))).collect();
    for (number, observed) in observed {
        all.entry(*number).or_insert((&observed.recorded, false));
    }
    let place = |(number, (recorded, kept)): (u64, (&Recorded, bool))| {
        let (lane, at, note) = match observed.get(&number) {
            Some(observed) => (lanes.of_name(&observed.node), observed.at, None),
            None => beside(run, observed, number, recorded, lanes),
        };
        let lost = (!kept && !run.damaged && number >= run.first.0)
            .then_some("an observer got it, but the store does not have it");
        Placed { number, recorded: recorded.clone(), lane, at, note: lost.or(note) }
    };
    let mut events: Vec<Placed> = all.into_iter().map(place).collect();
    in_order(&mut events);
    events
}

/// An event had happened when observers got the one after it, however late it was reported itself:
/// by a node that had to ask again for an answer.
fn in_order(events: &mut [Placed]) {
    let mut next: Option<Mono> = None;
    for placed in events.iter_mut().rev() {
        if let Some(next) = next.filter(|next| *next < placed.at) {
            placed.at = next;
            placed.note =
                placed.note.or(Some("reported after the event that follows it, so shown there"));
        }
        next = Some(placed.at);
    }
}

/// The place of an event that no observer got.
fn beside(
    run: &RunEvidence,
    observed: &BTreeMap<u64, &ObservedEvent>,
    number: u64,
    recorded: &Recorded,
    lanes: &mut Lanes,
) -> (usize, Mono, Option<&'static str>) {
    let note = Some("no observer got it: its time and lane are those of its neighbours");
    if let Some((_, before)) = observed.range(..number).next_back() {
        let at = before.at.after(recorded.at.since(before.recorded.at));
        return (lanes.of_name(&before.node), at, note);
    }
    if let Some((_, after)) = observed.range(number..).next() {
        let at = after.at.before(after.recorded.at.since(recorded.at));
        return (lanes.of_name(&after.node), at, note);
    }
    let first = run.events.first().map_or(recorded.at, |first| first.at);
    (lanes.of_name("node-0"), run.submitted_at.after(recorded.at.since(first)), note)
}
