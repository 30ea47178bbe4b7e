use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::time::Timestamp;
use crate::workflow::{StepIx, Workflow};

/// A run's name: 128 bits, written as a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Uuid);

/// The right to one attempt: whoever holds it may report the attempt's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(Uuid);

macro_rules! uuid_newtype {
    ($name:ident) => {
        impl $name {
            /// From 128 bits of chance; version and variant bits are set as RFC 9562 asks.
            #[must_use]
            pub fn from_random(high: u64, low: u64) -> Self {
                let bits = (u128::from(high) << 64) | u128::from(low);
                Self(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
            }

            /// The 16 bytes, in the order in which they sort.
            #[must_use]
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.into_bytes()
            }

            /// From the 16 bytes of [`Self::to_bytes`].
            #[must_use]
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_newtype!(RunId);
uuid_newtype!(Token);

impl RunId {
    /// The id of a run that is created at `at`: a UUID of version 7
    /// ([RFC 9562](https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7)). It begins with the
    /// milliseconds since 1970, so what a store keeps of runs that were created one after the other lies
    /// side by side; the other 74 bits are of chance, the lowest of `high` and `low`.
    #[must_use]
    pub fn created_at(at: Timestamp, high: u64, low: u64) -> Self {
        let mut chance = [0; 10];
        chance[..2].copy_from_slice(&high.to_be_bytes()[6..]);
        chance[2..].copy_from_slice(&low.to_be_bytes());
        let millis = at.as_nanos() / 1_000_000;
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &chance).into_uuid())
    }

    /// The id before this one, in the order in which they sort; the first has itself.
    #[must_use]
    pub fn before(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().saturating_sub(1)))
    }
}

impl Token {
    /// The run that tells a webhook of an alert that the attempt raised, and where its chance comes
    /// from: the same ones however often that is decided.
    #[must_use]
    pub fn telling(self, threshold: u64) -> (RunId, u64) {
        let mut hash = Sha256::new();
        hash.update(b"retrial alert 1");
        hash.update(self.to_bytes());
        hash.update(threshold.to_be_bytes());
        let hash = hash.finalize();
        let part = |n: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&hash[8 * n..8 * (n + 1)]);
            u64::from_be_bytes(bytes)
        };
        (RunId::from_random(part(0), part(1)), part(2))
    }
}

/// One retryable unit of a step: `item` is its place in the fanned-out list, 0 without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The step.
    pub step: StepIx,
    /// The item.
    pub item: u32,
}

impl TaskId {
    /// The first in the order of tasks.
    pub const FIRST: Self = Self { step: StepIx(0), item: 0 };
    /// The last in the order of tasks.
    pub const LAST: Self = Self { step: StepIx(u16::MAX), item: u32::MAX };

    /// The idempotency key that every attempt of this task of `run` sends.
    #[must_use]
    pub fn receipt(self, run: RunId) -> Uuid {
        let mut hash = Sha256::new();
        hash.update(b"retrial receipt 1");
        hash.update(run.to_bytes());
        hash.update(self.step.0.to_be_bytes());
        hash.update(self.item.to_be_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }

    /// 64 bits that depend on nothing but the run's seed, the task and the attempt. The mixing is `SplitMix64`'s finaliser (Steele, Lea, Flood 2014).
    #[must_use]
    pub fn chance(self, seed: u64, attempt: u32) -> u64 {
        let place = (u64::from(self.step.0) << 32) | u64::from(self.item);
        mix(mix(mix(seed) ^ place) ^ u64::from(attempt))
    }
}

/// Mixes 64 bits (`SplitMix64`'s finaliser; Steele, Lea, Flood, OOPSLA 2014).
#[must_use]
pub fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// `step/item` by number, as in `2/0`.
impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.step.0, self.item)
    }
}

/// How many events of a run have happened: the number of the next event, from 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// Before the first event.
    pub const START: Self = Self(0);

    /// The version `n` events later.
    #[must_use]
    pub fn after(self, n: usize) -> Self {
        Self(self.0.saturating_add(n as u64))
    }
}

/// SHA-256 of a JSON value's compact text, written as hexadecimal where people read it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(&String::from(*self)),
            false => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => Self::try_from(String::deserialize(deserializer)?).map_err(D::Error::custom),
            false => <[u8; 32]>::deserialize(deserializer).map(Self),
        }
    }
}

impl Digest {
    /// The digest that these bytes are.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the pair of a definition and an input.
    #[must_use]
    pub fn of_pair(workflow: &Workflow, input: &Map<String, Value>) -> Self {
        let input = serde_json::to_string(input).unwrap_or_default();
        let hash = workflow.hash().chain_update(",").chain_update(input).chain_update("]");
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        const DIGITS: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        let mut text = Self::with_capacity(2 * digest.0.len());
        for byte in digest.0 {
            text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        text
    }
}

impl TryFrom<String> for Digest {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a SHA-256 digest in hexadecimal");
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}
