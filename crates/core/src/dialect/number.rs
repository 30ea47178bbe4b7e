//! Decimal texts to integers and back, exactly: no float ever holds a length of time.

use crate::time::Nanos;

/// What is wrong with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NumberFault {
    /// Below zero.
    #[error("may not be negative")]
    Negative,
    /// `inf` or `nan`.
    #[error("must be finite")]
    NotFinite,
    /// Beyond what can be held.
    #[error("is too large")]
    TooLarge,
    /// Not a decimal number.
    #[error("is not a number")]
    NotANumber,
    /// A number without a unit where the unit isn't given by the field.
    #[error("has no unit")]
    NoUnit,
    /// A unit that isn't known.
    #[error("has an unknown unit")]
    UnknownUnit,
}

impl NumberFault {
    /// What to write instead.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Negative => "use zero or more",
            Self::NotFinite => "use a finite number, or leave the field out for no limit",
            Self::TooLarge => "the longest time is about 584 years",
            Self::NotANumber => "use a number with a unit, such as 30s",
            Self::NoUnit | Self::UnknownUnit => "use ms, s, m, h or d, such as 30s",
        }
    }
}

/// The suffixes of a length of time and their size in nanoseconds.
const UNITS: [(&str, u64); 5] =
    [("ms", MILLISECOND), ("s", SECOND), ("m", 60 * SECOND), ("h", 3_600 * SECOND), ("d", DAY)];

/// Nanoseconds in a millisecond.
pub(crate) const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Digits kept behind the decimal point. A day in nanoseconds times 10^24 still fits a `u128`.
const FRACTION: usize = 24;

/// `text` times `unit`, rounded down to a whole number. `text` is a decimal with an optional sign,
/// fraction and exponent.
pub(crate) fn scaled(text: &str, unit: u64) -> Result<u64, NumberFault> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if matches!(digits.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan") {
        return Err(NumberFault::NotFinite);
    }
    let (whole, fraction) = match split(digits) {
        Err(NumberFault::TooLarge) if negative => return Err(NumberFault::Negative),
        parts => parts?,
    };
    let product = whole.checked_mul(u128::from(unit)).ok_or(NumberFault::TooLarge)?;
    let part = fraction * u128::from(unit) / 10_u128.pow(FRACTION as u32);
    if negative && (whole, fraction) != (0, 0) {
        return Err(NumberFault::Negative);
    }
    u64::try_from(product + part).map_err(|_| NumberFault::TooLarge)
}

/// The whole part, and the fraction in units of 10^-[`FRACTION`].
fn split(text: &str) -> Result<(u128, u128), NumberFault> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberFault::NotANumber);
    }
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(exponent);
    place(&digits, point)
}

fn read_exponent(text: &str) -> Result<i64, NumberFault> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberFault::NotANumber);
    }
    // An exponent beyond i64 moves every digit out of sight either way.
    let size = digits.parse::<i64>().unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    Ok(if text.starts_with('-') { -size } else { size })
}

/// Splits `digits` at `point`, which may lie outside of them.
fn place(digits: &str, point: i64) -> Result<(u128, u128), NumberFault> {
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let significant = &digits[zeros..];
    let point = point.saturating_sub(i64::try_from(zeros).unwrap_or(i64::MAX));
    if significant.is_empty() || point < -(FRACTION as i64) {
        return Ok((0, 0));
    }
    if point > 20 {
        return Err(NumberFault::TooLarge);
    }
    let lead = "0".repeat(usize::try_from(-point).unwrap_or(0));
    let whole_digits = usize::try_from(point).unwrap_or(0);
    let whole: String = significant.chars().chain(zeros_forever()).take(whole_digits).collect();
    let rest = lead.chars().chain(significant.chars().skip(whole_digits)).chain(zeros_forever());
    let fraction: String = rest.take(FRACTION).collect();
    let read = |text: &str| match text {
        "" => Ok(0),
        text => text.parse().map_err(|_| NumberFault::TooLarge),
    };
    Ok((read(&whole)?, read(&fraction)?))
}

fn zeros_forever() -> impl Iterator<Item = char> {
    std::iter::repeat('0')
}

