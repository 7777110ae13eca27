//! Every bound of the lab, with its reason.

use std::time::Duration;

// Scenarios.

/// Epochs of a run: a week of five-second epochs. Each is a row that is held until the verdict.
pub const EPOCHS_MAX: u32 = 120_960;
/// Fresh processes of a variant.
pub const RUNS_MAX: u32 = 1_000;
/// Fewest pairs of an A/B: the interval of fewer is too wide for any gate.
pub const PAIRS_MIN: u32 = 10;
/// Pairs of an A/B.
pub const PAIRS_MAX: u32 = 1_000;
/// Longest time in a scenario: a longer one is a mistake in the unit.
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest `budget.limit_within`: a year.
pub const LIMIT_WITHIN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Shortest interval between two samples: a shorter one costs more than 1 % of a core.
pub const SAMPLING_MIN: Duration = Duration::from_millis(10);

/// Epochs of a soak of a running target, if each is between [`EPOCH_LENGTH_MIN`] and [`EPOCH_LENGTH_MAX`] long.
pub const EPOCHS_WANTED: u32 = 120;
/// Shortest of these epochs: more than one point a second would disturb a target that has load of its own.
pub const EPOCH_LENGTH_MIN: Duration = Duration::from_secs(1);
/// Longest of these epochs: a day then has 1,440 points.
pub const EPOCH_LENGTH_MAX: Duration = Duration::from_secs(60);

/// Largest process id: `PID_MAX_LIMIT` of a 64-bit kernel.
pub const PID_MAX: u32 = 1 << 22;

// Loads.

/// Connections of one load.
pub const CONNECTIONS_MAX: u32 = 65_536;
/// Streams of one HTTP/2 connection at a time.
pub const STREAMS_MAX: u32 = 1_024;
/// Bytes of a request body, which is sent by repeating one block ([`BODY_BLOCK_BYTES`]).
pub const BODY_BYTES_MAX: u64 = 1 << 30;

// Processes that are started.

/// Last bytes of a process's output that are shown when the process fails.
pub const LOG_TAIL_BYTES: u64 = 2_048;
/// Last bytes of a target's output that are searched for errors: some hundred lines.
pub const LOG_SEARCH_BYTES: u64 = 64 << 10;
/// Different error lines of a target's output that a report quotes.
pub const COMPLAINTS_MAX: usize = 3;
/// Characters of one of these lines.
pub const COMPLAINT_LEN_MAX: usize = 200;
/// Bytes of a response to a request of the lab itself (readiness, live bytes, metrics).
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Timeout of a request for the target's metrics.
pub const METRICS_PATIENCE: Duration = Duration::from_secs(2);
/// Series that a note of a run names as clocks; the others are only counted.
pub const METRIC_CLOCKS_SHOWN: usize = 5;
/// Series of a target's metrics: some exporters have thousands, and each is kept for every epoch.
pub const METRIC_SERIES_MAX: usize = 1_000;
/// Values of these series in a run, some 80 bytes each: 40 MB. Long runs keep fewer series.
pub const METRIC_VALUES_MAX: usize = 500_000;
/// Bytes of a series' name with its labels.
pub const METRIC_SERIES_LEN_MAX: usize = 256;
/// Bytes by which a gauge of bytes may always change over a run, however low its level.
pub const METRIC_BYTES_FLOOR: f64 = 1_048_576.0;

/// Timeout of a forced garbage collection: a full one of some gigabytes takes seconds.
pub const COLLECTION_PATIENCE: Duration = Duration::from_secs(10);

// Verdicts.

/// Fewest operations for a 99.9th percentile: with fewer, a few outliers decide it.
pub const P999_OPERATIONS_MIN: u64 = 10_000;

