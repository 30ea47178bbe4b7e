//! The wait that an HTTP answer asks for.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::time::{Nanos, Timestamp};

/// The wait of the header `Retry-After`: seconds, or the time until a date. The date is compared
/// with the response's `Date`, or else with `at`. `None` for a past date and for an invalid value; a
/// wait that is too large counts as the largest.
pub(crate) fn wait(retry_after: &str, own: Option<&str>, at: Timestamp) -> Option<Nanos> {
    let text = retry_after.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(text.parse().map_or(Nanos::MAX, Nanos::from_secs));
    }
    let due = date(text)?;
    let wait = match own.and_then(|own| date(own.trim())) {
        Some(now) => Nanos::from_secs(due.checked_sub(now)?),
        None => Nanos::from_secs(due).saturating_sub(Nanos::new(at.as_nanos())),
    };
    (!wait.is_zero()).then_some(wait)
}

/// Whole seconds since the Unix epoch.
fn date(text: &str) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    /// `NOW` in seconds, from RFC 9110's example date.
    const NOW_SECS: u64 = 784_111_777;

    fn check(retry_after: &str, date: Option<&str>, at_secs: u64, expected: Option<Nanos>) {
        let at = Timestamp::from_nanos(Nanos::from_secs(at_secs).get());
        assert_eq!(wait(retry_after, date, at), expected, "{retry_after} {date:?}");
    }

    #[test]
    fn seconds() {
        check("120", None, 0, Some(Nanos::from_secs(120)));
        check(" 7 ", None, 0, Some(Nanos::from_secs(7)));
        check("0", None, 0, Some(Nanos::ZERO));
        check("99999999999999999999999999", None, 0, Some(Nanos::MAX));
        check("18446744073709551615", None, 0, Some(Nanos::MAX));
    }

    #[test]
    fn dates_are_read_against_the_responses_own_date() {
        check("Sun, 06 Nov 1994 08:50:07 GMT", Some(NOW), 0, Some(Nanos::from_secs(30)));
        check("Sunday, 06-Nov-94 08:50:07 GMT", Some(NOW), 0, Some(Nanos::from_secs(30)));
        check("Sun Nov  6 08:50:07 1994", Some(NOW), 0, Some(Nanos::from_secs(30)));
        check("Sun, 06 Nov 1994 08:49:07 GMT", Some(NOW), 0, None);
        check(NOW, Some(NOW), 0, None);
        check(
            "Fri, 31 Dec 9999 23:59:59 GMT",
            Some(NOW),
            0,
            Some(Nanos::from_secs(252_618_189_022)),
        );
    }

    #[test]
    fn dates_without_a_usable_date_are_read_against_the_stores_clock() {
        check("Sun, 06 Nov 1994 08:50:07 GMT", None, NOW_SECS, Some(Nanos::from_secs(30)));
        check("Sun, 06 Nov 1994 08:50:07 GMT", Some("x"), NOW_SECS, Some(Nanos::from_secs(30)));
        check("Sun, 06 Nov 1994 08:49:07 GMT", None, NOW_SECS, None);
    }

    #[test]
    fn nonsense_asks_for_nothing() {
        for text in ["", "-1", "+1", "1.5", "1e3", "soon", "1 2", "0x10", "Sun, 06 Nov", "٣"] {
            assert_eq!(wait(text, None, Timestamp::default()), None, "{text}");
        }
    }
}
