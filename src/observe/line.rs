//! A line of output, and the held lines of one task.

use std::collections::VecDeque;

/// The kind of a line, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// A start, or information.
    Plain,
    /// A success.
    Good,
    /// A failure.
    Bad,
    /// A retry or a recovery.
    Retry,
    /// Something skipped, cancelled or left out.
    Faint,
}

impl Tone {
    /// The ANSI sequence that begins the colour.
    pub(super) fn ansi(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Retry => "\x1b[33m",
            Self::Faint => "\x1b[2m",
        }
    }
}

/// One line, clean, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) tone: Tone,
    pub(super) text: String,
}

impl Line {
    pub(super) fn new(tone: Tone, text: String) -> Self {
        Self { tone, text }
    }
}

/// A task's lines, grouped by attempt. Keeps the first and the last attempts and counts those
/// between, so that unlimited retries hold no unlimited memory.
#[derive(Debug, Default)]
pub(super) struct HeldLines {
    first: Vec<Vec<Line>>,
    last: VecDeque<Vec<Line>>,
    between: u64,
}

impl HeldLines {
    const FIRST: usize = 10;
    const LAST: usize = 10;

    /// Begins another attempt.
    pub(super) fn begin(&mut self) {
        if self.first.len() < Self::FIRST {
            return self.first.push(Vec::new());
        }
        self.last.push_back(Vec::new());
        if self.last.len() > Self::LAST {
            self.last.pop_front();
            self.between += 1;
        }
    }

    /// Adds a line to the attempt begun last.
    pub(super) fn push(&mut self, line: Line) {
        if self.first.is_empty() {
            self.first.push(Vec::new());
        }
        if let Some(attempt) = self.last.back_mut().or_else(|| self.first.last_mut()) {
            attempt.push(line);
        }
    }

    /// The kept lines in order, with one line for the attempts left out.
    pub(super) fn lines(&self) -> impl DoubleEndedIterator<Item = Line> + '_ {
        let gap = (self.between > 0).then(|| {
            Line::new(Tone::Faint, format!("  … {} more attempts, not shown", self.between))
        });
        let first = self.first.iter().flatten().cloned();
        first.chain(gap).chain(self.last.iter().flatten().cloned())
    }
}
