//! `retrial-sim disk-states`: every state that a power failure may leave on a store's disk.

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Args;
use indicatif::ProgressBar;
use retrial_sim::unstable::disk_states::{self, LARGEST_WINDOW, Length, WINDOW};

use super::output::print;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct DiskStates {
    /// Of as many newest changes that are not durable every subset is tried, from 1 to 16.
    #[arg(long, default_value_t = WINDOW as u64, value_parser = clap::value_parser!(u64).range(1..=LARGEST_WINDOW as u64))]
    window: u64,
    /// Threads; the default is one a core.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Only a run's first two attempts.
    #[arg(long)]
    short: bool,
}

/// Tries every state and prints the result.
pub(crate) fn disk_states(asked: &DiskStates) -> Result<ExitCode, Box<dyn Error>> {
    let length = if asked.short { Length::Short } else { Length::Whole };
    let tape = disk_states::record(length, |disk| disk)?;
    let window = usize::try_from(asked.window)?;
    let jobs = match asked.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism()?,
    };
    let bar = ProgressBar::new(disk_states::count(&tape, window).distinct);
    let report = disk_states::examine(&tape, window, jobs, || bar.inc(1));
    bar.finish_and_clear();
    print(format_args!("{}", report.words()))?;
    Ok(ExitCode::from(u8::from(!report.held())))
}