/// Fewest operations for a 99th percentile: with fewer, it is the slowest operation.
pub const P99_OPERATIONS_MIN: u64 = 100;
/// Bytes of a page, by which the kernel counts memory; no kernel has smaller ones.
pub const PAGE_BYTES: f64 = 4_096.0;
/// Milliseconds that Linux keeps a socket in TIME_WAIT (`TCP_TIMEWAIT_LEN`). Before the first sockets leave this
/// state, their number can't be judged.
pub const TIME_WAIT_MS: u64 = 60_000;
/// Number by which a count may always change over a run, however low its level.
pub const COUNT_DRIFT_FLOOR: f64 = 8.0;
/// Number by which sockets in TIME_WAIT may always change over a run: a hundredth of Linux's port range
/// (`ip_local_port_range`). Each ends by itself, so their number follows the connections of the last minute; the
/// resource that they use up is ports.
pub const TIME_WAIT_DRIFT_FLOOR: f64 = 282.0;
/// Slowdown of the control loop, as a share of a timing's growth, from which an alarm on that timing is withdrawn.
pub const CONTROL_SHARE_MAX: f64 = 0.25;
/// Rise of steal time over a run, as a share of all CPU time, from which the machine counts as changed.
pub const STEAL_RISE_MAX: f64 = 0.02;

// Samples.

/// Samples that the sampling thread holds for one epoch: ten a second for 50 minutes, 10 MB at most.
pub const SAMPLES_HELD_MAX: usize = 30_000;

// The control loop.

/// Steps of one control loop: some 50 µs, so that ten loops a second take 0.05 % of a core.
pub const CONTROL_STEPS: u32 = 20_000;
/// Timings of the control loop in one epoch; their median is kept.
pub const CONTROL_TIMINGS_MAX: usize = 4_096;

// Runs.

/// Kinds of errors that a report tells apart.
pub const ERROR_KINDS_SHOWN_MAX: usize = 16;
/// Per cent of the measured epochs in which the load generator may be the bottleneck.
pub const SATURATED_SHARE_MAX: usize = 10;

/// Epochs in a row that wait in vain for operations in flight to end; the next ones wait only for the length of the
/// quiet moment.
pub const RESTLESS_EPOCHS_MAX: u32 = 3;

// Leaks.

/// First bytes of a program's file that are searched for its runtime: the notes of an executable are in the first
/// page or two.
pub const PROGRAM_HEAD_BYTES: u64 = 64 << 10;
/// Sites of lost memory that are kept of a leak checker's report.
pub const LEAK_SITES_MAX: usize = 100;
/// Stack frames of each of these sites.
pub const LEAK_STACK_MAX: usize = 24;
// Statistics: slopes.

/// Most slopes that are all held to select their median (about 90 points): a bracket costs more than it saves
/// there.
pub const SLOPES_SELECTED_DIRECTLY: usize = 1 << 12;

/// Slopes from which the first bracket is read (twice the root of all, where that is more): few enough
/// to select among at once, and enough that an eighth of all are left within the bracket.
pub const SLOPES_SAMPLED_MIN: usize = 512;

/// Slopes that are held at once, 512 KiB: a series of 10,000 points has 50 million.
pub const SLOPES_HELD_MAX: usize = 1 << 16;

const _: () = assert!(SLOPES_SAMPLED_MIN < SLOPES_SELECTED_DIRECTLY);
const _: () = assert!(SLOPES_SELECTED_DIRECTLY < SLOPES_HELD_MAX);

// Statistics: drift.

/// Fewest fresh processes whose slopes give the interval of a drift. With fewer, the t quantile is so large (4.3 at
/// three, 12.7 at two) that hardly any drift could be decided.
pub const FRESH_PROCESSES_MIN: usize = 5;

/// Fewest points of a series of fresh processes: a slope of each half needs a few.
pub const FRESH_POINTS_MIN: usize = 8;

/// Fewest points of a series that is judged by itself: its last half still has three blocks of two.
pub const BOOTSTRAP_POINTS_MIN: usize = 12;

/// Fewest garbage collections, seen in a saw-tooth or forced, from which growth of the memory after them is judged:
/// a line through three points has one degree of freedom, and a t quantile of 12.7.
pub const COLLECTIONS_MIN: u32 = 4;

/// Interim looks at a run with `until = "decided"`: each takes a part of the significance level.
pub const LOOKS_MAX: u32 = 5;

