//! Formats of figures: a unit, and as many digits as tell two of them apart.

use crate::table::figure;

/// KiB in MB, with as many digits as tell a small heap.
pub fn megabytes(kib: f64) -> String {
    let megabytes = kib * 1024.0 / 1e6;
    figure(megabytes, if megabytes < 10.0 { 2 } else { 1 })
}

/// Operations a second, in thousands or millions.
pub fn rate(rate: f64) -> String {
    if rate >= 1e6 {
        format!("{} M", figure(rate / 1e6, 2))
    } else if rate >= 1e4 {
        format!("{} k", figure(rate / 1e3, 1))
    } else {
        figure(rate, 0)
    }
}

/// A count that may be far below one.
pub fn small(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value < 0.01 {
        format!("{value:.1e}")
    } else {
        figure(value, 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_tell_them_apart() {
        assert_eq!(rate(103_300_000.0), "103.30 M");
        assert_eq!(rate(18_340.0), "18.3 k");
        assert_eq!(rate(f64::NAN), "-");
        assert_eq!(
            (small(1.25e-7), small(0.0), small(1.5)),
            ("1.2e-7".into(), "0".into(), "1.50".into())
        );
        assert_eq!(
            (megabytes(380.0), megabytes(100_000.0)),
            ("0.39".into(), "102.4".into())
        );
    }
}
