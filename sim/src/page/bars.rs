//! The bars of a page: attempts, the waits between them, and requests at the endpoints.

use std::collections::BTreeMap;

use retrial::run::{Event, TaskId};
use retrial::time::Mono;
use retrial::workflow::StepIx;

use super::events::{Events, Placed, RunEvents};
use super::exact;
use super::lanes::Lanes;
use super::mask::Mask;
use super::model::{Bar, BarEnd, BarKind, Detail};
use crate::evidence::{Arrival, ArrivalEnd, Evidence};
use crate::scenario::Reply;

/// The attempts and delays of every task.
pub(super) fn of_tasks(events: &Events, mask: &Mask) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (run, of) in events.each() {
        let mut builder = BarBuilder { run, of, mask, bars: &mut bars, open: BTreeMap::new() };
        let mut entered: BTreeMap<StepIx, &Placed> = BTreeMap::new();
        for placed in &of.events {
            if let Event::StepEntered { step, .. } = placed.recorded.event {
                entered.insert(step, placed);
            }
            builder.follow(placed, &entered);
        }
        builder.rest();
    }
    bars
}

/// The current activity of a task.
#[derive(Clone, Copy)]
enum At<'e> {
    /// An attempt, since this event.
    Work(&'e Placed),
    /// The wait for the next one, since this event, until that time as it was scheduled.
    Wait(&'e Placed, Mono),
}

/// Writes one run's bars.
struct BarBuilder<'p> {
    run: usize,
    of: &'p RunEvents,
    mask: &'p Mask,
    bars: &'p mut Vec<Bar>,
    open: BTreeMap<TaskId, At<'p>>,
}

