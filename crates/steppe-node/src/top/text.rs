//! Figures and names of a snapshot as text that is fit for a terminal.

use serde_json::Value;

/// Text without control characters, which could control a terminal.
pub(super) fn printable(text: &str) -> String {
    let shown = |part: char| match part.is_control() {
        true => '\u{fffd}',
        false => part,
    };
    text.chars().map(shown).collect()
}

/// A string of the snapshot, fit for a terminal; `-` for `null`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Null => "-".to_owned(),
        other => printable(&other.to_string()),
    }
}

/// Bytes with a unit, to about three digits.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn bytes(value: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if value < 1 << 10 {
        return format!("{value} B");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.95 && unit < units.len() - 1 {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", units[unit])
}

/// Milliseconds, seconds if there are many, or `-`.
pub(super) fn milliseconds(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(ms) if ms >= 1e3 => format!("{:.2} s", ms / 1e3),
        Some(ms) => format!("{ms:.2} ms"),
    }
}

/// A rate with one digit after the point, or `-`.
pub(super) fn rate(value: &Value) -> String {
    let rate = value.as_f64();
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

/// A share in percent, or `-`.
pub(super) fn percent(share: &Value) -> String {
    let share = share.as_f64();
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0))
}

/// A name that fits into a column. An address keeps its whole port.
pub(super) fn fit(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let port = port(name).filter(|port| port.len() + 2 <= width);
    let end = port.unwrap_or_default();
    let kept = width.saturating_sub(end.len() + 1);
    let start: String = name.chars().take(kept).collect();
    match width {
        0 => String::new(),
        _ => format!("{start}…{end}"),
    }
}

/// The port at the end of an address, with its colon.
fn port(name: &str) -> Option<&str> {
    let colon = name.rfind(':')?;
    let port = &name[colon + 1..];
    let is_port = !port.is_empty() && port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
    is_port.then(|| &name[colon..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_address_keeps_its_port() {
        assert_eq!(fit("10.0.0.1:8080", 13), "10.0.0.1:8080");
        assert_eq!(fit("10.0.0.1:8080", 12), "10.0.0…:8080");
        assert_eq!(fit("listener [2001:db8::1]:443", 16), "listener [2…:443");
        assert_eq!(fit("10.0.0.1:8080", 7), "1…:8080");
        // Too narrow for a digit of the host: the address is cut like a name.
        assert_eq!(fit("10.0.0.1:8080", 6), "10.0.…");
        assert_eq!(fit("unix:/run/steppe/admin.sock", 12), "unix:/run/s…");
        assert_eq!(fit("größe", 3), "gr…");
        assert_eq!(
            (fit("ab", 1), fit("ab", 0)),
            ("…".to_owned(), String::new())
        );
    }
}