/// Largest multiple of the measured length, or of the number of processes, that a finding names as enough to decide:
/// beyond, the estimate rests on too little data to be advice.
pub const DECIDING_LENGTHS_MAX: u32 = 20;

/// Redrawn series for a standard error, which is then off by 6 %: little beside the error of the blocks
/// (Efron & Tibshirani 1993 §6.4: 50 to 200 are enough for a standard error).
pub const BOOTSTRAP_SERIES: usize = 150;

/// Points of a redrawn series, to which a longer one is folded first: neighbors in a long series have nearly the
/// same value, and time grows with the square.
pub const BOOTSTRAP_POINTS_MAX: usize = 1_000;

/// Highest autocorrelation of noise in the model. Closer to a random walk, drift can't be told from noise.
pub const AUTOCORRELATION_MAX: f64 = 0.97;

// Statistics: pairs.

/// Redrawn sets of pairs: at three gates, the strictest quantile leaves 66 of them beyond it.
pub const BOOTSTRAP_PAIRS: usize = 4_000;

const _: () = assert!(BOOTSTRAP_POINTS_MIN / 2 >= 6);
// Load.

/// Generator threads of one load: more than the CPUs of any machine that a lab runs on.
pub const LOAD_THREADS_MAX: u32 = 256;
/// Concurrent operations of one load, over all its connections; each has a task.
pub const LOAD_WORKERS_MAX: u64 = 100_000;
/// Highest latency of a histogram, in microseconds; a longer one is recorded as this. Three digits up to here take
/// 160 KiB a histogram, of which a thread has four at most.
pub const LATENCY_MAX_US: u64 = 300_000_000;
/// Significant digits of a histogram: its values are off by 0.1 % at most.
pub const LATENCY_DIGITS: u8 = 3;
/// Kinds of errors that are told apart in an interval; the others are counted as `other`.
pub const ERROR_KINDS_MAX: usize = 32;
/// Length of a peer's or a program's text within a kind of error or a reason, before it is escaped.
pub const SAID_LEN_MAX: usize = 160;
/// Orders in the queue of a generator thread. The thread reads each at once, so more than two wait only if it hangs.
pub const ORDERS_MAX: usize = 16;
/// Time between an order to resume and the first arrival: a thread needs tens of microseconds to wake up, which
/// would count as the target's latency.
pub const LEAD_IN: Duration = Duration::from_millis(2);
/// First wait of a closed loop after a connection was refused or lost: a loop without one would take a CPU from a
/// target that is starting again. The wait doubles each time.
pub const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// Longest of these waits: the load is back soon after the target.
pub const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Idle share of the time below which a generator thread counts as the bottleneck, 0 to 1.
pub const IDLE_SHARE_MIN: f64 = 0.05;
/// Shortest time under load in which a generator thread is checked for saturation: a thread that wakes up is busy
/// for a moment.
pub const SATURATION_WINDOW_MIN: Duration = Duration::from_millis(100);
/// Files that the lab needs beside its connections.
pub const FILES_BESIDE_CONNECTIONS: u64 = 64;
/// Bytes of the block that request bodies repeat, so that a long body takes no more memory.
pub const BODY_BLOCK_BYTES: usize = 16 << 10;
/// Bytes of a DNS socket's buffer: more than any response over UDP without EDNS.
pub const DNS_BUF_BYTES: usize = 4096;
/// Bytes of a line that a command load writes: several times the longest line of the protocol.
pub const LINE_LEN_MAX: usize = 4096;
/// Bytes of a command load's output that are read at once.
pub const COMMAND_BLOCK_BYTES: usize = 16 << 10;
/// Time between SIGINT and SIGKILL, in which the program of a command load can report what it measured.
pub const COMMAND_GRACE: Duration = Duration::from_secs(2);
/// Interval between checks if the program of a command load has ended; its end is noticed at most this late.
pub const COMMAND_LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Interval between reads of the program's high-water mark; growth after the last read is missed.
pub const COMMAND_WEIGH_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time that output is read after the program's end, while processes that it left still write.
pub const COMMAND_DRAIN_MAX: Duration = Duration::from_secs(1);
/// Last bytes of a command load's log that its failure quotes.
pub const COMMAND_SAID_BYTES_MAX: u64 = 2048;

