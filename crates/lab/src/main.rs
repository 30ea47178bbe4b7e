//! The `retrial-lab` binary.

fn main() {}
