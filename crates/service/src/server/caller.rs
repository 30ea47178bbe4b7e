//! Who sends a request.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::tokens::{NamedToken, Role};

/// Who sends a request.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// Somebody on this machine: the service has no tokens.
    Local,
    /// Whoever has the single token.
    Single,
    /// Whoever has a named token.
    Named(NamedToken),
}

impl Caller {
    /// The name in the audit trail.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Single => "token",
            Self::Named(token) => &token.name,
        }
    }

    pub(super) fn role(&self) -> Role {
        match self {
            Self::Local | Self::Single => Role::Admin,
            Self::Named(token) => token.role,
        }
    }

    pub(super) fn unfinished(&self) -> Option<u64> {
        self.named().and_then(|token| token.unfinished)
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.named().and_then(|token| token.bytes)
    }

    fn named(&self) -> Option<&NamedToken> {
        match self {
            Self::Named(token) => Some(token),
            Self::Local | Self::Single => None,
        }
    }

    /// The reason of a command, as the run's events record it: with the name of who sent it.
    pub(super) fn reason(&self, reason: &str) -> String {
        match self {
            Self::Local | Self::Single => reason.to_owned(),
            Self::Named(token) => format!("{reason} (by {})", token.name),
        }
    }
}

/// The checks of every request leave it with the request.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self::Local))
    }
}