const _: () = assert!(COMMAND_LOOK_INTERVAL.as_millis() < COMMAND_GRACE.as_millis());
const _: () = assert!(SAID_LEN_MAX < LINE_LEN_MAX);
const _: () = assert!(LEAD_IN.as_millis() < BACKOFF_MIN.as_millis());
const _: () = assert!(BACKOFF_MIN.as_millis() < BACKOFF_MAX.as_millis());
// Looking at processes.

/// Processes of one target. Those beyond are not measured, and the capability `processes` says so.
pub const PROCESSES_MAX: usize = 4_096;

/// Bytes of a file below `/proc/PID`, or of a control group. The longest files that are read whole, `status` and
/// `memory.stat`, have 3 KiB.
pub const PROC_FILE_BYTES_MAX: usize = 256 << 10;

/// Bytes that are read at once of a list of sockets, which has all sockets of the network namespace.
pub const SOCKET_CHUNK_BYTES: usize = 64 << 10;

/// Bytes of directory entries that are read at once: some 1,300 file descriptors.
pub const DIRECTORY_CHUNK_BYTES: usize = 32 << 10;

/// Threads that get a performance counter, at one file descriptor each: half of what a process may
/// usually have open (1,024), since the load needs the other half.
pub const COUNTED_THREADS_MAX: usize = 512;

/// Attempts to attach performance counters to all threads of a target, each with a new list of them, until no thread
/// has started meanwhile. A server that starts threads faster than that is not counted.
pub const COUNTER_ATTEMPTS_MAX: u32 = 20;

/// Most threads of a target whose context switches are read, at some 15 µs each: 1 ms a look. With more, none are.
pub const SWITCH_THREADS_MAX: usize = 64;

/// Processes of a target whose limits and mappings are read in a quiet moment: for the limits, those with the most
/// open files.
pub const HANDLE_PROCESSES_MAX: usize = 64;

/// Bytes of a list of mappings that are read at once; a busy process has megabytes of it.
pub const MAPPINGS_CHUNK_BYTES: usize = 16 << 10;

/// Child processes outside of the tree that are checked for being zombies. A target that leaves more is noticed long
/// before.
pub const ZOMBIES_MAX: usize = 65_536;

/// Remote addresses of the target's connections that are remembered, to attribute sockets without an owner
/// (TIME_WAIT) to the target. A gateway has as many as it has upstreams.
pub const PEERS_MAX: usize = 1_024;

/// Longest read of `smaps_rollup` that is repeated: a quicker one is done three times for the median, a slower one
/// once.
pub const QUICK_ROLLUP: std::time::Duration = std::time::Duration::from_millis(5);

/// Control groups of a target that are measured, its own and those below it. A look reads a file of each.
pub const GROUPS_MAX: usize = 256;

/// Attempts to remove a control group: processes that were just killed leave it a moment later.
pub const GROUP_REMOVALS_MAX: u32 = 20;
/// Pause between two of these attempts.
pub const GROUP_REMOVAL_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
// Reports.

/// Points a run in a chart of samples: as many as a chart has pixels on a phone.
pub const REPORT_TIMELINE_POINTS: usize = 500;

/// Points a run in a chart of epochs: two for each bin, a bin for each pixel or two.
pub const REPORT_LINE_POINTS: usize = 400;

/// Sites of leaks that a report lists with their stacks; the others are in the checker's log.
pub const REPORT_LEAK_SITES: usize = 40;

/// Narrowest table of a report on a terminal, in columns; a narrower terminal wraps its lines.
pub const REPORT_COLUMNS_MIN: u16 = 60;

// `doctor`.

/// Open files that `doctor` asks for: some thousand connections, a counter for each thread of the target, and a
/// reserve.
pub const FILE_LIMIT_WANTED: u64 = 4_096;

/// Columns of the table of `doctor`: longer lines are hard to follow. A narrower terminal has a narrower table.
pub const TABLE_COLUMNS_MAX: u16 = 100;

// Watching a running process.

