//! Tools for those who maintain Retrial. Users need none of it.

pub mod mutants;
