//! The printed lines of one task, in the layout of the rh_agents document.

use super::Notice;
use super::format::{counted, seconds, task_name};
use super::line::{HeldLines, Line, Tone};
use crate::failure::Failure;
use crate::failure::sanitise::clean;
use crate::guard::HeldBy;
use crate::policy::GiveUp;
use crate::run::{Event, TaskId};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{StepIx, Workflow};

/// The lines of one task, and the data for every number in them.
#[derive(Debug)]
pub(super) struct TaskLines {
    name: String,
    /// When attempt 1 started; `None` if the printer was started later.
    first_started: Option<Timestamp>,
    /// When the attempt in progress started.
    started: Option<Timestamp>,
    /// Attempts allowed by the rule that governs the last failure; `None` when unlimited.
    of: Option<u32>,
    failed: bool,
    held: HeldLines,
    /// The line of a failure that a retry follows: no line of another task may come between the two
    /// lines.
    failure: Option<Line>,
}

/// The change of a task by an event.
#[derive(Debug)]
pub(super) enum TaskUpdate {
    /// New lines of a task that has not ended.
    On(Vec<Line>),
    /// The last lines of a task that has ended.
    End {
        /// Whether it succeeded, so that its earlier lines may be folded.
        well: bool,
        /// The last lines.
        lines: Vec<Line>,
    },
}

impl TaskLines {
    /// A task without events. `prefix` goes before its name.
    pub(super) fn new(workflow: &Workflow, task: TaskId, prefix: &str) -> Self {
        Self {
            name: format!("{prefix}{}", task_name(workflow, task)),
            first_started: None,
            started: None,
            of: None,
            failed: false,
            held: HeldLines::default(),
            failure: None,
        }
    }

    /// Takes an event about this task.
    pub(super) fn take(&mut self, notice: &Notice<'_>) -> TaskUpdate {
        let kept = self.failure.take();
        match self.apply(notice) {
            TaskUpdate::On(mut lines) => {
                lines.splice(0..0, kept);
                TaskUpdate::On(lines)
            }
            end @ TaskUpdate::End { .. } => {
                self.failure = kept;
                end
            }
        }
    }

    fn apply(&mut self, notice: &Notice<'_>) -> TaskUpdate {
        let at = notice.at;
        match notice.event {
            Event::AttemptStarted { attempt, retries_left, .. } => {
                self.start(at, *attempt, *retries_left)
            }
            Event::TaskHeld { by, until, .. } => self.hold(*by, until.since(at)),
            Event::AttemptFailed { task, failure, will_retry, .. } => {
                let turn = self.fail(at, failure, limit(notice.workflow, task.step, failure));
                if *will_retry { self.keep(turn) } else { turn }
            }
            Event::RetryScheduled { attempt, delay, .. } => self.wait(*attempt, *delay),
            Event::TaskQuarantined { lost, .. } => self.quarantine(*lost),
            Event::TaskReleased { reason, .. } => self.release(reason),
            Event::TaskSucceeded { attempt, .. } => self.succeed(at, *attempt),
            Event::TaskFailed { attempts, reason, error, .. } => {
                self.give_up(at, *attempts, *reason, &error.message)
            }
            Event::TaskCancelled { .. } => {
                TaskUpdate::End { well: false, lines: vec![self.cancelled(at)] }
            }
            _ => TaskUpdate::On(Vec::new()),
        }
    }

