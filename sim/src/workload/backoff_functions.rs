//! The custom backoff functions of every simulated program. The oracles' model has separate code
//! for them.

use retrial::policy::Functions;
use retrial::time::Nanos;

/// Their names.
pub const BACKOFFS: [&str; 3] = ["squares", "zigzag", "late"];

/// `squares` waits 15 ms times n squared, `zigzag` 300 ms and 20 ms in turn, `late` not at all
/// before the first two retries and then 400 ms.
#[must_use]
pub fn functions() -> Functions {
    let mut functions = Functions::default();
    let [squares, zigzag, late] = BACKOFFS;
    functions.register(squares, |n| {
        let n = u64::from(n);
        Nanos::from_millis(15).saturating_mul(n.saturating_mul(n))
    });
    functions.register(zigzag, |n| Nanos::from_millis(if n % 2 == 1 { 300 } else { 20 }));
    functions.register(late, |n| if n <= 2 { Nanos::ZERO } else { Nanos::from_millis(400) });
    functions
}
