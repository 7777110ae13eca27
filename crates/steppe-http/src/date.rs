//! HTTP dates: the value of `Date`, formatted once a second, and others on demand.
//! Spec: RFC 9110 §5.6.7, §6.6.1.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

thread_local! {
    static LAST: RefCell<(u64, [u8; DATE_BYTES])> = const { RefCell::new((u64::MAX, [b' '; DATE_BYTES])) };
}

/// The current time as an IMF-fixdate.
#[must_use]
pub fn now() -> [u8; DATE_BYTES] {
    at(since_epoch().as_secs())
}

/// The current time since the Unix epoch.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that tells the time of day"
)]
pub fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// A Unix time in seconds, before the year 10000, as an IMF-fixdate.
#[must_use]
pub fn of(second: u64) -> [u8; DATE_BYTES] {
    let mut text = [b' '; DATE_BYTES];
    let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(second));
    write!(&mut text[..], "{date}").expect("an IMF-fixdate has 29 bytes");
    text
}

/// The Unix time of a date in any of the three formats of RFC 9110.
#[must_use]
pub fn parse(text: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

fn at(second: u64) -> [u8; DATE_BYTES] {
    LAST.with_borrow_mut(|(last, text)| {
        if *last != second {
            *text = of(second);
            *last = second;
        }
        *text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_follows_the_second() {
        assert_eq!(&at(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&at(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&at(784_111_778), b"Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
