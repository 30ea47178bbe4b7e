//! What observers show of hand-made events.

mod history;
mod json;
mod lines;
mod printer;
mod statistics;
mod tale;
mod terminal;