    /// The lines so far.
    pub(super) fn lines(&self) -> impl DoubleEndedIterator<Item = Line> + '_ {
        self.held.lines()
    }

    /// The line that waits for the one that follows it.
    pub(super) fn kept(&self) -> Option<Line> {
        self.failure.clone()
    }

    /// The line that replaces the earlier lines when the task has recovered.
    pub(super) fn folded(&self) -> Line {
        Line::new(Tone::Plain, format!("🔧 {} [STARTED]", self.name))
    }

    /// The last line of a cancelled task.
    pub(super) fn cancelled(&self, at: Timestamp) -> Line {
        Line::new(Tone::Faint, format!("⊘ {} [CANCELLED]{}", self.name, self.total(at)))
    }

    /// Keeps the failure's line until the next one.
    fn keep(&mut self, turn: TaskUpdate) -> TaskUpdate {
        if let TaskUpdate::On(mut lines) = turn {
            self.failure = lines.pop();
            return TaskUpdate::On(lines);
        }
        turn
    }

    fn start(&mut self, at: Timestamp, attempt: u32, retries_left: Option<u32>) -> TaskUpdate {
        if attempt == 1 {
            self.first_started = Some(at);
        }
        self.started = Some(at);
        self.of = self.of.or(retries_left.map(|left| attempt.saturating_add(left)));
        let retry =
            if attempt > 1 { format!(" (retry {})", self.count(attempt)) } else { String::new() };
        self.held.begin();
        self.add_line(Tone::Plain, format!("🔧 {} [STARTED]{retry}", self.name))
    }

    fn hold(&mut self, by: HeldBy, wait: Nanos) -> TaskUpdate {
        let (name, wait) = (&self.name, seconds(wait));
        self.add_line(
            Tone::Retry,
            format!("  ⏸ {name} held by the {by}, asking again in {wait}..."),
        )
    }

    fn fail(&mut self, at: Timestamp, failure: &Failure, of: Option<u32>) -> TaskUpdate {
        self.failed = true;
        self.of = of;
        let took = since(self.started.take(), at, "");
        let why = reason(failure.message(), failure.code().as_str());
        self.add_line(Tone::Bad, format!("✖ {} [FAILED]{took} - {why}", self.name))
    }

    fn wait(&mut self, attempt: u32, delay: Nanos) -> TaskUpdate {
        let count = self.count(attempt);
        self.add_line(
            Tone::Retry,
            format!("  ↻ Retrying (attempt {count}) in {}...", seconds(delay)),
        )
    }

    fn quarantine(&mut self, lost: u32) -> TaskUpdate {
        let (name, lost) = (&self.name, counted(lost, "attempt", "attempts"));
        self.add_line(
            Tone::Bad,
            format!("⚠ {name} [QUARANTINED] - {lost} in a row lost their node; release it by hand"),
        )
    }

    fn release(&mut self, reason: &str) -> TaskUpdate {
        let (name, reason) = (&self.name, clean(reason));
        self.add_line(Tone::Plain, format!("▶ {name} [RELEASED] - {reason}"))
    }

    fn succeed(&self, at: Timestamp, attempts: u32) -> TaskUpdate {
        let name = &self.name;
        if attempts <= 1 {
            let took = since(self.first_started, at, "");
            let line = Line::new(Tone::Good, format!("✔ {name} [COMPLETED]{took}"));
            return TaskUpdate::End { well: true, lines: vec![line] };
        }
        let total = self.total(at);
        let retries = counted(attempts - 1, "retry", "retries");
        let lines = vec![
            Line::new(Tone::Good, format!("✔ {name} [COMPLETED after {attempts} attempts]{total}")),
            Line::new(Tone::Retry, format!("  ↻ Recovered after {retries}")),
        ];
        TaskUpdate::End { well: true, lines }
    }

    fn give_up(&self, at: Timestamp, attempts: u32, why: GiveUp, message: &str) -> TaskUpdate {
        let (name, total) = (&self.name, self.total(at));
        let mut lines = Vec::new();
        if !self.failed {
            let message = reason(message, "no message");
            lines.push(Line::new(Tone::Bad, format!("✖ {name} [FAILED] - {message}")));
        }
        let made = counted(attempts, "attempt", "attempts");
        match why {
            // The line of the failure is enough: there was no retry.
            GiveUp::NotRetryable | GiveUp::Exhausted if attempts <= 1 => {}
            GiveUp::Exhausted => {
                lines.push(Line::new(Tone::Bad, format!("✖ {name} [EXHAUSTED all {made}]{total}")));
            }
            why => {
                // The message may go on with the numbers behind the reason.
                let why = why.to_string();
                let detail = message.split_once(&why).map_or("", |(_, detail)| detail);
                let why = why + &clean(detail.trim_end_matches(')'));
                let line = format!("✖ {name} [FAILED after {made}]{total} - {why}");
                lines.push(Line::new(Tone::Bad, line));
            }
        }
        TaskUpdate::End { well: false, lines }
    }

    /// `2/3`, or `2` when unlimited.
    fn count(&self, attempt: u32) -> String {
        self.of.map_or_else(|| attempt.to_string(), |of| format!("{attempt}/{of}"))
    }

    fn total(&self, at: Timestamp) -> String {
        since(self.first_started, at, " total")
    }

    fn add_line(&mut self, tone: Tone, text: String) -> TaskUpdate {
        let line = Line::new(tone, text);
        self.held.push(line.clone());
        TaskUpdate::On(vec![line])
    }
}

/// ` (0.5s)`, or nothing if the start is not known.
fn since(start: Option<Timestamp>, at: Timestamp, suffix: &str) -> String {
    start.map_or_else(String::new, |start| format!(" ({}{suffix})", seconds(at.since(start))))
}

fn reason(message: &str, otherwise: &str) -> String {
    let message = clean(message);
    if message.trim().is_empty() { otherwise.to_owned() } else { message }
}

/// Attempts allowed by the rule that governs `failure`.
fn limit(workflow: &Workflow, at: StepIx, failure: &Failure) -> Option<u32> {
    let policy = &workflow.step(at)?.policy;
    policy.rule_for(failure).map_or(policy.limit(), |rule| rule.limit).count()
}
