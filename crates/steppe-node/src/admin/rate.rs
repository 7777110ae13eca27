//! Rates and shares, rounded to be readable and short in JSON.

use serde_json::{Value, json};

/// A rate with three digits after the point; 0 without a time.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn per_second(count: u64, seconds: Option<f64>) -> f64 {
    // The first event may come within milliseconds of the first count.
    let seconds = seconds.filter(|&seconds| seconds > 0.5);
    seconds.map_or(0.0, |seconds| (count as f64 / seconds * 1e3).round() / 1e3)
}

/// A share with four digits after the point; `null` if the whole is 0.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(super) fn share(part: u64, whole: u64) -> Value {
    if whole == 0 {
        return Value::Null;
    }
    json!((part as f64 / whole as f64 * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_a_time_and_a_share_needs_a_whole() {
        assert_eq!(per_second(7, Some(3.0)), 2.333);
        assert_eq!((per_second(7, None), per_second(7, Some(0.1))), (0.0, 0.0));
        assert_eq!(share(1, 3), json!(0.3333));
        assert_eq!(share(0, 3), json!(0.0));
        assert_eq!(share(0, 0), Value::Null);
    }
}
