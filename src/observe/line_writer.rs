//! Writes lines: permanent ones, and below them on a terminal live ones that are rewritten.

use std::io::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::line::{Line, Tone};

/// Returns a terminal's current columns and rows, if they are known.
pub(super) type SizeSource = Box<dyn Fn() -> Option<(usize, usize)> + Send>;

/// Writes lines to an output.
pub(super) struct LineWriter<W> {
    out: W,
    pub(super) colour: bool,
    pub(super) size_source: SizeSource,
    /// The last known size.
    columns: usize,
    rows: usize,
    /// The widths of the lines below those that stay, which are rewritten each time.
    live: Vec<usize>,
    broken: bool,
}

impl<W: Write> LineWriter<W> {
    pub(super) fn new(out: W) -> Self {
        let size_source: SizeSource = Box::new(|| None);
        Self {
            out,
            colour: false,
            size_source,
            columns: 80,
            rows: 24,
            live: Vec::new(),
            broken: false,
        }
    }

    /// Writes permanent lines. After the first error nothing more is written: a reader that
    /// disconnects must not affect runs.
    pub(super) fn stay(&mut self, lines: &[Line]) {
        self.show(lines, std::iter::empty());
    }

    /// Writes permanent lines, and below them live lines, which are given last line first and are
    /// erased by the next call.
    pub(super) fn show(&mut self, stay: &[Line], live_backwards: impl Iterator<Item = Line>) {
        self.look();
        let mut text = self.erase();
        for line in stay {
            self.push(&mut text, line, &line.text);
        }
        let live = self.fitting(live_backwards);
        self.live.clear();
        for line in &live {
            let shown = crop(&line.text, self.columns);
            self.push(&mut text, line, &shown);
            self.live.push(shown.width());
        }
        if self.broken || text.is_empty() {
            return;
        }
        self.broken = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
    }

    fn look(&mut self) {
        if let Some((columns, rows)) = (self.size_source)() {
            (self.columns, self.rows) = (columns.max(1), rows.max(1));
        }
    }

    /// Moves up over the live lines and clears to the end of the screen. A terminal that has become
    /// narrower has broken them into more rows.
    fn erase(&self) -> String {
        let rows: usize = self.live.iter().map(|w| w.div_ceil(self.columns).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", rows.min(self.rows)) }
    }

    /// The last lines that fit on the terminal with the cursor: a line that has scrolled off can't
    /// be rewritten.
    fn fitting(&self, backwards: impl Iterator<Item = Line>) -> Vec<Line> {
        let most = self.rows.saturating_sub(1).max(1);
        let mut lines: Vec<Line> = backwards.take(most + 1).collect();
        if lines.len() > most {
            lines.truncate(most);
            if let Some(top) = lines.last_mut() {
                *top = Line::new(Tone::Faint, "… more above".to_owned());
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

/// `text` cut so that it can't wrap: a wrapped line takes two rows, which `erase` would not count.
fn crop(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(ELLIPSIS.width().unwrap_or(1));
    let fits = |c: &char| {
        let fits = width(*c) <= left;
        left = left.saturating_sub(width(*c));
        fits
    };
    text.chars().take_while(fits).chain([ELLIPSIS]).collect()
}

const ELLIPSIS: char = '…';

/// The columns of one character. Joined characters count one by one, which is never too few, and the
/// selector of an emoji's wide form counts the column that it adds.
fn width(c: char) -> usize {
    const WIDE: char = '\u{fe0f}';
    if c == WIDE { 1 } else { c.width().unwrap_or(0) }
}
