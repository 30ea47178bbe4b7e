use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::failure::{Class, Failure};

/// Which failures a rule applies to: a scope without its exceptions. Exceptions take precedence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matcher {
    /// The failures that match.
    pub scope: Scope,
    /// The failures that never match: codes or type names, matched along the lineage.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub except: BTreeSet<String>,
}

/// The failures that a matcher matches before its exceptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every failure.
    Any,
    /// Failures whose class is retryable, and those with one of these codes or types.
    Retryable(BTreeSet<String>),
    /// Only failures with one of these codes or types, matched along the lineage.
    Names(BTreeSet<String>),
}

impl Matcher {
    /// Matches every failure.
    #[must_use]
    pub fn any() -> Self {
        Self { scope: Scope::Any, except: BTreeSet::new() }
    }

    /// Matches failures of the retryable class.
    #[must_use]
    pub fn retryable() -> Self {
        Self { scope: Scope::Retryable(BTreeSet::new()), except: BTreeSet::new() }
    }

    /// Matches failures named by code or type; no names match every failure.
    #[must_use]
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        let scope = if names.is_empty() { Scope::Any } else { Scope::Names(names) };
        Self { scope, except: BTreeSet::new() }
    }

    /// Whether `failure`, whose class under the policy is `class`, is matched.
    #[must_use]
    pub fn matches(&self, failure: &Failure, class: Class) -> bool {
        if self.except.iter().any(|name| failure.is_a(name)) {
            return false;
        }
        match &self.scope {
            Scope::Any => true,
            Scope::Retryable(_) => class == Class::Retryable || self.names(failure),
            Scope::Names(_) => self.names(failure),
        }
    }

    /// Whether the scope lists `failure` by code or type.
    #[must_use]
    pub(crate) fn names(&self, failure: &Failure) -> bool {
        match &self.scope {
            Scope::Any => false,
            Scope::Retryable(names) | Scope::Names(names) => names.iter().any(|n| failure.is_a(n)),
        }
    }
}