/// A length of time such as `30s`, `2m`, `1.5h`, `250ms`. A number without a suffix is in `bare`
/// nanoseconds each, or refused where there is none.
pub(crate) fn duration(text: &str, bare: Option<u64>) -> Result<Nanos, NumberFault> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number = number.trim_end();
    if number.is_empty() || number == "-" || number == "+" {
        // `inf`, `nan` and plain words.
        return scaled(text, 1).and(Err(NumberFault::NotANumber));
    }
    let unit = match (suffix, bare) {
        ("", Some(unit)) => unit,
        ("", None) => return scaled(number, 1).and(Err(NumberFault::NoUnit)),
        (suffix, _) => UNITS
            .into_iter()
            .find_map(|(name, size)| (name == suffix).then_some(size))
            .ok_or(NumberFault::UnknownUnit)?,
    };
    scaled(number, unit).map(Nanos::new)
}

/// `n` / 1,000,000 as an exact decimal.
#[must_use]
pub fn millionths(n: u64) -> String {
    decimal(n, 1_000_000)
}

/// `n` in seconds as an exact decimal.
pub(crate) fn seconds(n: Nanos) -> String {
    decimal(n.get(), SECOND)
}

/// `n` in milliseconds as an exact decimal.
pub(crate) fn milliseconds(n: Nanos) -> String {
    decimal(n.get(), MILLISECOND)
}

/// `n` / `unit`, a power of ten, as an exact decimal.
fn decimal(n: u64, unit: u64) -> String {
    let (whole, part, width) = (n / unit, n % unit, unit.ilog10() as usize);
    let text = format!("{whole}.{part:0width$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_integers_exactly() {
        let check = |text: &str, unit: u64, expected: Result<u64, NumberFault>| {
            assert_eq!(scaled(text, unit), expected, "{text} x {unit}");
        };
        check("0", SECOND, Ok(0));
        check("-0.0", SECOND, Ok(0));
        check("1.5", SECOND, Ok(1_500_000_000));
        check("0.1", SECOND, Ok(100_000_000));
        check("0.000000001", SECOND, Ok(1));
        check("0.0000000009", SECOND, Ok(0));
        check("1e3", 1, Ok(1_000));
        check("1E-3", SECOND, Ok(1_000_000));
        check("+2.5e1", MILLISECOND, Ok(25_000_000));
        check("00012", 1, Ok(12));
        check("0.00001e5", 1, Ok(1));
        check("18446744073709551615", 1, Ok(u64::MAX));
        check("18446744073709551616", 1, Err(NumberFault::TooLarge));
        check("18446744073.709551615", SECOND, Ok(u64::MAX));
        check("18446744073.709551616", SECOND, Err(NumberFault::TooLarge));
        check("1e999999999999999999999", 1, Err(NumberFault::TooLarge));
        check("0e999999999999999999999", 1, Ok(0));
        check("1e-999999999999999999999", 1, Ok(0));
        check("-1", 1, Err(NumberFault::Negative));
        check("-1e99", 1, Err(NumberFault::Negative));
        check("-0.0000000000000000000000000001", 1, Ok(0));
        check("-inf", 1, Err(NumberFault::NotFinite));
        check("NaN", 1, Err(NumberFault::NotFinite));
        check("", 1, Err(NumberFault::NotANumber));
        check(".", 1, Err(NumberFault::NotANumber));
        check("1e", 1, Err(NumberFault::NotANumber));
        check("1.2.3", 1, Err(NumberFault::NotANumber));
        check("٣", 1, Err(NumberFault::NotANumber));
    }

    #[test]
    fn w6_durations() {
        let check = |text: &str, expected: Result<u64, NumberFault>| {
            let got = duration(text, Some(SECOND)).map(Nanos::as_millis);
            assert_eq!(got, expected, "{text}");
        };
        check("60", Ok(60_000));
        check("1.5", Ok(1_500));
        check("30s", Ok(30_000));
        check("2m", Ok(120_000));
        check("1h", Ok(3_600_000));
        check("250ms", Ok(250));
        check("1d", Ok(86_400_000));
        check("0.5h", Ok(1_800_000));
        check("-1s", Err(NumberFault::Negative));
        check("5 m", Ok(300_000));
        check("5w", Err(NumberFault::UnknownUnit));
        check("soon", Err(NumberFault::NotANumber));
        check("inf", Err(NumberFault::NotFinite));
        check("9999999999999h", Err(NumberFault::TooLarge));
        assert_eq!(duration("5", None), Err(NumberFault::NoUnit));
    }
}
