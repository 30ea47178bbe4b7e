//! Several stores on one PostgreSQL server, one statement at a time. Each statement waits at a gate,
//! and a seed or an enumeration says which is let go next.
//!
//! Decides in which order statements arrive and what breaks between them. The answers must be those of
//! the naive store, asked in some order. To try another race, add it to `enumerated`; to break
//! something else, add a [`turns::Next`].

mod drawn;
mod enumerated;
mod gate;
mod judge;
mod messages;
mod turns;
mod world;
