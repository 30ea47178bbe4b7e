use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::line::{Line, Tone};
use super::screen::Screen;
use super::story::{Story, Turn};
use super::{Notice, Observer, Statistics, run_lines};
use crate::failure::sanitise::clean;
use crate::run::{Event, RunId, TaskId};
use crate::time::Timestamp;

/// How much of a task is printed, and when (H14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Compact on recovery, detailed on failure. On a terminal a task's lines are live and folded
    /// when it recovers; elsewhere they are held until its outcome is known, so that the lines of
    /// parallel tasks are never mixed.
    Auto {
        /// Whether the output is a terminal, which understands ANSI cursor moves.
        terminal: bool,
    },
    /// Every line at once, as it happens.
    Detailed,
}

/// Prints what happens, for people, in the rh_agents document's layout (H14, H15). Every number is
/// computed from the events; every text passes the sanitiser (C14).
///
/// A task that is called off before it was ever started gets no line.
pub struct Printer<W>(Mutex<Desk<W>>);

struct Desk<W> {
    screen: Screen<W>,
    output: Output,
    naming_runs: bool,
    began: BTreeMap<RunId, Timestamp>,
    stories: BTreeMap<(RunId, TaskId), Story>,
    statistics: Statistics,
}

impl<W: Write> Printer<W> {
    /// Prints to `out`, without colours, for a terminal of 80 columns and 24 rows.
    pub fn new(out: W, output: Output) -> Self {
        Self(Mutex::new(Desk {
            screen: Screen::new(out),
            output,
            naming_runs: false,
            began: BTreeMap::new(),
            stories: BTreeMap::new(),
            statistics: Statistics::default(),
        }))
    }

    /// The same printer, with ANSI colours or without.
    #[must_use]
    pub fn with_colour(self, colour: bool) -> Self {
        self.lock().screen.colour = colour;
        self
    }

    /// The same printer for a terminal of this size, in columns and rows. Live lines are cut to it.
    #[must_use]
    pub fn with_size(self, columns: usize, rows: usize) -> Self {
        self.with_sight(move || Some((columns, rows)))
    }

    /// The same printer for a terminal whose columns and rows `sight` tells, each time anew: people
    /// drag windows.
    #[must_use]
    pub fn with_sight(self, sight: impl Fn() -> Option<(usize, usize)> + Send + 'static) -> Self {
        self.lock().screen.sight = Box::new(sight);
        self
    }

    /// The same printer, with the beginning of the run's id before each name: for several runs.
    #[must_use]
    pub fn with_run_names(self) -> Self {
        self.lock().naming_runs = true;
        self
    }

    /// Learns what happened before without printing it, as when a run is taken up again: the
    /// totals and counts printed later include it.
    pub fn recall(&self, notice: &Notice<'_>) {
        let mut desk = self.lock();
        desk.statistics.take(notice);
        let _ = desk.follow(notice);
    }

    /// Prints a line of the caller's own.
    pub fn say(&self, text: &str) {
        let line = Line::new(Tone::Plain, clean(text));
        self.lock().print(&[line]);
    }

    /// Prints what is held of tasks that have not ended, and forgets it. For the end of a process.
    pub fn release(&self) {
        let mut desk = self.lock();
        let stories = std::mem::take(&mut desk.stories);
        let lines: Vec<Line> = stories.values().flat_map(|s| desk.unprinted(s)).collect();
        desk.print(&lines);
    }

    /// Prints the retry statistics (H15), and after retries where the time went (C15).
    pub fn summarise(&self) {
        let mut desk = self.lock();
        let mut lines = desk.statistics.to_string();
        if desk.statistics.retries() > 0 {
            lines += &desk.statistics.times().to_string();
        }
        let lines: Vec<_> = lines.lines().map(|l| Line::new(Tone::Plain, l.to_owned())).collect();
        desk.print(&lines);
    }

