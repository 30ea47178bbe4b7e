//! The error of a call that failed for good.

use std::error::Error;
use std::fmt;

use crate::failure::Failure;
use crate::policy::GiveUp;

/// The work failed for good. Its source is the work's last error.
#[non_exhaustive]
pub struct GaveUp<E> {
    /// Attempts made.
    pub attempts: u32,
    /// Why there is no retry.
    pub reason: GiveUp,
    /// The last error as the policy saw it.
    pub failure: Failure,
    /// The work's own last error; `None` if the attempt timed out.
    pub error: Option<E>,
    pub(super) as_error: fn(&E) -> &(dyn Error + 'static),
}

impl<E> GaveUp<E> {
    /// The work's own last error; `None` if the attempt timed out.
    #[must_use]
    pub fn into_error(self) -> Option<E> {
        self.error
    }
}

impl<E> fmt::Debug for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, reason, failure, error, as_error } = self;
        f.debug_struct("GaveUp")
            .field("attempts", attempts)
            .field("reason", reason)
            .field("failure", failure)
            .field("error", &error.as_ref().map(as_error))
            .finish()
    }
}

impl<E> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, reason, failure, .. } = self;
        let plural = if *attempts == 1 { "" } else { "s" };
        write!(f, "{failure} (after {attempts} attempt{plural}: {reason})")
    }
}

impl<E> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.as_ref().map(self.as_error)
    }
}
