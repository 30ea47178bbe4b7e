//! How an error that ends a command is shown.

use std::error::Error;
use std::io::{IsTerminal, stderr};

use miette::{GraphicalReportHandler, GraphicalTheme};
use retrial::dialect::report;
use retrial_sim::unstable::workload::UserPlanError;

/// Writes `error` to stderr; what is wrong with a text with the source line and a pointer.
pub(super) fn show(error: &(dyn Error + 'static)) {
    let Some(UserPlanError::Text(found)) = error.downcast_ref() else {
        eprintln!("error: {error}");
        return;
    };
    let theme = match (stderr().is_terminal(), std::env::var_os("NO_COLOR")) {
        (false, _) => GraphicalTheme::none(),
        (true, Some(_)) => GraphicalTheme::unicode_nocolor(),
        (true, None) => GraphicalTheme::unicode(),
    };
    // One line of source and no more: its neighbours may hold secrets.
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_context_lines(0)
        .with_links(false)
        .with_wrap_lines(false);
    let mut text = String::new();
    // Neither writing to a text nor reading a text that was parsed can fail.
    let _ = found.iter().try_for_each(|d| report::render(&mut text, &handler, d));
    eprint!("{text}");
}