    /// The retry statistics of what was told so far.
    pub fn statistics(&self) -> Statistics {
        self.lock().statistics.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Desk<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write + Send + 'static> Observer for Printer<W> {
    fn tell(&self, notice: &Notice<'_>) {
        let mut desk = self.lock();
        desk.statistics.take(notice);
        match desk.follow(notice) {
            Followed::Nothing => {}
            Followed::Run(lines) => desk.print(&lines),
            Followed::On(lines) if desk.output == Output::Detailed => desk.print(&lines),
            Followed::On(_) => desk.print(&[]),
            Followed::Told(story, turn) => {
                let lines = desk.outcome(&story, turn);
                desk.print(&lines);
            }
        }
    }
}

impl<W> fmt::Debug for Printer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Printer")
    }
}

/// What an event did to the stories.
enum Followed {
    Nothing,
    /// Something about the run.
    Run(Vec<Line>),
    /// A task goes on, with new lines.
    On(Vec<Line>),
    /// A task has ended.
    Told(Box<Story>, Turn),
}

impl<W: Write> Desk<W> {
    /// Brings the stories up to date.
    fn follow(&mut self, notice: &Notice<'_>) -> Followed {
        match notice.event.task() {
            Some(task) => self.follow_task(notice, task),
            None => self.follow_run(notice),
        }
    }

    fn follow_task(&mut self, notice: &Notice<'_>, task: TaskId) -> Followed {
        let key = (notice.run, task);
        if matches!(notice.event, Event::TaskCancelled { .. }) && !self.stories.contains_key(&key) {
            return Followed::Nothing;
        }
        let prefix = self.prefix(notice.run);
        let new = || Story::new(notice.workflow, task, &prefix);
        match self.stories.entry(key).or_insert_with(new).take(notice) {
            Turn::On(lines) => Followed::On(lines),
            end => match self.stories.remove(&key) {
                Some(story) => Followed::Told(Box::new(story), end),
                None => Followed::Nothing,
            },
        }
    }

    fn follow_run(&mut self, notice: &Notice<'_>) -> Followed {
        if matches!(notice.event, Event::RunCreated { .. }) {
            self.began.insert(notice.run, notice.at);
        }
        let began = self.began.get(&notice.run).copied();
        let Some(line) = run_lines::line(notice, began, &self.prefix(notice.run)) else {
            return Followed::Nothing;
        };
        let mut lines = match notice.event {
            Event::RunEnded { .. } => {
                self.began.remove(&notice.run);
                self.call_off(notice.run, notice.at)
            }
            Event::RollbackStarted { .. } => self.call_off(notice.run, notice.at),
            _ => Vec::new(),
        };
        lines.push(line);
        Followed::Run(lines)
    }

    /// The end of a run, and a rollback, calls off whatever it has left, without an event for each task.
    fn call_off(&mut self, run: RunId, at: Timestamp) -> Vec<Line> {
        let left: Vec<Story> =
            self.stories.extract_if(.., |key, _| key.0 == run).map(|(_, story)| story).collect();
        let last = |story: &Story| self.unprinted(story).into_iter().chain([story.call_off(at)]);
        left.iter().flat_map(|story| last(story).collect::<Vec<_>>()).collect()
    }

    fn prefix(&self, run: RunId) -> String {
        if !self.naming_runs {
            return String::new();
        }
        let id = run.to_string();
        format!("{}/", id.get(..8).unwrap_or(&id))
    }

    /// What is printed when a task has ended: its last lines, and before them whatever was not
    /// printed as it happened.
    fn outcome(&self, story: &Story, turn: Turn) -> Vec<Line> {
        let (well, last) = match turn {
            Turn::End { well, lines } => (well, lines),
            Turn::On(lines) => (false, lines),
        };
        let before = match self.output {
            Output::Auto { .. } if well => vec![story.folded()],
            _ => self.unprinted(story),
        };
        before.into_iter().chain(last).collect()
    }

    /// A task's lines that were not printed as it went on.
    fn unprinted(&self, story: &Story) -> Vec<Line> {
        match self.output {
            Output::Detailed => story.kept().into_iter().collect(),
            Output::Auto { .. } => story.lines().collect(),
        }
    }

    /// Writes lines that stay, above what is live on a terminal.
    fn print(&mut self, lines: &[Line]) {
        if self.output == (Output::Auto { terminal: true }) {
            let live = self.stories.values().rev().flat_map(|s| s.lines().rev());
            self.screen.show(lines, live);
        } else if !lines.is_empty() {
            self.screen.stay(lines);
        }
    }
}
