//! Integer time: lengths and instants in nanoseconds, saturating.
//!
//! This room reads no clock. `std::time::Instant` lives only in the tokio runtime.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time in nanoseconds, at most about 584 years. Arithmetic saturates.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The largest representable length.
    pub const MAX: Self = Self(u64::MAX);

    /// `n` nanoseconds.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// `n` milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` seconds, saturating.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// The count of nanoseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole milliseconds, rounded up.
    #[must_use]
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Whether this is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The product, or [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Self {
        Self::from_nanos(n.0)
    }
}

/// Writes a length as people write it: `250ms`, `2s`, `1m30s`, `1.5s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 3] =
            [("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000)];
        let mut rest = self.0;
        let mut wrote = false;
        for (name, size) in UNITS {
            if rest >= size {
                write!(f, "{}{name}", rest / size)?;
                rest %= size;
                wrote = true;
            }
        }
        match rest {
            0 if wrote => Ok(()),
            0 => f.write_str("0s"),
            n if n >= 1_000_000_000 => decimal(f, n, 1_000_000_000, "s"),
            n if n >= 1_000_000 => decimal(f, n, 1_000_000, "ms"),
            n if n >= 1_000 => decimal(f, n, 1_000, "us"),
            n => write!(f, "{n}ns"),
        }
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, n: u64, unit: u64, name: &str) -> fmt::Result {
    let (whole, part) = (n / unit, n % unit);
    if part == 0 {
        return write!(f, "{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{part:0width$}");
    write!(f, "{whole}.{}{name}", digits.trim_end_matches('0'))
}

macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The instant `nanos` nanoseconds after the origin.
            #[must_use]
            pub const fn from_nanos(nanos: u64) -> Self {
                Self(nanos)
            }

            /// Nanoseconds since the origin.
            #[must_use]
            pub const fn as_nanos(self) -> u64 {
                self.0
            }

            /// The instant `by` later, or the last one.
            #[must_use]
            pub const fn after(self, by: Nanos) -> Self {
                Self(self.0.saturating_add(by.get()))
            }

            /// The instant `by` earlier, or the origin.
            #[must_use]
            pub const fn before(self, by: Nanos) -> Self {
                Self(self.0.saturating_sub(by.get()))
            }

            /// The time from `earlier` to here, or zero.
            #[must_use]
            pub const fn since(self, earlier: Self) -> Nanos {
                Nanos::new(self.0.saturating_sub(earlier.0))
            }
        }
    };
}

instant! {
    /// An instant of a store's clock, counted from the Unix epoch. Every stored event carries one.
    Timestamp
}

instant! {
    /// An instant of one process's monotonic clock, counted from an arbitrary origin. It may drift; it never jumps.
    Mono
}

/// RFC 3339 in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(t) => t.fmt(f),
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

/// A text that is no [`Timestamp`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time since 1970, such as 2026-01-31T12:00:00Z")]
pub struct NoTimestamp(String);

/// Reads RFC 3339.
impl FromStr for Timestamp {
    type Err = NoTimestamp;

    fn from_str(text: &str) -> Result<Self, NoTimestamp> {
        let read = text.parse::<jiff::Timestamp>().ok();
        let nanos = read.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
        nanos.map(Self).ok_or_else(|| NoTimestamp(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_as_people_write_them() {
        let shown = |n: Nanos| n.to_string();
        assert_eq!(shown(Nanos::ZERO), "0s");
        assert_eq!(shown(Nanos::from_millis(1_500)), "1.5s");
        assert_eq!(shown(Nanos::from_millis(250)), "250ms");
        assert_eq!(shown(Nanos::from_secs(90)), "1m30s");
        assert_eq!(shown(Nanos::from_secs(3_600)), "1h");
        assert_eq!(shown(Nanos::new(1_050_000)), "1.05ms");
        let small = [1, 999, 1_000, 1_500, 999_999, 1_000_000].map(Nanos::new).map(shown);
        assert_eq!(small, ["1ns", "999ns", "1us", "1.5us", "999.999us", "1ms"]);
    }

    #[test]
    fn a_length_is_that_of_the_standard_library() {
        for nanos in [0, 1, 1_000_000_007, u64::MAX] {
            assert_eq!(Duration::from(Nanos::new(nanos)), Duration::from_nanos(nanos));
            assert_eq!(Nanos::from(Duration::from_nanos(nanos)), Nanos::new(nanos));
        }
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Nanos::MAX.saturating_add(Nanos::new(1)), Nanos::MAX);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
        assert_eq!(Timestamp::from_nanos(5).since(Timestamp::from_nanos(9)), Nanos::ZERO);
    }

    #[test]
    fn a_timestamp_is_read_as_it_is_written() {
        for nanos in [0, 1_000_000_000, 1_769_860_800_000_000_001] {
            let time = Timestamp::from_nanos(nanos);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        for wrong in ["", "yesterday", "7", "1969-12-31T23:59:59Z", "2700-01-01T00:00:00Z"] {
            assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
        }
    }
}
