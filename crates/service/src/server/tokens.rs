//! Bearer tokens: who has which role.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};

/// What a token may do. Each role may do all that the roles before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read runs, letters, workflows and metrics, and validate definitions.
    Read,
    /// Submit runs.
    Submit,
    /// Read inputs, results and the payloads of letters as they are stored.
    Reveal,
    /// Send commands to runs, redrive and discard letters, upload workflows.
    Operate,
    /// Remove runs.
    Admin,
}

impl Role {
    /// Every role with its name, from the least.
    pub const ALL: [(&str, Self); 5] = [
        ("read", Self::Read),
        ("submit", Self::Submit),
        ("reveal", Self::Reveal),
        ("operate", Self::Operate),
        ("admin", Self::Admin),
    ];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().find(|(_, role)| role == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, role)| *role).ok_or_else(|| format!("the role is one of {}", names()))
    }
}

/// A bearer token. Only its digest is kept, so the token can't leak.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AccessToken([u8; 32]);

/// Why a text is not a bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessTokenError {
    /// Short tokens can be guessed.
    #[error(
        "the token is shorter than {} characters; make one with `retrial token new NAME`",
        AccessToken::SHORTEST
    )]
    TooShort,
    /// A header can't carry it.
    #[error(
        "the token contains a space or a character that is not visible ASCII; make one with `retrial token new NAME`"
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

    /// The SHA-256 digest in hexadecimal, as a file of tokens has it.
    #[must_use]
    pub fn digest(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The token with this digest.
    fn of_digest(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        for (at, byte) in digest.iter_mut().enumerate().filter(|_| is_hex) {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        is_hex.then_some(Self(digest))
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

/// A token with a name, which the audit trail shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedToken {
    /// The name: letters, digits, `-`, `_` and `.`.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// The token.
    pub token: AccessToken,
    /// The most unfinished runs that it may have submitted.
    pub unfinished: Option<u64>,
    /// The most bytes of the requests that submitted them.
    pub bytes: Option<u64>,
}

/// The line of the file of tokens.
impl fmt::Display for NamedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, role, token, unfinished, bytes } = self;
        write!(f, "{name} {role} {}", token.digest())?;
        unfinished.map_or(Ok(()), |n| write!(f, " unfinished={n}"))?;
        bytes.map_or(Ok(()), |n| write!(f, " bytes={n}"))
    }
}

impl FromStr for NamedToken {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let (Some(name), Some(role), Some(digest)) = (words.next(), words.next(), words.next())
        else {
            return Err("a line is NAME ROLE DIGEST".to_owned());
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if !name.bytes().all(plain) || name.len() > 64 {
            let rule = "a name is at most 64 letters, digits, dashes, underscores and dots";
            return Err(rule.to_owned());
        }
        let wrong = "the digest is not SHA-256 in hexadecimal; `retrial token new` prints the line";
        let mut read = Self {
            name: name.into(),
            role: role.parse()?,
            token: AccessToken::of_digest(digest).ok_or(wrong)?,
            unfinished: None,
            bytes: None,
        };
        for word in words {
            let (limit, value) = word.split_once('=').unwrap_or((word, ""));
            let value =
                value.parse().map_err(|_| format!("the value of `{limit}` is no number"))?;
            match limit {
                "unfinished" => read.unfinished = Some(value),
                "bytes" => read.bytes = Some(value),
                _ => return Err(format!("`{limit}` is unknown; a limit is unfinished or bytes")),
            }
        }
        Ok(read)
    }
}

/// Named tokens, of which others may take the place while the service runs. Clones are handles to the
/// same tokens.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Arc<RwLock<Vec<NamedToken>>>);

/// A line of a file of tokens that can't be read. The text does not repeat it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct TokensError {
    line: usize,
    why: String,
}

impl Tokens {
    /// The tokens of a file: a line each, `NAME ROLE DIGEST`, then limits such as `unfinished=500`
    /// and `bytes=50000000`. Empty lines and lines that begin with `#` count for nothing.
    ///
    /// # Errors
    /// [`TokensError`] for the first line that is wrong, or whose name was given before.
    pub fn read(text: &str) -> Result<Self, TokensError> {
        let mut all: Vec<NamedToken> = Vec::new();
        for (n, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why| TokensError { line: n, why };
            let token: NamedToken = line.parse().map_err(wrong)?;
            if all.iter().any(|other| other.name == token.name) {
                return Err(wrong(format!("the name `{}` is given twice", token.name)));
            }
            all.push(token);
        }
        Ok(Self(Arc::new(RwLock::new(all))))
    }

    /// Takes the tokens of `others` in the place of its own, for every handle.
    pub fn replace(&self, others: &Self) {
        let others = others.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = others;
    }

    /// The token that `given` is. Takes the same time whichever it is.
    pub(super) fn find(&self, given: &[u8]) -> Option<NamedToken> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().fold(None, |found, token| match token.token.is(given) {
            true => Some(token.clone()),
            false => found,
        })
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

    /// The digest of `0123456789abcdef`, by sha256sum.
    const DIGEST: &str = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";

    #[test]
    fn files_of_tokens_are_read() {
        let text =
            format!("# people\nann admin {DIGEST}\n\nci submit {DIGEST} unfinished=5 bytes=9");
        let tokens = Tokens::read(&text).unwrap();
        let found = tokens.find(b"0123456789abcdef").unwrap();
        assert_eq!((&*found.name, found.role), ("ci", Role::Submit));
        assert_eq!((found.unfinished, found.bytes), (Some(5), Some(9)));
        assert_eq!(found.to_string(), text.lines().last().unwrap());
        assert_eq!(tokens.find(b"another-token-1234"), None);
        for (line, why) in [
            ("ci submit".to_owned(), "NAME ROLE DIGEST"),
            (format!("ci root {DIGEST}"), "read, submit, reveal, operate, admin"),
            (format!("c/i submit {DIGEST}"), "letters"),
            ("ci submit 0123456789abcdef".to_owned(), "SHA-256"),
            (format!("ci submit {DIGEST} most=3"), "unfinished or bytes"),
            (format!("ci submit {DIGEST} bytes=x"), "no number"),
            (format!("ci read {DIGEST}\nci read {DIGEST}"), "twice"),
        ] {
            let error = Tokens::read(&line).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("0123456789abcdef"), "{line}: {error}");
        }
    }

    #[test]
    fn other_tokens_take_the_place_of_a_services_own() {
        let used = Tokens::read(&format!("a read {DIGEST}")).unwrap();
        let handle = used.clone();
        handle.replace(&Tokens::default());
        assert_eq!(used.find(b"0123456789abcdef"), None);
    }
}
