//! Looks at a run while it goes on, and the risk of each.
//!
//! Repeated looks until something is over its budget will find it: five looks at 2.5 % each are wrong more
//! often than 2.5 %. So the looks are fixed beforehand, and the chance of a false claim is spent on them
//! little by little (Lan & DeMets 1983, "Discrete sequential boundaries for clinical trials"), by a
//! spending function like Pocock's, α · ln(1 + (e − 1) · t), at the share t of the looks. Everything is
//! judged at the level that a look adds, Holm's correction included.
//!
//! - The levels of all looks sum up to α, so no claim is false more often than that, whatever the looks
//!   have in common (Bonferroni). The exact boundaries of Lan & DeMets are a little narrower; they rest on
//!   normal increments, and a slope of one process has a t distribution of three to five degrees of
//!   freedom.
//! - Not like O'Brien & Fleming's, which leaves one in two million to the first look: with so few degrees
//!   of freedom nothing would ever be decided there, and healthy series should be decided early.
//!
//! Leaves out when a look is due (`run`), and which series are decided (`judge`).

/// One of several looks that were fixed beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Number of the look from 1.
    pub number: u32,
    /// The most looks that there may be.
    pub of: u32,
}

impl Look {
    /// The only look at a run.
    pub const ONLY: Self = Self { number: 1, of: 1 };

    /// True if nothing is judged after this look.
    #[must_use]
    pub fn is_last(self) -> bool {
        self.number >= self.of
    }

    /// The chance of a false claim that this look may add; `alpha` is that of all looks together.
    #[must_use]
    pub fn level(self, alpha: f64) -> f64 {
        let share = |number: u32| f64::from(number) / f64::from(self.of);
        spent(share(self.number), alpha) - spent(share(self.number - 1), alpha)
    }
}

/// The part of `alpha` that is spent after a share of the looks, 0 to 1.
fn spent(share: f64, alpha: f64) -> f64 {
    alpha * (1.0 + (std::f64::consts::E - 1.0) * share).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ALPHA;

    #[test]
    fn all_looks_together_spend_alpha_and_no_more() {
        let look = |number| Look { number, of: 5 };
        let levels: Vec<f64> = (1..=5).map(|number| look(number).level(ALPHA)).collect();
        assert!((levels.iter().sum::<f64>() - ALPHA).abs() < 1e-12);
        // Pocock-like, at a fifth of the way: 0.025 · ln(1 + 1.71828 / 5).
        assert!((levels[0] - 0.007_385).abs() < 1e-6, "{levels:?}");
        assert!(levels.windows(2).all(|pair| pair[1] < pair[0]));
        assert_eq!(Look::ONLY.level(ALPHA), ALPHA);
        assert!(Look::ONLY.is_last());
    }
}
