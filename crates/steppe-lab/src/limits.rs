//! Every bound of the lab, with its reason.

use std::time::Duration;

// Scenarios.

/// A scenario is read whole.
pub const SCENARIO_BYTES_MAX: usize = 1 << 20;
/// A row each is held until the run is judged; a week of five-second epochs.
pub const EPOCHS_MAX: u32 = 120_960;
/// Fresh processes a variant.
pub const RUNS_MAX: u32 = 1_000;
/// The interval of fewer pairs is too wide to gate anything.
pub const PAIRS_MIN: u32 = 10;
/// Pairs of an A/B.
pub const PAIRS_MAX: u32 = 1_000;
/// Longer is a mistake in the unit.
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Looking more often costs more than 1 % of a core.
pub const SAMPLING_MIN: Duration = Duration::from_millis(10);

// Loads.

/// Connections of one load.
pub const CONNECTIONS_MAX: u32 = 65_536;
/// Streams of one HTTP/2 connection at a time.
pub const STREAMS_MAX: u32 = 1_024;
/// Threads of one load.
pub const GENERATOR_THREADS_MAX: u32 = 64;
/// One body is held for all requests.
pub const BODY_BYTES_MAX: u64 = 1 << 30;

// Processes that are started.

/// How much of the end of an output is shown when its process fails.
pub const LOG_TAIL_BYTES: u64 = 2_048;
/// An answer to a question of the lab's own (readiness, live bytes).
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

// Verdicts.

/// A 99.9th percentile of fewer operations is one operation's bad luck.
pub const P999_OPERATIONS_MIN: u64 = 10_000;

// Samples.

/// Samples between two looks that are asked for: ten a second for 50 minutes, 10 MB at most.
pub const SAMPLES_HELD_MAX: usize = 30_000;

// Runs.

/// Kinds of errors that a report tells apart.
pub const ERROR_KINDS_SHOWN_MAX: usize = 16;
/// Per cent of the measured epochs in which the generator may have set the pace.
pub const SATURATED_SHARE_MAX: usize = 10;

// Leaks.

/// Places that lost memory, in a report.
pub const LEAK_SITES_MAX: usize = 100;
/// Frames of each.
pub const LEAK_STACK_MAX: usize = 24;
// Statistics: slopes.

/// Up to so many slopes are all held and selected from; a bracket costs more than it saves there
/// (about 90 points).
pub const SLOPES_SELECTED_DIRECTLY: usize = 1 << 12;

/// Slopes that the first bracket is read from: enough that a fifth of all are left within it.
pub const SLOPES_SAMPLED: usize = 512;

/// Slopes that are held at once, 512 KiB: a series of 10,000 points has 50 million.
pub const SLOPES_HELD_MAX: usize = 1 << 16;

const _: () = assert!(SLOPES_SAMPLED < SLOPES_SELECTED_DIRECTLY);
const _: () = assert!(SLOPES_SELECTED_DIRECTLY < SLOPES_HELD_MAX);

// Statistics: drift.

/// Fresh processes from which the interval is that of their slopes. With fewer, the t quantile is
/// so large (4.3 at three, 12.7 at two) that hardly anything could be said.
pub const FRESH_PROCESSES_MIN: usize = 5;

/// Points a series, with fresh processes: a slope of each half needs a few.
pub const FRESH_POINTS_MIN: usize = 8;

/// Points of a series that is judged by itself: its last half still has three blocks of two.
pub const BOOTSTRAP_POINTS_MIN: usize = 12;

/// Redrawn series a standard error. It is then off by 5 %, which is little beside what blocks are
/// off by (Efron & Tibshirani 1993 §6.4: 200 are nearly always enough for a standard error).
pub const BOOTSTRAP_SERIES: usize = 200;

/// A longer series is folded to at most so many points before it is redrawn: 200 slopes of 1,000
/// points take a second, and neighbors in a long series say the same.
pub const BOOTSTRAP_POINTS_MAX: usize = 1_000;

/// Closest to a random walk that noise is taken to be. Beyond, drift and noise are one.
pub const AUTOCORRELATION_MAX: f64 = 0.97;

// Statistics: pairs.

/// Pairs for a verdict: with fewer, the noise itself isn't known.
pub const PAIRS_MIN: usize = 10;

/// Redrawn sets of pairs: at three gates, the strictest quantile leaves 66 of them beyond it.
pub const BOOTSTRAP_PAIRS: usize = 4_000;

const _: () = assert!(BOOTSTRAP_POINTS_MIN / 2 >= 6);
