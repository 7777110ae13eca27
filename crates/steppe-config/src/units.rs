//! Durations, sizes and shares in the syntax of a configuration, and the shortest text for each.
//!
//! Invariant: text that reads is within 64 bits of nanoseconds or bytes; nothing is rounded up. Non-goals: the
//! bounds of a key.

use std::time::Duration;

use crate::form::{Read, Refusal};
use crate::mistake::shown;

/// Nanoseconds of each unit, the largest first.
const DURATION_UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
];

/// Bytes of each unit, the largest first.
const SIZE_UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Parses a duration: `"250ms"`, `"1.5s"`, `"1m"`.
pub fn duration(text: &str) -> Read<Duration> {
    let refusal = || {
        Refusal::new(format!("`{}` is not a duration", shown(text))).help(
            "write a number and a unit (us, ms, s, m, h or d), such as \"250ms\", \"5s\" or \"1m\"",
        )
    };
    let (number, unit) = split_unit(text).ok_or_else(refusal)?;
    let scale = unit_scale(&DURATION_UNITS, unit).ok_or_else(refusal)?;
    let nanos = scaled(number, scale).ok_or_else(refusal)?;
    Ok(Duration::from_nanos(nanos))
}

/// Parses a size: `"64KiB"`, `"1.5GiB"`, `"512B"`; `"0"` needs no unit.
pub fn size(text: &str) -> Read<u64> {
    let refusal = || {
        let refusal = Refusal::new(format!("`{}` is not a size", shown(text)));
        refusal.help(size_help(text))
    };
    let (number, unit) = split_unit(text).ok_or_else(refusal)?;
    if unit.is_empty() && number == "0" {
        return Ok(0);
    }
    let scale = unit_scale(&SIZE_UNITS, unit).ok_or_else(refusal)?;
    scaled(number, scale).ok_or_else(refusal)
}

fn size_help(text: &str) -> String {
    let (number, unit) = split_unit(text).unwrap_or(("64", ""));
    let binary = SIZE_UNITS.iter().find(|(name, _)| {
        let letter = unit.get(..1).filter(|_| unit.len() <= 3);
        letter.is_some_and(|letter| name[..1].eq_ignore_ascii_case(letter))
    });
    match binary {
        Some((name, _)) => format!("did you mean \"{number}{name}\"?"),
        None => "write a number and a unit (B, KiB, MiB, GiB or TiB), such as \"64KiB\" or \
                 \"10MiB\""
            .to_owned(),
    }
}

/// Parses a percentage, such as `"75%"`: above 0 and up to 100 %.
pub fn percent(text: &str) -> Read<f64> {
    let refusal = || {
        Refusal::new(format!("`{}` is not a share", shown(text)))
            .help("write a share such as \"75%\" or 0.75")
    };
    let number = text.strip_suffix('%').ok_or_else(refusal)?;
    let is_decimal = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent: f64 = number
        .parse()
        .ok()
        .filter(|_| is_decimal)
        .ok_or_else(refusal)?;
    share(percent / 100.0)
}

/// Checks a share: above 0 and up to 1.
pub fn share(share: f64) -> Read<f64> {
    if share > 0.0 && share <= 1.0 {
        return Ok(share);
    }
    Err(Refusal::new("a share is above 0% and at most 100%")
        .help("write a share such as \"75%\" or 0.75"))
}

/// The number of a text, and the unit behind it.
fn split_unit(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (!number.is_empty()).then_some((number, unit))
}

fn unit_scale(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    let found = units.iter().find(|(name, _)| *name == unit)?;
    Some(found.1)
}

/// A decimal number times `scale`, rounded down. `None`: no number, or beyond 64 bits.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_short = !fraction.is_empty() && fraction.len() <= 9;
    if !is_short {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let digits: u128 = fraction.parse().ok()?;
    let power = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u64::try_from(digits * u128::from(scale) / power).ok()?;
    whole.checked_mul(scale)?.checked_add(part)
}

/// The shortest text that [`duration`] reads as this.
pub fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match DURATION_UNITS
        .iter()
        .find(|(_, scale)| nanos > 0 && nanos.is_multiple_of(u128::from(*scale)))
    {
        Some((unit, scale)) => format!("{}{unit}", nanos / u128::from(*scale)),
        None if nanos == 0 => "0s".to_owned(),
        None => format!("{}us", nanos / 1_000),
    }
}

/// A share as a percentage, to a millionth.
pub fn percent_text(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

/// The shortest text that [`size`] reads as this.
pub fn size_text(bytes: u64) -> String {
    match SIZE_UNITS
        .iter()
        .find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale))
    {
        Some((unit, scale)) => format!("{}{unit}", bytes / scale),
        None => "0B".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_back() {
        for (text, nanos, canonical) in [
            ("250ms", 250_000_000, "250ms"),
            ("1.8s", 1_800_000_000, "1800ms"),
            ("60s", 60_000_000_000, "1m"),
            ("0s", 0, "0s"),
            ("36h", 129_600_000_000_000, "36h"),
            ("7us", 7_000, "7us"),
        ] {
            let read = duration(text).expect(text);
            assert_eq!(read, Duration::from_nanos(nanos), "{text}");
            assert_eq!(duration_text(read), canonical);
            assert_eq!(duration(canonical).as_ref(), Ok(&read));
        }
        for text in [
            "",
            "5",
            "5 s",
            "s",
            "-1s",
            "1.s",
            ".5s",
            "1e3s",
            "5S",
            "999999999d",
            "1.2.3s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_read_back() {
        for (text, bytes, canonical) in [
            ("64KiB", 64 << 10, "64KiB"),
            ("1.5GiB", 1536 << 20, "1536MiB"),
            ("0", 0, "0B"),
            ("1000B", 1000, "1000B"),
        ] {
            let read = size(text).expect(text);
            assert_eq!(read, bytes, "{text}");
            assert_eq!(size_text(read), canonical);
            assert_eq!(size(canonical), Ok(read));
        }
        for text in ["", "64", "64 KiB", "64KB", "MiB", "-1B", "99999999TiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        let help = size("64MB").expect_err("decimal units are refused").help;
        assert_eq!(help.as_deref(), Some("did you mean \"64MiB\"?"));
    }

    #[test]
    fn shares_are_within_the_whole() {
        assert_eq!(percent("75%"), Ok(0.75));
        assert_eq!(percent("100%"), Ok(1.0));
        for text in ["0%", "101%", "75", "%", "-1%", "nan%", "inf%", "1e1%"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert!(share(f64::NAN).is_err());
    }
}
