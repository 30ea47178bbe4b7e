use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::format::fans_out;
use super::line::{Line, Tone};
use super::line_writer::LineWriter;
use super::task_lines::{TaskLines, TaskUpdate};
use super::{Notice, Observer, Statistics, run_lines};
use crate::failure::sanitise::clean;
use crate::run::{Event, RunId, TaskId};
use crate::time::Timestamp;
use crate::workflow::StepIx;

/// How much of a task is printed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// Brief for tasks that recover, detailed for tasks that fail. On a terminal a task's lines are
    /// live and are folded when it recovers. Elsewhere they are held until its outcome is known, so
    /// that lines of parallel tasks do not mix.
    Auto {
        /// Whether the output is a terminal that supports ANSI cursor movement.
        terminal: bool,
    },
    /// Every line as it happens.
    Detailed,
}

/// Prints events for people, in the layout of the rh_agents document. Every number is computed from
/// the events, and every text passes the sanitiser.
///
/// A task that is cancelled before its first attempt gets no line.
pub struct Printer<W>(Mutex<PrinterState<W>>);

struct PrinterState<W> {
    writer: LineWriter<W>,
    output: Output,
    name_runs: bool,
    began: BTreeMap<RunId, Timestamp>,
    tasks: BTreeMap<(RunId, TaskId), TaskLines>,
    /// Of each step that has fanned out: how many of its tasks have ended, and how many there are.
    fans: BTreeMap<(RunId, StepIx), (u32, u32)>,
    statistics: Statistics,
}

impl<W: Write> Printer<W> {
    /// Prints to `out`, without colours, for a terminal of 80 columns and 24 rows.
    pub fn new(out: W, output: Output) -> Self {
        Self(Mutex::new(PrinterState {
            writer: LineWriter::new(out),
            output,
            name_runs: false,
            began: BTreeMap::new(),
            tasks: BTreeMap::new(),
            fans: BTreeMap::new(),
            statistics: Statistics::default(),
        }))
    }

    /// The same printer, with ANSI colours or without.
    #[must_use]
    pub fn with_colour(self, colour: bool) -> Self {
        self.lock().writer.colour = colour;
        self
    }

    /// The same printer for a terminal of this size, in columns and rows. Live lines are cut to it.
    #[must_use]
    pub fn with_size(self, columns: usize, rows: usize) -> Self {
        self.with_size_from(move || Some((columns, rows)))
    }

    /// The same printer for a terminal. `size` returns its columns and rows. It is called before
    /// each write, because people resize windows.
    #[must_use]
    pub fn with_size_from(
        self,
        size: impl Fn() -> Option<(usize, usize)> + Send + 'static,
    ) -> Self {
        self.lock().writer.size_source = Box::new(size);
        self
    }

    /// The same printer, with the beginning of the run's id before each name: for several runs.
    #[must_use]
    pub fn with_run_names(self) -> Self {
        self.lock().name_runs = true;
        self
    }

    /// Takes an event into account without printing it, as when a run is resumed: totals and counts
    /// that are printed later include it.
    pub fn recall(&self, notice: &Notice<'_>) {
        let mut state = self.lock();
        state.statistics.take(notice);
        let _ = state.follow(notice);
    }

    /// Prints a line of text.
    pub fn say(&self, text: &str) {
        let line = Line::new(Tone::Plain, clean(text));
        self.lock().print(&[line]);
    }

    /// Prints a line of text as it is, however long. For what has passed the sanitiser.
    pub fn say_all(&self, text: &str) {
        let line = Line::new(Tone::Plain, text.to_owned());
        self.lock().print(&[line]);
    }

    /// Prints and clears the held lines of tasks that have not ended. For the end of a process.
    pub fn release(&self) {
        let mut state = self.lock();
        let tasks = std::mem::take(&mut state.tasks);
        let lines: Vec<Line> = tasks.values().flat_map(|s| state.unprinted(s)).collect();
        state.print(&lines);
    }

    /// Prints the retry statistics and, if there were retries, where the time went.
    pub fn summarise(&self) {
        let mut state = self.lock();
        let mut lines = state.statistics.to_string();
        if state.statistics.retries() > 0 {
            lines += &state.statistics.times().to_string();
        }
        let lines: Vec<_> = lines.lines().map(|l| Line::new(Tone::Plain, l.to_owned())).collect();
        state.print(&lines);
    }

    /// The retry statistics of the events so far.
    pub fn statistics(&self) -> Statistics {
        self.lock().statistics.clone()
    }

    fn lock(&self) -> MutexGuard<'_, PrinterState<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write + Send + 'static> Observer for Printer<W> {
    fn tell(&self, notice: &Notice<'_>) {
        let mut state = self.lock();
        state.statistics.take(notice);
        match state.follow(notice) {
            Effect::Nothing => {}
            Effect::Run(lines) => state.print(&lines),
            Effect::TaskLines(lines) if state.output == Output::Detailed => state.print(&lines),
            Effect::TaskLines(_) => state.print(&[]),
            Effect::TaskEnded(task, turn) => {
                let lines = state.outcome(&task, turn);
                state.print(&lines);
            }
        }
    }
}

impl<W> fmt::Debug for Printer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Printer")
    }
}

