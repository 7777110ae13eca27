//! Timestamps of lines of a log, formatted once a second. Always UTC, so that the lines of two
//! nodes compare.

use std::time::{SystemTime, UNIX_EPOCH};

/// `21/Nov/2026:09:40:21 +0000`.
const COMBINED_BYTES: usize = 26;

/// `2026-11-21T09:40:21`.
const RFC3339_BYTES: usize = 19;

/// Formats the time of day.
#[derive(Debug)]
pub struct Clock {
    second: u64,
    combined: [u8; COMBINED_BYTES],
    rfc3339: [u8; RFC3339_BYTES],
}

/// A point in time as text.
#[derive(Debug)]
pub struct Now<'a> {
    /// In the format of `combined`.
    pub combined: &'a [u8],
    /// RFC 3339, up to the second.
    pub rfc3339: &'a [u8],
    /// Milliseconds of the second.
    pub millis: u32,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            second: u64::MAX,
            combined: [b' '; COMBINED_BYTES],
            rfc3339: [b' '; RFC3339_BYTES],
        }
    }
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "told to people, decides nothing")]
    /// The time.
    pub fn now(&mut self) -> Now<'_> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        self.at(since.as_secs(), since.subsec_millis())
    }

    /// A point in time, formatted.
    pub fn at(&mut self, second: u64, millis: u32) -> Now<'_> {
        if second != self.second {
            self.second = second;
            self.write(second);
        }
        Now {
            combined: &self.combined,
            rfc3339: &self.rfc3339,
            millis,
        }
    }

    fn write(&mut self, second: u64) {
        const MONTHS: [&[u8; 3]; 12] = [
            b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
            b"Dec",
        ];
        let (year, month, day) = date(second / 86_400);
        let of_day = second % 86_400;
        let time = [of_day / 3600, of_day / 60 % 60, of_day % 60];
        self.combined = *b"DD/Mmm/YYYY:HH:MM:SS +0000";
        digits(&mut self.combined[..2], day);
        let month_at = usize::try_from(month - 1).expect("one of twelve");
        self.combined[3..6].copy_from_slice(MONTHS[month_at]);
        digits(&mut self.combined[7..11], year);
        self.rfc3339 = *b"YYYY-MM-DDTHH:MM:SS";
        digits(&mut self.rfc3339[..4], year);
        digits(&mut self.rfc3339[5..7], month);
        digits(&mut self.rfc3339[8..10], day);
        for (index, part) in time.into_iter().enumerate() {
            digits(&mut self.combined[12 + 3 * index..][..2], part);
            digits(&mut self.rfc3339[11 + 3 * index..][..2], part);
        }
    }
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
///
/// Counted in eras of 400 years that begin in March, so that the leap day comes last
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// Writes the last digits of `number`, as many as fit, with leading zeros.
pub fn digits(room: &mut [u8], mut number: u64) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(second: u64) -> (String, String) {
        let mut clock = Clock::default();
        let now = clock.at(second, 0);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(now.combined), text(now.rfc3339))
    }

    #[test]
    fn seconds_become_dates() {
        for (second, combined, rfc3339) in [
            (0, "01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00"),
            (
                784_111_777,
                "06/Nov/1994:08:49:37 +0000",
                "1994-11-06T08:49:37",
            ),
            (
                951_782_399,
                "28/Feb/2000:23:59:59 +0000",
                "2000-02-28T23:59:59",
            ),
            (
                951_782_400,
                "29/Feb/2000:00:00:00 +0000",
                "2000-02-29T00:00:00",
            ),
            (
                4_107_542_400,
                "01/Mar/2100:00:00:00 +0000",
                "2100-03-01T00:00:00",
            ),
        ] {
            assert_eq!(texts(second), (combined.to_owned(), rfc3339.to_owned()));
        }
    }

    /// The date library that writes `Date` agrees on every day of four centuries.
    #[test]
    fn every_day_is_as_another_calendar_has_it() {
        for day in 0..146_097 {
            let second = day * 86_400 + 43_210;
            let time = UNIX_EPOCH + std::time::Duration::from_secs(second);
            let other = httpdate::fmt_http_date(time);
            let parts: Vec<&str> = other.split([' ', ':']).collect();
            let [_, day, month, year, hour, minute, second_text, _] = parts[..] else {
                panic!("{other}");
            };
            let expected = format!("{day}/{month}/{year}:{hour}:{minute}:{second_text} +0000");
            assert_eq!(texts(second).0, expected);
        }
    }
}
