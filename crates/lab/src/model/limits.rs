use retrial_core::time::Nanos;

/// The longest run: 30 days.
pub const LONGEST: Nanos = Nanos::from_secs(30 * 86_400);
/// The most clients of a class.
pub const MOST_CLIENTS: u32 = 1_000_000;
/// The most services, classes, calls of a service, and triggers.
pub const MOST_PARTS: usize = 64;
/// The most calls in progress at once. What begins beyond is shed, and the report says so.
pub const MOST_CALLS: usize = 1_000_000;
/// The largest rate of a class, in tasks per second.
pub const MOST_RATE: f64 = 1_000_000.0;
/// The most points of a series and values of an empirical distribution.
pub const MOST_POINTS: usize = 100_000;
/// The largest file that is read, in bytes: 8 MiB.
pub const MOST_BYTES: u64 = 8 << 20;
/// The most seeds of a verdict.
pub const MOST_SEEDS: u32 = 1_000;
/// The deepest chain of services that call each other.
pub const MOST_DEPTH: usize = 16;
/// The most events of one run. What takes more is cut off, and the report says so.
pub const MOST_EVENTS: u64 = 2_000_000_000;
/// The most events of one instant. A run with more is cut off, too.
pub const MOST_AT_ONCE: u64 = 20_000_000;
