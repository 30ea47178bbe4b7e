use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// A growth factor in millionths, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Multiplier(u64);

impl Multiplier {
    /// Twice as long each time.
    pub const TWO: Self = Self(2_000_000);

    /// `millionths` / 1,000,000.
    ///
    /// # Errors
    /// [`BackoffError::Multiplier`] below 1.
    pub fn from_millionths(millionths: u64) -> Result<Self, BackoffError> {
        if millionths < 1_000_000 { Err(BackoffError::Multiplier) } else { Ok(Self(millionths)) }
    }

    /// The factor in millionths.
    #[must_use]
    pub fn millionths(self) -> u64 {
        self.0
    }
}

/// A share of the whole in millionths, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Share(u32);

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// A tenth.
    pub const TENTH: Self = Self(100_000);
    /// A quarter: the default jitter of `retry_config`.
    pub const QUARTER: Self = Self(250_000);

    /// `millionths` / 1,000,000.
    ///
    /// # Errors
    /// [`BackoffError::Share`] above 1.
    pub fn from_millionths(millionths: u32) -> Result<Self, BackoffError> {
        if millionths > 1_000_000 { Err(BackoffError::Share) } else { Ok(Self(millionths)) }
    }

    /// The share in millionths.
    #[must_use]
    pub fn millionths(self) -> u32 {
        self.0
    }
}

/// Why a number or a list of delays is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackoffError {
    /// The list has no delay.
    #[error("the list of delays is empty; give at least one")]
    EmptyList,
    /// Delays are stored with the policy.
    #[error("the list has {0} delays; give at most {most}", most = DelayList::MOST)]
    LongList(usize),
    /// A multiplier below 1 would shrink the delay.
    #[error("the multiplier is below 1: delays would shrink; use 1 or more")]
    Multiplier,
    /// A share above 1: jitter could make a delay negative, a retry budget would bound nothing.
    #[error("the share is above 1; use 0 to 1")]
    Share,
}

impl TryFrom<u64> for Multiplier {
    type Error = BackoffError;
    fn try_from(n: u64) -> Result<Self, BackoffError> {
        Self::from_millionths(n)
    }
}

impl From<Multiplier> for u64 {
    fn from(m: Multiplier) -> Self {
        m.0
    }
}

impl TryFrom<u32> for Share {
    type Error = BackoffError;
    fn try_from(n: u32) -> Result<Self, BackoffError> {
        Self::from_millionths(n)
    }
}

impl From<Share> for u32 {
    fn from(s: Share) -> Self {
        s.0
    }
}

/// A list of delays: at least one, at most [`DelayList::MOST`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Nanos>", into = "Vec<Nanos>")]
pub struct DelayList(Vec<Nanos>);

impl DelayList {
    /// The most delays that are kept.
    pub const MOST: usize = 1_000;

    /// The delay before retry `n`, from 1. Past the end of the list it is the last delay.
    #[must_use]
    pub(crate) fn delay(&self, n: u32) -> Nanos {
        let at = usize::try_from(n.max(1) - 1).unwrap_or(usize::MAX);
        self.0.get(at).copied().unwrap_or_else(|| self.last())
    }

    /// The last delay.
    #[must_use]
    pub(crate) fn last(&self) -> Nanos {
        self.0.last().copied().unwrap_or_default()
    }

    /// The delays in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Nanos] {
        &self.0
    }
}

impl TryFrom<Vec<Nanos>> for DelayList {
    type Error = BackoffError;

    fn try_from(delays: Vec<Nanos>) -> Result<Self, BackoffError> {
        match delays.len() {
            0 => Err(BackoffError::EmptyList),
            n if n > Self::MOST => Err(BackoffError::LongList(n)),
            _ => Ok(Self(delays)),
        }
    }
}

impl From<DelayList> for Vec<Nanos> {
    fn from(list: DelayList) -> Self {
        list.0
    }
}
