//! The `retrial` binary.
fn main() {}
