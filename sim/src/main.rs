//! The `retrial-sim` binary.
fn main() {}
