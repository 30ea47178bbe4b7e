//! Locks a mutex even if a panic has poisoned it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also after a panic under its lock: the panic itself is the verdict.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