/// The effect of an event.
enum Effect {
    Nothing,
    /// New lines about the run.
    Run(Vec<Line>),
    /// New lines of a task that has not ended.
    TaskLines(Vec<Line>),
    /// A task has ended.
    TaskEnded(Box<TaskLines>, TaskUpdate),
}

impl<W: Write> PrinterState<W> {
    /// Updates the tasks' lines.
    fn follow(&mut self, notice: &Notice<'_>) -> Effect {
        match notice.event.task() {
            Some(task) => self.follow_task(notice, task),
            None => self.follow_run(notice),
        }
    }

    fn follow_task(&mut self, notice: &Notice<'_>, task: TaskId) -> Effect {
        let key = (notice.run, task);
        if matches!(notice.event, Event::TaskCancelled { .. }) && !self.tasks.contains_key(&key) {
            self.count(notice.run, task.step, &mut []);
            return Effect::Nothing;
        }
        let prefix = self.prefix(notice.run);
        let new = || TaskLines::new(notice.workflow, task, &prefix);
        match self.tasks.entry(key).or_insert_with(new).take(notice) {
            TaskUpdate::On(lines) => Effect::TaskLines(lines),
            TaskUpdate::End { well, mut lines } => {
                self.count(notice.run, task.step, &mut lines);
                match self.tasks.remove(&key) {
                    Some(task) => {
                        Effect::TaskEnded(Box::new(task), TaskUpdate::End { well, lines })
                    }
                    None => Effect::Nothing,
                }
            }
        }
    }

    /// Counts a task of a fan-out that has ended with these lines, and says so in the first.
    fn count(&mut self, run: RunId, step: StepIx, lines: &mut [Line]) {
        let Some((ended, tasks)) = self.fans.get_mut(&(run, step)) else { return };
        *ended += 1;
        if let Some(line) = lines.first_mut() {
            line.text += &format!(" · {ended} of {tasks}");
        }
    }

    fn follow_run(&mut self, notice: &Notice<'_>) -> Effect {
        match *notice.event {
            Event::RunCreated { .. } => drop(self.began.insert(notice.run, notice.at)),
            Event::StepEntered { step, tasks } if fans_out(notice.workflow, step) => {
                self.fans.insert((notice.run, step), (0, tasks));
            }
            _ => {}
        }
        let began = self.began.get(&notice.run).copied();
        let Some(line) = run_lines::line(notice, began, &self.prefix(notice.run)) else {
            return Effect::Nothing;
        };
        let mut lines = match notice.event {
            Event::RunEnded { .. } => {
                self.began.remove(&notice.run);
                self.fans.retain(|(run, _), _| *run != notice.run);
                self.cancel_tasks(notice.run, notice.at)
            }
            Event::RollbackStarted { .. } => self.cancel_tasks(notice.run, notice.at),
            _ => Vec::new(),
        };
        lines.push(line);
        Effect::Run(lines)
    }

    /// The end of a run, and the start of a rollback, cancels its remaining tasks without an event
    /// for each.
    fn cancel_tasks(&mut self, run: RunId, at: Timestamp) -> Vec<Line> {
        let left: Vec<TaskLines> =
            self.tasks.extract_if(.., |key, _| key.0 == run).map(|(_, task)| task).collect();
        let last = |task: &TaskLines| self.unprinted(task).into_iter().chain([task.cancelled(at)]);
        left.iter().flat_map(|task| last(task).collect::<Vec<_>>()).collect()
    }

    fn prefix(&self, run: RunId) -> String {
        if !self.name_runs {
            return String::new();
        }
        let id = run.to_string();
        format!("{}/", id.get(..8).unwrap_or(&id))
    }

    /// The lines to print when a task has ended: those not printed yet, then the last ones.
    fn outcome(&self, task: &TaskLines, turn: TaskUpdate) -> Vec<Line> {
        let (well, last) = match turn {
            TaskUpdate::End { well, lines } => (well, lines),
            TaskUpdate::On(lines) => (false, lines),
        };
        let before = match self.output {
            Output::Auto { .. } if well => vec![task.folded()],
            _ => self.unprinted(task),
        };
        before.into_iter().chain(last).collect()
    }

    /// A task's lines that were not printed yet.
    fn unprinted(&self, task: &TaskLines) -> Vec<Line> {
        match self.output {
            Output::Detailed => task.kept().into_iter().collect(),
            Output::Auto { .. } => task.lines().collect(),
        }
    }

    /// Writes permanent lines, above the live lines of a terminal.
    fn print(&mut self, lines: &[Line]) {
        if self.output == (Output::Auto { terminal: true }) {
            let live = self.tasks.values().rev().flat_map(|s| s.lines().rev());
            self.writer.show(lines, live);
        } else if !lines.is_empty() {
            self.writer.stay(lines);
        }
    }
}
