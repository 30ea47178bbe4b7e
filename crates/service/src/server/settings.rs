//! The settings of a service.

use std::collections::BTreeSet;
use std::fmt;

use sha2::{Digest as _, Sha256};

use super::Hosts;
use retrial::dialect::Environment;
use retrial::time::Nanos;

/// The settings of a service. The defaults suit a service on loopback for the users of the machine.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The token that requests send as `Authorization: Bearer`; required unless the service listens
    /// on loopback.
    pub token: Option<AccessToken>,
    /// The environment variables that headers of definitions may use as `env:NAME`.
    pub allow_env: BTreeSet<String>,
    /// The hosts that HTTP actions may call; `None` allows any.
    pub hosts: Option<Hosts>,
    /// The registered functions that definitions may use.
    pub functions: Functions,
    /// The default policies of steps that set none.
    pub environment: Environment,
    /// The limits of sizes, counts and times.
    pub limits: Limits,
}

/// Which registered functions a definition may use as actions. A run whose function no node has
/// waits until a node has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Functions {
    /// Any function: the service does not know which functions the store's nodes have.
    #[default]
    Any,
    /// Only these functions.
    Only(BTreeSet<String>),
}

impl Functions {
    /// Whether a definition may use the function.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// The limits of a service. A request beyond a limit fails with the status given there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a request's body: 413.
    pub body: usize,
    /// The most bytes of a request's path and query: 414.
    pub uri: usize,
    /// The most bytes of a request's head: 431.
    pub head: usize,
    /// The most connections; further ones wait to be accepted.
    pub connections: usize,
    /// The most event streams open at once: 429.
    pub streams: usize,
    /// The most unfinished runs in the store: further submissions get 429.
    pub unfinished: u64,
    /// The most entries of a page.
    pub page: usize,
    /// How long a client may take to send a request's head: the connection is closed.
    pub head_within: Nanos,
    /// How long a client may take to send a request's body: 408.
    pub body_within: Nanos,
    /// How long the service may take to start an answer: 503.
    pub answer_within: Nanos,
    /// How long a client may leave sent data unread: the connection is closed.
    pub read_within: Nanos,
    /// The longest silence on an event stream before a comment is sent.
    pub keep_alive: Nanos,
    /// How long requests in progress may take to end at shutdown.
    pub grace: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 1024 * 1024,
            uri: 8 * 1024,
            head: 32 * 1024,
            connections: 1_024,
            streams: 256,
            unfinished: 100_000,
            page: 500,
            head_within: Nanos::from_secs(10),
            body_within: Nanos::from_secs(20),
            answer_within: Nanos::from_secs(30),
            read_within: Nanos::from_secs(30),
            keep_alive: Nanos::from_secs(15),
            grace: Nanos::from_secs(10),
        }
    }
}

/// A bearer token. Only its digest is kept, so the token can't leak.
#[derive(Clone, Copy)]
pub struct AccessToken([u8; 32]);

/// Why a text is not a bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessTokenError {
    /// Short tokens can be guessed.
    #[error(
        "the token is shorter than {} characters; make one with `openssl rand -hex 32`",
        AccessToken::SHORTEST
    )]
    TooShort,
    /// A header can't carry it.
    #[error(
        "the token contains a space or a character that is not visible ASCII; make one with `openssl rand -hex 32`"
    )]
    Character,
}

impl AccessToken {
    /// The least number of characters.
    pub const SHORTEST: usize = 16;

    /// The token `text`, without the white space around it.
    ///
    /// # Errors
    /// [`AccessTokenError`], which does not repeat the text.
    pub fn new(text: &str) -> Result<Self, AccessTokenError> {
        let text = text.trim();
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(AccessTokenError::Character);
        }
        if text.len() < Self::SHORTEST {
            return Err(AccessTokenError::TooShort);
        }
        Ok(Self(Sha256::digest(text.as_bytes()).into()))
    }

    /// Whether `given` is the token, in constant time.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        let differ = self.0.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_again_and_never_shown() {
        let token = AccessToken::new(" 0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        assert!(
            !token.is(b"0123456789abcdeF") && !token.is(b"") && !token.is(b"0123456789abcdef\n")
        );
        assert_eq!(format!("{token:?}"), "AccessToken(***)");
        assert_eq!(AccessToken::new("short").unwrap_err(), AccessTokenError::TooShort);
        assert_eq!(AccessToken::new("0123456789 abcdef").unwrap_err(), AccessTokenError::Character);
    }
}
