//! Student's t distribution, for whole degrees of freedom.
//!
//! Abramowitz & Stegun 1964, 26.7.3 and 26.7.4: finite sums, exact to rounding.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// The quantile of the distribution at `share`, from 0.5 to below 1.
pub(super) fn t_quantile(share: f64, degrees: u32) -> f64 {
    let within = 2.0 * share - 1.0;
    // Bisects the angle whose tangent is the quantile: that has bounds.
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..HALVINGS {
        let angle = f64::midpoint(low, high);
        if share_within(angle, degrees) < within {
            low = angle;
        } else {
            high = angle;
        }
    }
    f64::midpoint(low, high).tan() * f64::from(degrees).sqrt()
}

/// The share of the distribution above `value`.
pub(super) fn upper_tail(value: f64, degrees: u32) -> f64 {
    let angle = (value.abs() / f64::from(degrees).sqrt()).atan();
    let beyond = (1.0 - share_within(angle, degrees)) / 2.0;
    if value >= 0.0 { beyond } else { 1.0 - beyond }
}

/// The share of the distribution within ± `tan(angle) × √degrees`.
fn share_within(angle: f64, degrees: u32) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let is_odd = degrees % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = if degrees > 1 { term } else { 0.0 };
    let mut at = if is_odd { 3 } else { 2 };
    while at < degrees {
        term *= cosine * cosine * f64::from(at - 1) / f64::from(at);
        sum += term;
        at += 2;
    }
    if is_odd {
        FRAC_2_PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

/// A right angle halved as often is below the precision of the sums.
const HALVINGS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided 95 % and other quantiles, as in every table.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table = [
            (0.975, 1, 12.706_205),
            (0.975, 2, 4.302_653),
            (0.975, 3, 3.182_446),
            (0.975, 4, 2.776_445),
            (0.975, 5, 2.570_582),
            (0.95, 4, 2.131_847),
            (0.80, 9, 0.883_404),
            (0.975, 9, 2.262_157),
            (0.995, 10, 3.169_273),
            (0.975, 120, 1.979_930),
            (0.999, 7, 4.785_290),
        ];
        for (share, degrees, expected) in table {
            let found = t_quantile(share, degrees);
            assert!(
                (found - expected).abs() < 1e-5,
                "{share} {degrees}: {found}"
            );
            let over = upper_tail(found, degrees);
            assert!((over - (1.0 - share)).abs() < 1e-9, "{share}: {over}");
            assert!((upper_tail(-found, degrees) - share).abs() < 1e-9);
        }
        assert!(t_quantile(0.5, 3).abs() < 1e-9);
    }
}
