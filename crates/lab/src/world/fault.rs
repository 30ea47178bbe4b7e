use std::borrow::Cow;

use retrial_core::failure::{Failure, NetworkFault};
use retrial_core::policy::PolicyParts;
use retrial_core::time::Nanos;

use crate::model::{Scenario, Service};

/// What went wrong with an attempt, small enough to travel in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The service failed.
    Error(usize),
    /// The service's queue was full, or the request waited too long in it.
    Overloaded,
    /// The service's rate limit; with the wait that it asks for, or none.
    Throttled(Nanos),
    /// Nothing listens.
    Refused,
    /// The service went away in the middle.
    Reset,
    /// The row has another version.
    Conflict,
    /// What the service calls failed for good.
    Dependency,
    /// No answer came in time.
    Timeout,
}

/// The failures that faults are, made once: making one masks secrets, which takes its time.
#[derive(Debug)]
pub(super) struct Failures {
    errors: Vec<Failure>,
    overloaded: Failure,
    throttled: Failure,
    refused: Failure,
    reset: Failure,
    conflict: Failure,
    dependency: Failure,
    timeout: Failure,
}

impl Failures {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let error = |service: &Service| {
            let failure = Failure::http(service.status, "error");
            match service.error_retry_after {
                Some(wait) => failure.with_retry_after(wait),
                None => failure,
            }
        };
        Self {
            errors: scenario.services.iter().map(error).collect(),
            overloaded: Failure::http(503, "overloaded"),
            throttled: Failure::http(429, "too many requests"),
            refused: Failure::network(NetworkFault::Refused, "refused"),
            reset: Failure::network(NetworkFault::Reset, "reset"),
            conflict: Failure::http(409, "conflict").retryable(),
            dependency: Failure::http(502, "a dependency failed"),
            timeout: Failure::timeout(PolicyParts::DEFAULT_TIMEOUT),
        }
    }

    pub(super) fn get(&self, fault: Fault) -> Cow<'_, Failure> {
        Cow::Borrowed(match fault {
            Fault::Error(service) => self.errors.get(service).unwrap_or(&self.overloaded),
            Fault::Overloaded => &self.overloaded,
            Fault::Throttled(Nanos::ZERO) => &self.throttled,
            Fault::Throttled(wait) => {
                return Cow::Owned(self.throttled.clone().with_retry_after(wait));
            }
            Fault::Refused => &self.refused,
            Fault::Reset => &self.reset,
            Fault::Conflict => &self.conflict,
            Fault::Dependency => &self.dependency,
            Fault::Timeout => &self.timeout,
        })
    }
}
