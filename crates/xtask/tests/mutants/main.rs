//! Mutants: the set of them in `sim/mutants`, and the machine that judges them, with builds and
//! processes played by a fake.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

mod fake;
mod machine;
mod page;
mod repository;
