//! Errors that can be looked at as `std::error::Error`.

use std::error::Error;

/// An error of any kind that people use: a `std::error::Error`, or a type that holds one and is none
/// itself, such as `anyhow::Error`, `eyre::Report` and `Box<dyn Error + Send + Sync>`.
///
/// `M` tells the two apart and is never named: the compiler finds it.
pub trait AsError<M>: 'static {
    /// The error as what all errors have in common.
    fn as_error(&self) -> &(dyn Error + 'static);
}

/// Says that a type is an error.
#[derive(Debug)]
pub struct IsError(());

/// Says that a type holds an error.
#[derive(Debug)]
pub struct HoldsError(());

impl<E: Error + 'static> AsError<IsError> for E {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl<E: AsRef<dyn Error + Send + Sync + 'static> + 'static> AsError<HoldsError> for E {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self.as_ref()
    }
}