/// Looks that `watch` keeps: half an hour of seconds at full resolution, 800 KiB.
pub const WATCH_LOOKS_MAX: usize = 1_800;

/// Fewest looks for a slope: fewer show nothing but noise.
pub const SLOPE_POINTS_MIN: usize = 10;

/// Points of a slope: 32,000 pairs take a millisecond.
pub const SLOPE_POINTS_MAX: usize = 256;

/// Longest interval between two looks of `watch`, which doubles while a look takes more than a quarter of a per cent
/// of it.
pub const WATCH_INTERVAL_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Interval between two reads of `smaps_rollup` by `watch`, since the process is at work.
pub const WATCH_ROLLUP_EVERY: std::time::Duration = std::time::Duration::from_secs(10);

/// Largest RSS at which `watch` reads `smaps_rollup`: above, the read would hold the target's memory lock for longer
/// than 5 ms.
pub const WATCH_ROLLUP_RSS_BYTES_MAX: u64 = 256 << 20;

const _: () = assert!(SLOPE_POINTS_MIN < SLOPE_POINTS_MAX);
const _: () = assert!(SLOPE_POINTS_MAX < WATCH_LOOKS_MAX);
/// Per cent of the points of a series that may be missing.
pub const MISSING_SHARE_MAX: usize = 10;
/// Least per cent of the due operations of an open loop that have to be done.
pub const RATE_KEPT_MIN: f64 = 95.0;
/// Shortest interval between two looks of `watch`: looking more often costs more than it shows.
pub const WATCH_INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Largest count in a line of a command load: sums of counts stay far below 2^64.
pub const COUNT_MAX: u64 = 1 << 32;
/// Per cent of failed operations that a scenario without a budget for errors may have.
pub const ERRORS_SHARE_MAX: u64 = 1;

/// Time that `try` waits until a program listens and answers, and then until it has ended.
pub const TRY_PATIENCE: Duration = Duration::from_secs(30);

/// Interval between two checks of `try` for a port that answers.
pub const TRY_POLL: Duration = Duration::from_millis(100);

/// Timeout of a request of `try` to one port.
pub const TRY_ANSWER: Duration = Duration::from_secs(2);

/// Places of memory and files that are kept from the first counted epoch, and from the last: some 100 bytes each.
pub const PLACES_MAX: usize = 4_096;

/// Open files of a process, and TCP sockets, that are read for these places.
pub const PLACES_FILES_MAX: usize = 65_536;

// Profiles of runtimes.

/// Bytes of one profile: a large Go server's heap profile has 5 MB, a histogram of 50,000 classes 4 MB.
pub const PROFILE_BYTES_MAX: usize = 32 << 20;

/// Timeout of one fetch of a profile: a full collection of some gigabytes, and a walk through them.
pub const PROFILE_PATIENCE: Duration = Duration::from_secs(30);

/// Sites of a profile that are held, at some 150 bytes each.
pub const PROFILE_SITES_MAX: usize = 65_536;

/// Characters of a site's name: function, file and line.
pub const PROFILE_SITE_LEN_MAX: usize = 240;

/// Divisor of the largest growth of a site: sites that grew by less than the quotient, in bytes and in count, are
/// left out.
pub const PROFILE_GROWTH_SHARE: u64 = 100;

/// Nesting of a profile in JSON, read by recursion: V8 reports 128 frames, at two levels each.
pub const PROFILE_DEPTH_MAX: usize = 1_024;

/// Processes of one target that profiles are fetched from.
pub const PROFILE_PROCESSES_MAX: usize = 64;

/// First bytes of a target's output that are searched for addresses of inspectors.
pub const PROFILE_LOG_BYTES_MAX: u64 = 1 << 20;

/// Places that a note on growth names, and sites of each kind that a verdict lists from a profile.
pub const PLACES_TOLD: usize = 10;

/// Fewest epochs for a slope on the dashboard of a run: fewer say nothing.
pub const DASHBOARD_EPOCHS_MIN: usize = 8;

/// Bars of the memory chart on the dashboard, a character each: with its figures it fits a line of 80 columns.
pub const DASHBOARD_BARS: usize = 24;