impl<'p> BarBuilder<'p> {
    fn follow(&mut self, placed: &'p Placed, entered: &BTreeMap<StepIx, &'p Placed>) {
        match placed.recorded.event {
            Event::AttemptStarted { task, attempt, .. } => {
                match (self.open.remove(&task), entered.get(&task.step)) {
                    (Some(at), _) => self.close(task, at, Some(placed), BarEnd::Well),
                    (None, Some(since)) if attempt == 1 => {
                        self.close(task, At::Wait(since, since.at), Some(placed), BarEnd::Well);
                    }
                    (None, _) => {}
                }
                self.open.insert(task, At::Work(placed));
            }
            Event::RetryScheduled { task, delay, .. } => {
                self.end(task, placed, BarEnd::Badly);
                self.open.insert(task, At::Wait(placed, placed.at.after(delay)));
            }
            Event::TaskSucceeded { task, .. } => self.end(task, placed, BarEnd::Well),
            Event::AttemptFailed { task, .. } | Event::TaskFailed { task, .. } => {
                self.end(task, placed, BarEnd::Badly);
            }
            Event::TaskCancelled { task } => self.end(task, placed, BarEnd::CalledOff),
            Event::RunEnded { .. } | Event::RollbackStarted { .. } => {
                for (task, at) in std::mem::take(&mut self.open) {
                    self.close(task, at, Some(placed), BarEnd::CalledOff);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, task: TaskId, placed: &Placed, end: BarEnd) {
        if let Some(at) = self.open.remove(&task) {
            self.close(task, at, Some(placed), end);
        }
    }

    /// Activities that have not ended.
    fn rest(&mut self) {
        for (task, at) in std::mem::take(&mut self.open) {
            self.close(task, at, None, BarEnd::Open);
        }
    }

    fn close(&mut self, task: TaskId, at: At<'_>, until: Option<&Placed>, end: BarEnd) {
        let ended = until.map(|placed| placed.at);
        match at {
            At::Work(since) => self.bar(BarKind::Attempt, task, since, since.at, until, ended, end),
            At::Wait(since, due) => {
                let over = ended.map_or(due, |ended| ended.min(due));
                if over > since.at {
                    self.bar(BarKind::Delay, task, since, since.at, until, Some(over), end);
                }
                if ended.is_none_or(|ended| ended > due) {
                    self.bar(BarKind::Due, task, since, due.max(since.at), until, ended, end);
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one place makes all bars of tasks")]
    fn bar(
        &mut self,
        kind: BarKind,
        task: TaskId,
        since: &Placed,
        from: Mono,
        last: Option<&Placed>,
        until: Option<Mono>,
        end: BarEnd,
    ) {
        let name = self.of.name(task);
        let attempt = match since.recorded.event {
            Event::AttemptStarted { attempt, .. } | Event::RetryScheduled { attempt, .. } => {
                attempt
            }
            _ => 1,
        };
        let numbers = [since.number].into_iter().chain(last.map(|last| last.number)).collect();
        self.bars.push(Bar {
            lane: since.lane,
            from: exact(from),
            until: until.map(exact),
            kind,
            end,
            name: self.mask.text(&format!("{name} {attempt}")),
            run: Some(self.run),
            numbers,
            details: vec![Detail::new("task", task), Detail::new("attempt", attempt)],
        });
    }
}

/// The requests at the endpoints, with the attempts that sent them.
pub(super) fn of_arrivals(
    evidence: &Evidence,
    events: &Events,
    lanes: &mut Lanes,
    mask: &Mask,
) -> Vec<Bar> {
    let mut known: BTreeMap<String, (usize, &RunEvents, TaskId)> = BTreeMap::new();
    for (run, of) in events.each() {
        for task in of.events.iter().filter_map(|placed| placed.recorded.event.task()) {
            known.entry(task.receipt(of.id).to_string()).or_insert((run, of, task));
        }
    }
    let bar = |arrival: &Arrival| {
        let whose = arrival.receipt_token.as_ref().and_then(|token| known.get(token));
        let attempt = arrival.retry_attempt.map(|n| n.saturating_add(1));
        let started = whose.zip(attempt).and_then(|((_, of, task), n)| of.start(*task, n));
        let name = whose.map_or_else(|| "no task".to_owned(), |(_, of, task)| of.name(*task));
        let number = attempt.map_or_else(String::new, |n| format!(" {n}"));
        Bar {
            lane: lanes.of_path(&arrival.path),
            from: exact(arrival.at),
            until: arrival.ended_at.map(exact),
            kind: BarKind::Arrival,
            end: end(arrival),
            name: mask.text(&format!("{name}{number}")),
            run: whose.map(|(run, ..)| *run),
            numbers: started.map(|placed| placed.number).into_iter().collect(),
            details: details(arrival, mask),
        }
    };
    evidence.ledger.iter().map(bar).collect()
}

fn end(arrival: &Arrival) -> BarEnd {
    match arrival.end {
        ArrivalEnd::Answered if arrival.reply.last().is_success() => BarEnd::Well,
        ArrivalEnd::Answered | ArrivalEnd::CutShort => BarEnd::Badly,
        ArrivalEnd::CallerGone => BarEnd::CalledOff,
        ArrivalEnd::Open => BarEnd::Open,
    }
}

fn details(arrival: &Arrival, mask: &Mask) -> Vec<Detail> {
    let end = match arrival.end {
        ArrivalEnd::Answered => "the whole answer was given",
        ArrivalEnd::CallerGone => "the caller went away first",
        ArrivalEnd::CutShort => "the endpoint cut the stream",
        ArrivalEnd::Open => "still open when the world ended",
    };
    let mut details = vec![
        Detail::new("answer", mask.text(&answer(&arrival.reply))),
        Detail::new("end", end),
        Detail::new("path", mask.text(&arrival.path)),
    ];
    details.extend(arrival.retry_attempt.map(|n| Detail::new("X-Retry-Attempt", n)));
    details.extend(arrival.retry_timeout_ms.map(|n| Detail::new("X-Retry-Timeout-Ms", n)));
    details.extend(arrival.receipt_token.as_ref().map(|t| Detail::new("Receipt-Token", t)));
    details
}

fn answer(reply: &Reply) -> String {
    serde_json::to_string(reply).unwrap_or_else(|_| reply.name().to_owned())
}
