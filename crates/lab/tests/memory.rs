//! Memory does not grow with the length of a run. A program of its own, as it counts all that is
//! allocated.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use peak_alloc::PeakAlloc;
use retrial_lab::read::{self, Files};
use retrial_lab::world;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The most that a run of so many minutes keeps, in bytes.
fn peak(minutes: u64) -> usize {
    let text = format!(
        "length = \"{minutes}m\"\n[clients.web]\ncount = 50\narrivals = {{ closed = {{ exponential = \"100ms\" }} }}\nto = \"api\"\n\
         retry = \"[retry: 3, backoff: 50ms] [timeout: 200ms]\"\nretry_budget = 0.1\n\
         [services.api]\nworkers = 8\ntime = {{ exponential = \"20ms\" }}\nerrors = 0.05\n"
    );
    let scenario = read::scenario("lab.toml", &text, &Files::in_folder(Path::new("."))).unwrap();
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    assert!(world::run(&scenario, 1).total.offered() > 10_000 * minutes);
    ALLOCATED.peak_usage() - before
}

#[test]
fn memory_is_flat_in_time() {
    let (short, long) = (peak(2), peak(40));
    assert!(long < short + short / 2, "{short} bytes for 2 minutes, {long} for 40");
}
