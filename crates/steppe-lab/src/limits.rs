//! Every bound of the lab, with its reason.

// Statistics: slopes.

/// Up to so many slopes are all held and selected from; a bracket costs more than it saves there
/// (about 90 points).
pub const SLOPES_SELECTED_DIRECTLY: usize = 1 << 12;

/// Slopes that the first bracket is read from (twice the root of all, where that is more): few enough
/// to select among at once, and enough that an eighth of all are left within the bracket.
pub const SLOPES_SAMPLED_MIN: usize = 512;

/// Slopes that are held at once, 512 KiB: a series of 10,000 points has 50 million.
pub const SLOPES_HELD_MAX: usize = 1 << 16;

const _: () = assert!(SLOPES_SAMPLED_MIN < SLOPES_SELECTED_DIRECTLY);
const _: () = assert!(SLOPES_SELECTED_DIRECTLY < SLOPES_HELD_MAX);

// Statistics: drift.

/// Fresh processes from which the interval is that of their slopes. With fewer, the t quantile is
/// so large (4.3 at three, 12.7 at two) that hardly anything could be said.
pub const FRESH_PROCESSES_MIN: usize = 5;

/// Points a series, with fresh processes: a slope of each half needs a few.
pub const FRESH_POINTS_MIN: usize = 8;

/// Points of a series that is judged by itself: its last half still has three blocks of two.
pub const BOOTSTRAP_POINTS_MIN: usize = 12;

/// Redrawn series a standard error. It is then off by 6 %, which is little beside what blocks are
/// off by (Efron & Tibshirani 1993 §6.4: 50 to 200 are enough for a standard error).
pub const BOOTSTRAP_SERIES: usize = 150;

/// A longer series is folded to at most so many points before it is redrawn: neighbors in a long
/// series say the same, and time grows with the square.
pub const BOOTSTRAP_POINTS_MAX: usize = 1_000;

/// Closest to a random walk that noise is taken to be. Beyond, drift and noise are one.
pub const AUTOCORRELATION_MAX: f64 = 0.97;

// Statistics: pairs.

/// Pairs for a verdict: with fewer, the noise itself isn't known.
pub const PAIRS_MIN: usize = 10;

/// Redrawn sets of pairs: at three gates, the strictest quantile leaves 66 of them beyond it.
pub const BOOTSTRAP_PAIRS: usize = 4_000;

const _: () = assert!(BOOTSTRAP_POINTS_MIN / 2 >= 6);
