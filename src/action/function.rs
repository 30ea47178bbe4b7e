//! Async functions as actions: what they take, and what their errors mean.

use std::any::type_name;
use std::future::Future;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::result::{Measure, exception};
use super::{Context, Outcome};
use crate::failure::Failure;
use crate::retry::{AsError, classify};

/// One attempt of a function.
pub type Attempt = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An async function of up to three values, each [`FromContext`], that returns a `Result`: its value
/// is written as JSON, and its error is an [`ActionError`].
///
/// `M` holds what the compiler finds out about the function, and is never named.
pub trait Function<M>: Send + Sync + 'static {
    /// Begins one attempt.
    fn begin(&self, context: Context) -> Attempt;
}

/// What a function may take: its [`Context`], its [`Args`], or a type of your own that is made of them.
pub trait FromContext: Sized {
    /// Reads it from the attempt.
    ///
    /// # Errors
    /// The failure of an attempt that has nothing of the kind. The function is not called then.
    fn from_context(context: &Context) -> Result<Self, Failure>;
}

impl FromContext for Context {
    fn from_context(context: &Context) -> Result<Self, Failure> {
        Ok(context.clone())
    }
}

/// The arguments of an attempt, deserialized. Those that do not fit `T` fail with `BAD_ARGUMENTS`,
/// permanent, as in [`Context::args`].
#[derive(Clone, Copy, Debug)]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned> FromContext for Args<T> {
    fn from_context(context: &Context) -> Result<Self, Failure> {
        context.args().map(Self)
    }
}

/// The error of a function: a [`Failure`], any `std::error::Error`, `anyhow::Error`, `Box<dyn Error>`,
/// or a text.
///
/// Errors are read by [`classify::error`], as those of one future are: one that holds a `Failure` is
/// that failure, and one that nobody knows is retryable, has the code `ERROR`, and is of its type's
/// name. A text is permanent and has the code `ERROR`. An error of another kind is converted in the
/// function: where it returns `Failure`, `?` uses your `From<MyError> for Failure`.
///
/// `K` tells the kinds apart, and is never named.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no error of an action",
    note = "return a `Failure`, a `std::error::Error`, an `anyhow::Error` or a text"
)]
pub trait ActionError<K> {
    /// What it means.
    fn into_failure(self) -> Failure;
}

impl<K, E: AsError<K>> ActionError<K> for E {
    fn into_failure(self) -> Failure {
        classify::named(self.as_error(), type_name::<E>())
    }
}

/// Says that a type is a text.
#[derive(Debug)]
pub struct IsText(());

impl ActionError<IsText> for String {
    fn into_failure(self) -> Failure {
        self.into()
    }
}

impl ActionError<IsText> for &'static str {
    fn into_failure(self) -> Failure {
        self.into()
    }
}

macro_rules! functions {
    ($(($($taken:ident)*))+) => { $(
        impl<F, Fut, T, E, K, $($taken),*> Function<(K, $($taken,)*)> for F
        where
            F: Fn($($taken),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<T, E>> + Send + 'static,
            T: Serialize,
            E: ActionError<K>,
            $($taken: FromContext,)*
        {
            fn begin(&self, _context: Context) -> Attempt {
                let begun = || Ok(self($($taken::from_context(&_context)?),*));
                let begun: Result<Fut, Failure> = begun();
                Box::pin(async move { written(&begun?.await.map_err(E::into_failure)?) })
            }
        }
    )+ };
}

functions! { () (A) (A B) (A B C) }

/// What a function returned, as an outcome: an exception object is a failure.
pub(super) fn written<T: Serialize>(returned: &T) -> Outcome {
    let measure = Measure::of(returned);
    measure.depth()?;
    let value = serde_json::to_value(returned).map_err(|error| {
        let message = format!("the result can't be written as JSON: {error}");
        Failure::new("BAD_RESULT", &message).with_lineage(["BadResultError", "ValueError"])
    })?;
    match exception(&value) {
        Some(failure) => Err(failure),
        None => measure.size().map(|()| value),
    }
}
