//! How an error that ends a command is shown.

use std::io::{IsTerminal as _, Write as _, stderr};

use miette::{GraphicalReportHandler, GraphicalTheme, MietteDiagnostic};
use retrial_core::dialect::{Diagnostics, report};

/// Why a command can't do what it was asked for.
#[derive(Debug)]
pub(super) enum CliError {
    /// Something is wrong with a text, here.
    Text(Diagnostics),
    /// Anything else.
    Plain(Box<MietteDiagnostic>),
}

impl CliError {
    pub(super) fn plain(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Plain(Box::new(MietteDiagnostic::new(message).with_help(help)))
    }

    /// Writes it to stderr, with the source line and a pointer.
    pub(super) fn show(&self) {
        #[expect(clippy::disallowed_methods, reason = "the edge of the program")]
        let no_colour = std::env::var("NO_COLOR").is_ok();
        let theme = match (stderr().is_terminal(), no_colour) {
            (false, _) => GraphicalTheme::none(),
            (true, true) => GraphicalTheme::unicode_nocolor(),
            (true, false) => GraphicalTheme::unicode(),
        };
        // One line of source and no more: its neighbours may hold secrets.
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_context_lines(0)
            .with_links(false)
            .with_wrap_lines(false);
        let mut text = String::new();
        // Neither writing to a text nor reading a text that was parsed can fail.
        let _ = match self {
            Self::Text(found) => {
                found.iter().try_for_each(|d| report::render(&mut text, &handler, d))
            }
            Self::Plain(plain) => handler.render_report(&mut text, &**plain),
        };
        // A closed stderr is not an error.
        let _ = stderr().write_all(text.as_bytes());
    }
}

impl From<Diagnostics> for CliError {
    fn from(found: Diagnostics) -> Self {
        Self::Text(found)
    }
}
