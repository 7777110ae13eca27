//! Figures as people read them: bytes, counts, durations, intervals.
//!
//! One rule for all reports, so that the page, the terminal and the CI say the same. Numbers keep
//! four significant digits; thousands are separated. Leaves out locales.

use crate::record::Interval;

/// Bytes in one step of the binary units.
const STEP: f64 = 1024.0;
pub(super) const BYTE_UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A number with about four significant digits: `0.0123`, `3.142`, `118.2`, `51,200`.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs();
    let is_extreme = magnitude >= 1e15 || (1e-12..1e-6).contains(&magnitude);
    if is_extreme {
        return format!("{value:.2e}");
    }
    let decimals = match magnitude {
        m if !(1e-12..1000.0).contains(&m) => 0,
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 0.1 => 3,
        m if m >= 0.01 => 4,
        _ => 6,
    };
    fixed(value, decimals, Zeros::Drop)
}

/// The treatment of zeros at the end of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeros {
    Keep,
    Drop,
}

/// A number with the given decimals.
pub(super) fn fixed(value: f64, decimals: usize, zeros: Zeros) -> String {
    let text = format!("{value:.decimals$}");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = match zeros {
        Zeros::Keep => fraction,
        Zeros::Drop => fraction.trim_end_matches('0'),
    };
    let is_zero = whole.bytes().chain(fraction.bytes()).all(|b| b == b'0');
    let sign = if is_zero { "" } else { sign };
    let whole = with_thousands(whole);
    match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

fn with_thousands(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        let is_border = index > 0 && (digits.len() - index).is_multiple_of(3);
        if is_border {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A whole number: `12,345`.
pub(super) fn count(value: u64) -> String {
    with_thousands(&value.to_string())
}

/// Bytes in the unit that suits them: `1.5 MiB`.
pub(super) fn bytes(value: f64) -> String {
    let index = byte_unit(value);
    let scaled = value / byte_factor(index);
    let decimals = match scaled.abs() {
        s if index == 0 || s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
    let figure = fixed(scaled, decimals, Zeros::Keep);
    format!("{figure} {}", BYTE_UNITS[index])
}

/// The index in [`BYTE_UNITS`] of the largest unit that is not above `value`.
pub(super) fn byte_unit(value: f64) -> usize {
    let mut index = 0;
    let mut rest = value.abs();
    while rest >= STEP && index + 1 < BYTE_UNITS.len() {
        rest /= STEP;
        index += 1;
    }
    index
}

/// Bytes in a unit of [`BYTE_UNITS`].
pub(super) fn byte_factor(index: usize) -> f64 {
    (0..index).fold(1.0, |factor, _| factor * STEP)
}

/// Microseconds in the unit that suits them: `850 µs`, `1.2 ms`, `3 s`.
pub(super) fn micros(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "s"),
        v if v >= 1e3 => (value / 1e3, "ms"),
        _ => (value, "µs"),
    };
    let decimals = if scaled.abs() >= 10.0 { 1 } else { 2 };
    format!("{} {unit}", fixed(scaled, decimals, Zeros::Drop))
}

/// A length of time: `42 s`, `10 min`, `1 h 20 min`.
pub(super) fn span_ms(value: u64) -> String {
    let seconds = value / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{value} ms"),
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// The unit of a finding's figures, the same for all of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unit {
    divisor: f64,
    name: String,
}

impl Unit {
    /// `unit`, or a larger one of bytes where the largest of `values` has five digits in it.
    pub(super) fn of(unit: &str, values: impl Iterator<Item = f64>) -> Self {
        const TOO_MANY: f64 = 10_000.0;
        let (bytes, rest) = unit
            .split_once('/')
            .map_or((unit, None), |(a, b)| (a, Some(b)));
        let largest = values
            .filter(|value| value.is_finite())
            .map(f64::abs)
            .fold(0.0, f64::max);
        let mut divisor = 1.0;
        let mut name = bytes;
        let index = match bytes {
            "bytes" => Some(0),
            _ => BYTE_UNITS.iter().position(|each| *each == bytes),
        };
        for larger in index
            .and_then(|index| BYTE_UNITS.get(index + 1..))
            .unwrap_or_default()
        {
            if largest / divisor < TOO_MANY {
                break;
            }
            (divisor, name) = (divisor * STEP, larger);
        }
        let name = match (name, rest) {
            // Counts and ratios have no unit.
            ("count" | "ratio", None) => String::new(),
            (name, None) => name.to_owned(),
            (name, Some(rest)) => format!("{name}/{rest}"),
        };
        Self { divisor, name }
    }

    /// A value with its unit: `3.1 KiB/epoch`
    pub(super) fn show(&self, value: f64) -> String {
        let figure = number(value / self.divisor);
        if self.name.is_empty() {
            return figure;
        }
        format!("{figure} {}", self.name)
    }

    /// The interval, such as `2 to 4.2`; `None` where it is a point, as that of a plain figure is.
    pub(super) fn range(&self, interval: &Interval) -> Option<String> {
        let end = |value: f64| number(value / self.divisor);
        let is_point = interval.lower >= interval.upper;
        (!is_point).then(|| format!("{} to {}", end(interval.lower), end(interval.upper)))
    }
}

/// Bytes in a unit such as `KiB/epoch`; `None`: the unit does not count bytes.
pub(super) fn bytes_of_unit(unit: &str) -> Option<f64> {
    let name = unit.split('/').next().unwrap_or(unit).trim();
    let index = BYTE_UNITS.iter().position(|each| *each == name)?;
    Some(byte_factor(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_true() {
        let all: Vec<_> = [
            0.0, -0.0, 0.01234, 0.5, 3.1236, 99.99, 118.24, 51_200.4, -1234.0,
        ]
        .map(number)
        .into();
        assert_eq!(
            all,
            [
                "0", "0", "0.0123", "0.5", "3.124", "99.99", "118.2", "51,200", "-1,234"
            ]
        );
        assert_eq!(number(f64::NAN), "–");
        assert_eq!(number(-1e-17), "0");
        assert_eq!([1e300, -2.5e-9].map(number), ["1.00e300", "-2.50e-9"]);
    }

    #[test]
    fn figures_share_a_unit() {
        let unit = Unit::of("KiB/cycle", [1_110_840.0, 65_536.0].into_iter());
        assert_eq!(unit.show(65_536.0), "64 MiB/cycle");
        let interval = Interval {
            lower: 66_560.0,
            estimate: 70_000.0,
            upper: 1_110_840.0,
        };
        assert_eq!(unit.range(&interval).as_deref(), Some("65 to 1,085"));
        let plain = |unit: &str| Unit::of(unit, [12_345.0].into_iter()).show(12_345.0);
        assert_eq!(plain("calls/op"), "12,345 calls/op");
        assert_eq!(plain("count"), "12,345");
        assert_eq!(plain("TiB"), "12,345 TiB");
        assert_eq!(plain("bytes"), "12.06 KiB");
    }

    #[test]
    fn bytes_and_times_pick_their_unit() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(bytes(6114e6), "5.69 GiB");
        assert_eq!(micros(850.0), "850 µs");
        assert_eq!(micros(1234.0), "1.23 ms");
        assert_eq!(micros(3e6), "3 s");
        assert_eq!(span_ms(600_000), "10 min");
        assert_eq!(span_ms(4_800_000), "1 h 20 min");
        assert_eq!(span_ms(250), "250 ms");
        assert_eq!(bytes_of_unit("KiB/epoch"), Some(1024.0));
        assert_eq!(bytes_of_unit("calls/op"), None);
    }
}
