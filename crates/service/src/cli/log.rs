//! The log on stderr.

use std::io::{IsTerminal, stderr};

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;

use super::error::CliError;

/// The default filter: errors, the engine's warnings that the store does not answer, without which a
/// run that waits for its disk would look idle, and the store's warnings about its file.
const DEFAULT_FILTER: &str = "error,retrial::engine=warn,retrial::store=warn";

/// Starts the log with `filter`, in the syntax of tracing's `EnvFilter`.
pub(super) fn start(filter: Option<String>) -> Result<(), CliError> {
    let filter =
        filter.filter(|f| !f.trim().is_empty()).unwrap_or_else(|| DEFAULT_FILTER.to_owned());
    let filter = EnvFilter::builder().parse(&filter).map_err(|e| {
        let message = format!("RETRIAL_LOG=`{filter}` is invalid: {e}");
        CliError::input(message).help("give a level such as `info`, or `retrial::engine=debug`")
    })?;
    let colour = stderr().is_terminal() && AutoStream::choice(&stderr()) != ColorChoice::Never;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(colour).init();
    Ok(())
}
