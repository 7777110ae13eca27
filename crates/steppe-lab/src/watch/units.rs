//! Figures for people; `-` for those that can't be seen.

/// Bytes, such as `10.4 MiB`.
pub(crate) fn bytes(value: Option<u64>) -> String {
    let Some(value) = value else {
        return UNSEEN.to_owned();
    };
    let mut scaled = as_f64(value);
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = larger;
    }
    if unit == "B" {
        format!("{value} B")
    } else {
        format!("{scaled:.1} {unit}")
    }
}

/// A count, such as `12`.
pub(crate) fn count(value: Option<u64>) -> String {
    value.map_or_else(|| UNSEEN.to_owned(), |value| value.to_string())
}

/// A rate, such as `85.2k`.
pub(crate) fn rate(value: Option<f64>) -> String {
    match value {
        None => UNSEEN.to_owned(),
        Some(value) if value >= 1e6 => format!("{:.1}M", value / 1e6),
        Some(value) if value >= 1e4 => format!("{:.1}k", value / 1e3),
        Some(value) => format!("{value:.0}"),
    }
}

/// A share as percentage, such as `3.1 %`.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || UNSEEN.to_owned(),
        |share| format!("{:.1} %", share * 100.0),
    )
}

/// A slope, such as `+3.1 KiB/min`.
pub(crate) fn slope(kib_per_min: Option<f64>) -> String {
    match kib_per_min {
        None => UNSEEN.to_owned(),
        // No minus before a zero.
        Some(slope) if slope.abs() < 0.05 => "0.0 KiB/min".to_owned(),
        Some(slope) => format!("{slope:+.1} KiB/min"),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for a chart: 2^53 bytes are enough"
)]
pub(crate) fn as_f64(value: u64) -> f64 {
    value as f64
}

const UNSEEN: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_figure() {
        assert_eq!(bytes(Some(0)), "0 B");
        assert_eq!(bytes(Some(1023)), "1023 B");
        assert_eq!(bytes(Some(1536)), "1.5 KiB");
        assert_eq!(bytes(Some(3 << 40)), "3.0 TiB");
        assert_eq!(rate(Some(999.6)), "1000");
        assert_eq!(rate(Some(85_152.0)), "85.2k");
        assert_eq!(slope(Some(-0.01)), "0.0 KiB/min");
        assert_eq!(slope(Some(3.12)), "+3.1 KiB/min");
        assert_eq!(percent(Some(0.031)), "3.1 %");
    }

    #[test]
    fn what_is_unseen_is_no_zero() {
        assert_eq!(bytes(None), "-");
        assert_eq!(count(None), "-");
        assert_eq!(rate(None), "-");
        assert_eq!(percent(None), "-");
        assert_eq!(slope(None), "-");
    }
}
