//! Writes lines: those that stay, and below them on a terminal those that may yet be folded.

use std::io::Write;

use super::line::Line;

/// Where lines are written.
#[derive(Debug)]
pub(super) struct Screen<W> {
    out: W,
    pub(super) colour: bool,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Lines below those that stay, rewritten each time.
    live: usize,
    broken: bool,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, colour: false, columns: 80, rows: 24, live: 0, broken: false }
    }

    /// Writes lines that stay. A reader that has gone away must not change what happens to runs:
    /// after the first error nothing is written any more.
    pub(super) fn stay(&mut self, lines: &[Line]) {
        self.show(lines, std::iter::empty());
    }

    /// Writes lines that stay and below them, until the next call, those given last line first.
    pub(super) fn show(&mut self, stay: &[Line], live_backwards: impl Iterator<Item = Line>) {
        let mut text = self.erase();
        for line in stay {
            self.push(&mut text, line, &line.text);
        }
        let live = self.fitting(live_backwards);
        self.live = live.len();
        for line in &live {
            self.push(&mut text, line, &crop(&line.text, self.columns));
        }
        if self.broken || text.is_empty() {
            return;
        }
        self.broken = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
    }

    /// Moves up over the live lines and clears to the end of the screen.
    fn erase(&self) -> String {
        if self.live == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.live) }
    }

    /// The last lines that leave room for the cursor: a line that has scrolled away can't be
    /// rewritten.
    fn fitting(&self, backwards: impl Iterator<Item = Line>) -> Vec<Line> {
        let most = self.rows.saturating_sub(1).max(1);
        let mut lines: Vec<Line> = backwards.take(most + 1).collect();
        if lines.len() > most {
            lines.truncate(most);
            if let Some(top) = lines.last_mut() {
                *top = Line::new(super::line::Tone::Faint, "… more above".to_owned());
            }
        }
        lines.reverse();
        lines
    }

    fn push(&self, text: &mut String, line: &Line, shown: &str) {
        let colour = if self.colour { line.tone.ansi() } else { "" };
        let reset = if colour.is_empty() { "" } else { "\x1b[0m" };
        text.extend([colour, shown, reset, "\n"]);
    }
}

/// `text` cut so that it can't wrap: a wrapped line takes two rows and would spoil the count.
/// Whatever is not ASCII is taken to be two columns wide, which errs on the safe side.
fn crop(text: &str, columns: usize) -> String {
    let width = |c: char| if c.is_ascii() { 1 } else { 2 };
    if text.chars().map(width).sum::<usize>() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(2);
    let fits = |c: &char| {
        let fits = width(*c) <= left;
        left = left.saturating_sub(width(*c));
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}
