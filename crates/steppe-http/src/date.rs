//! The `Date` field's value, made once a second. Spec: RFC 9110 §6.6.1.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

thread_local! {
    static LAST: RefCell<(u64, [u8; DATE_BYTES])> = const { RefCell::new((u64::MAX, [b' '; DATE_BYTES])) };
}

/// The present second as an IMF-fixdate.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that tells the time of day"
)]
pub fn now() -> [u8; DATE_BYTES] {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    at(since.as_secs())
}

fn at(second: u64) -> [u8; DATE_BYTES] {
    LAST.with_borrow_mut(|(last, text)| {
        if *last != second {
            let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(second));
            write!(&mut text[..], "{date}").expect("an IMF-fixdate has 29 bytes");
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
