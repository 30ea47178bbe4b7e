//! Names that stand for many HTTP statuses: `5xx`, `500-599` in lists of errors.

use std::ops::RangeInclusive;

/// The statuses that `name` stands for; `None` where it is no such name.
#[must_use]
pub fn statuses(name: &str) -> Option<RangeInclusive<u16>> {
    let (low, high) = match name.split_once('-') {
        Some((low, high)) => (status(low)?, status(high)?),
        None => {
            let digit = name.strip_suffix("xx").or(name.strip_suffix("XX"))?;
            let hundreds = digit.parse::<u16>().ok().filter(|_| digit.len() == 1)?;
            (hundreds * 100, hundreds * 100 + 99)
        }
    };
    (100 <= low && low <= high && high <= 599).then_some(low..=high)
}

/// Whether `name` has the form of a range of statuses, valid or not.
#[must_use]
pub fn looks_like_statuses(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let of_hundreds = name.to_ascii_lowercase().strip_suffix("xx").is_some_and(digits);
    of_hundreds || name.split_once('-').is_some_and(|(low, high)| digits(low) && digits(high))
}

/// A status: three digits.
pub(super) fn status(code: &str) -> Option<u16> {
    let digits = code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit());
    code.parse().ok().filter(|_| digits)
}
