//! What goes to stdout.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Prints to stdout. Who reads may have enough, as `head` does: a closed pipe is no error.
pub(super) fn print(text: Arguments<'_>) -> io::Result<()> {
    match io::stdout().write_fmt(text) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
