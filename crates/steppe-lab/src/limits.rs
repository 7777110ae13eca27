//! Every bound of the lab, with its reason.

use std::time::Duration;

// Scenarios.

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
/// Of `budget.limit_within`: a year.
pub const LIMIT_WITHIN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Looking more often costs more than 1 % of a core.
pub const SAMPLING_MIN: Duration = Duration::from_millis(10);

/// Epochs that a soak of a running target is cut into, where they get no shorter and no longer than this.
pub const EPOCHS_WANTED: u32 = 120;
/// A point a second is as many as a target that has load of its own can be disturbed for.
pub const EPOCH_LENGTH_MIN: Duration = Duration::from_secs(1);
/// A day has 1,440 points then.
pub const EPOCH_LENGTH_MAX: Duration = Duration::from_secs(60);

/// Of a process id: `PID_MAX_LIMIT` of a 64-bit kernel.
pub const PID_MAX: u32 = 1 << 22;

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
/// How much of the end of a target's output is searched for errors: some hundred lines.
pub const LOG_SEARCH_BYTES: u64 = 64 << 10;
/// Different lines of errors that a report quotes of it, and the longest of them.
pub const COMPLAINTS_MAX: usize = 3;
/// See [`COMPLAINTS_MAX`]: characters.
pub const COMPLAINT_LEN_MAX: usize = 200;
/// An answer to a question of the lab's own (readiness, live bytes).
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// How long an answer of a target's metrics may take.
pub const METRICS_PATIENCE: Duration = Duration::from_secs(2);
/// Series that a run's note names as clocks; of more only the number is told.
pub const METRIC_CLOCKS_SHOWN: usize = 5;
/// Series of a target's metrics: some exporters have thousands, and each is kept for every epoch.
pub const METRIC_SERIES_MAX: usize = 1_000;
/// Values of them in a run, some 80 bytes each: 40 MB. Long runs keep fewer series.
pub const METRIC_VALUES_MAX: usize = 500_000;
/// Characters of a series' name with its labels.
pub const METRIC_SERIES_LEN_MAX: usize = 256;
/// A gauge of bytes may always change by so many over a run, however small its level is.
pub const METRIC_BYTES_FLOOR: f64 = 1_048_576.0;

/// How long a forced collection may take: a full one of some gigabytes takes seconds.
pub const COLLECTION_PATIENCE: Duration = Duration::from_secs(10);

// Verdicts.

/// A 99.9th percentile of fewer operations is one operation's bad luck.
pub const P999_OPERATIONS_MIN: u64 = 10_000;

/// A 99th percentile of fewer operations is the slowest of them.
pub const P99_OPERATIONS_MIN: u64 = 100;
/// Memory is counted by the page; no kernel has smaller ones.
pub const PAGE_BYTES: f64 = 4_096.0;
/// How long Linux keeps a socket in TIME_WAIT (`TCP_TIMEWAIT_LEN`): their number can't be judged before.
pub const TIME_WAIT_MS: u64 = 60_000;
/// A count may always change by so many over a run, however small its level is.
pub const COUNT_DRIFT_FLOOR: f64 = 8.0;
/// The same of sockets in TIME_WAIT: each ends by itself, so that they come and go with the connections of
/// the last minute, and what they use up is ports. A hundredth of Linux's range (`ip_local_port_range`).
pub const TIME_WAIT_DRIFT_FLOOR: f64 = 282.0;
/// An alarm on a time counts only where the control changed by less than this share of it.
pub const CONTROL_SHARE_MAX: f64 = 0.25;
/// More CPU time that is stolen at the end than at the start, as a share of all: the machine changed.
pub const STEAL_RISE_MAX: f64 = 0.02;

// Samples.

/// Samples between two looks that are asked for: ten a second for 50 minutes, 10 MB at most.
pub const SAMPLES_HELD_MAX: usize = 30_000;

// The control loop.

/// Steps of the work: some 50 µs, so that ten a second are 0.05 % of a core.
pub const CONTROL_STEPS: u32 = 20_000;
/// Timings of one epoch, of which the median is kept.
pub const CONTROL_TIMINGS_MAX: usize = 4_096;

// Runs.

/// Kinds of errors that a report tells apart.
pub const ERROR_KINDS_SHOWN_MAX: usize = 16;
/// Per cent of the measured epochs in which the generator may have set the pace.
pub const SATURATED_SHARE_MAX: usize = 10;

/// Epochs one after the other that wait for operations that hang; the next ones know that they do.
pub const RESTLESS_EPOCHS_MAX: u32 = 3;

// Leaks.

/// How much of the beginning of a program tells what manages its memory: its notes are in the first page
/// or two.
pub const PROGRAM_HEAD_BYTES: u64 = 64 << 10;
/// Places that lost memory, in a report.
pub const LEAK_SITES_MAX: usize = 100;
/// Frames of each.
pub const LEAK_STACK_MAX: usize = 24;
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

/// Collections of garbage, seen in a saw-tooth or forced, from which growth of their floor is judged: a
/// line through three has one degree of freedom, and a t quantile of 12.7.
pub const COLLECTIONS_MIN: u32 = 4;

/// Looks at a run that goes on until it is decided: each costs some of the certainty of the others.
pub const LOOKS_MAX: u32 = 5;

/// How much longer would decide is told up to so many times what was looked at: beyond, a guess from so
/// little is no advice.
pub const DECIDING_LENGTHS_MAX: u32 = 20;

/// Redrawn series a standard error. It is then off by 6 %, which is little beside what blocks are
/// off by (Efron & Tibshirani 1993 §6.4: 50 to 200 are enough for a standard error).
pub const BOOTSTRAP_SERIES: usize = 150;

/// A longer series is folded to at most so many points before it is redrawn: neighbors in a long
/// series say the same, and time grows with the square.
pub const BOOTSTRAP_POINTS_MAX: usize = 1_000;

/// Closest to a random walk that noise is taken to be. Beyond, drift and noise are one.
pub const AUTOCORRELATION_MAX: f64 = 0.97;

// Statistics: pairs.

/// Redrawn sets of pairs: at three gates, the strictest quantile leaves 66 of them beyond it.
pub const BOOTSTRAP_PAIRS: usize = 4_000;

const _: () = assert!(BOOTSTRAP_POINTS_MIN / 2 >= 6);
// Load.

/// Generator threads of one load: more than the CPUs of any machine that a lab runs on.
pub const LOAD_THREADS_MAX: u32 = 256;
/// Operations at a time of one load, over all its connections: a task each.
pub const LOAD_WORKERS_MAX: u64 = 100_000;
/// Of a histogram, in microseconds: what takes longer counts as this. Three digits up to here take
/// 160 KiB a histogram, of which a thread has four at most.
pub const LATENCY_MAX_US: u64 = 300_000_000;
/// Digits that a histogram keeps: off by 0.1 % at most.
pub const LATENCY_DIGITS: u8 = 3;
/// Kinds of errors that are told apart in an interval; the others are counted as `other`.
pub const ERROR_KINDS_MAX: usize = 32;
/// Of a peer's or a program's words within a kind of error or a reason.
pub const SAID_LEN_MAX: usize = 160;
/// Orders that a generator thread has not read yet. One is read at once, so that more than two wait
/// only when it hangs.
pub const ORDERS_MAX: usize = 16;
/// Between an order to resume and the first arrival: a thread needs tens of microseconds to wake
/// up, which would be told as the target's latency.
pub const LEAD_IN: Duration = Duration::from_millis(2);
/// First wait of a closed loop after a connection was refused or lost: a loop without one would
/// take a CPU from a target that is starting again. It doubles.
pub const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// Longest of these waits: the load is back soon after the target.
pub const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// A generator thread that is idle for less than this share of the time set the pace.
pub const IDLE_SHARE_MIN: f64 = 0.05;
/// Shorter stretches are not judged: a thread that wakes up is busy for a moment.
pub const SATURATION_WINDOW_MIN: Duration = Duration::from_millis(100);
/// Files that the lab needs beside its connections.
pub const FILES_BESIDE_CONNECTIONS: u64 = 64;
/// Of the block that request bodies repeat, so that a body of any length takes no memory.
pub const BODY_BLOCK_BYTES: usize = 16 << 10;
/// Of a DNS socket's buffer: more than any answer over UDP without EDNS.
pub const DNS_BUF_BYTES: usize = 4096;
/// Of a line that a command load writes: several times the longest that the protocol has.
pub const LINE_LEN_MAX: usize = 4096;
/// Of its output that is read at once.
pub const COMMAND_BLOCK_BYTES: usize = 16 << 10;
/// Between SIGINT and SIGKILL: as long as a program may take to say what it has measured.
pub const COMMAND_GRACE: Duration = Duration::from_secs(2);
/// How often a command load is looked at: its end is told that late at most.
pub const COMMAND_LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How often its high-water mark is read: what it grew by in its last moment is not seen.
pub const COMMAND_WEIGH_INTERVAL: Duration = Duration::from_millis(100);
/// How long the output is read of a program that is over, where its children still write.
pub const COMMAND_DRAIN_MAX: Duration = Duration::from_secs(1);
/// Of its log, what a failure repeats.
pub const COMMAND_SAID_BYTES_MAX: u64 = 2048;

const _: () = assert!(COMMAND_LOOK_INTERVAL.as_millis() < COMMAND_GRACE.as_millis());
const _: () = assert!(SAID_LEN_MAX < LINE_LEN_MAX);
const _: () = assert!(LEAD_IN.as_millis() < BACKOFF_MIN.as_millis());
const _: () = assert!(BACKOFF_MIN.as_millis() < BACKOFF_MAX.as_millis());
// Looking at processes.

/// Processes of one target. A tree with more of them is no longer looked at whole: those beyond
/// are left out, and the capability `processes` says so.
pub const PROCESSES_MAX: usize = 4_096;

/// Bytes of a file below `/proc/PID`, or of a control group. The longest of those that are read
/// whole, `status` and `memory.stat`, have 3 KiB.
pub const PROC_FILE_BYTES_MAX: usize = 256 << 10;

/// Bytes that are read at once of a list of sockets, which is as long as the namespace has sockets.
pub const SOCKET_CHUNK_BYTES: usize = 64 << 10;

/// Bytes of directory entries that are read at once: some 1,300 file descriptors.
pub const DIRECTORY_CHUNK_BYTES: usize = 32 << 10;

/// Threads that get a performance counter, at one file descriptor each: half of what a process may
/// usually have open (1,024), since the load needs the other half.
pub const COUNTED_THREADS_MAX: usize = 512;

/// How often the threads of a target are listed again until no new one has come while counters were
/// attached. A server that starts threads faster than that is not attached to in one piece.
pub const COUNTER_ATTEMPTS_MAX: u32 = 20;

/// Threads of a tree whose context switches are read, at some 15 µs each: 1 ms a look.
pub const SWITCH_THREADS_MAX: usize = 64;

/// Processes of a tree whose limits and mappings are read in a quiet moment: those with the most.
pub const HANDLE_PROCESSES_MAX: usize = 64;

/// Bytes of a list of mappings that are read at once; a busy process has megabytes of it.
pub const MAPPINGS_CHUNK_BYTES: usize = 16 << 10;

/// Zombies that are told apart. Whoever leaves more has long been found out.
pub const ZOMBIES_MAX: usize = 65_536;

/// Remote addresses remembered, by which sockets without an owner (TIME_WAIT) are told to be the
/// target's. A gateway has as many as it has upstreams.
pub const PEERS_MAX: usize = 1_024;

/// A rollup that takes longer than this is taken once, a quicker one three times for its median.
pub const QUICK_ROLLUP: std::time::Duration = std::time::Duration::from_millis(5);

/// Control groups below a target's own that are looked at, itself included: a file each is read a look.
pub const GROUPS_MAX: usize = 256;

/// Times that a control group is tried to be removed, and the pause between: processes that were
/// just killed leave it a moment later.
pub const GROUP_REMOVALS_MAX: u32 = 20;
/// See [`GROUP_REMOVALS_MAX`].
pub const GROUP_REMOVAL_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
// Reports.

/// Points a run in a chart of samples: as many as a chart has pixels on a phone.
pub const REPORT_TIMELINE_POINTS: usize = 500;

/// Points a run in a chart of epochs: two for each bin, a bin for each pixel or two.
pub const REPORT_LINE_POINTS: usize = 400;

/// Places of leaks that a report lists with their stacks: what follows is in the checker's log.
pub const REPORT_LEAK_SITES: usize = 40;

/// Narrower than this, tables on a terminal are wrapped by the terminal.
pub const REPORT_COLUMNS_MIN: u16 = 60;

// What the doctor wants, and how it says it.

/// Open files: some thousand connections, a counter for each thread of the target, and room.
pub const FILE_LIMIT_WANTED: u64 = 4_096;

/// Columns of a table: longer lines are hard to follow. Narrower where the terminal is.
pub const TABLE_COLUMNS_MAX: u16 = 100;

// Watching a running process.

/// Looks that are kept: half an hour of seconds at full resolution, 800 KiB.
pub const WATCH_LOOKS_MAX: usize = 1_800;

/// Looks before there is a slope: fewer say nothing but noise.
pub const SLOPE_POINTS_MIN: usize = 10;

/// Points of a slope: 32,000 pairs take a millisecond.
pub const SLOPE_POINTS_MAX: usize = 256;

/// How far apart looks get, by doubling, when each takes more than a quarter of a per cent of the time.
pub const WATCH_INTERVAL_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// How often `smaps_rollup` is read of a process that is at work.
pub const WATCH_ROLLUP_EVERY: std::time::Duration = std::time::Duration::from_secs(10);

/// Above this it is not read at all: it would hold the target's memory lock for longer than 5 ms.
pub const WATCH_ROLLUP_RSS_BYTES_MAX: u64 = 256 << 20;

const _: () = assert!(SLOPE_POINTS_MIN < SLOPE_POINTS_MAX);
const _: () = assert!(SLOPE_POINTS_MAX < WATCH_LOOKS_MAX);
/// Per cent of the points of a series that may be missing.
pub const MISSING_SHARE_MAX: usize = 10;
/// Per cent of the operations that were due in an open loop, and were done.
pub const RATE_KEPT_MIN: f64 = 95.0;
/// Looking more often costs more than it shows.
pub const WATCH_INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Operations that one line of a command load may speak of: sums of them stay far below 2^64.
pub const COUNT_MAX: u64 = 1 << 32;
/// Per cent of failed operations that a scenario without a budget for errors may have.
pub const ERRORS_SHARE_MAX: u64 = 1;

/// How long `try` waits until a program listens and answers, and then until it has ended.
pub const TRY_PATIENCE: Duration = Duration::from_secs(30);

/// How often it looks.
pub const TRY_POLL: Duration = Duration::from_millis(100);

/// How long it waits for an answer of one port.
pub const TRY_ANSWER: Duration = Duration::from_secs(2);

/// Places that are remembered early and late in a run: some 100 bytes each.
pub const PLACES_MAX: usize = 4_096;

/// Open files and TCP sockets that are looked at for them.
pub const PLACES_FILES_MAX: usize = 65_536;

// Profiles of runtimes.

/// Bytes of one answer: a large Go server's heap profile has 5 MB, a histogram of 50,000 classes 4 MB.
pub const PROFILE_BYTES_MAX: usize = 32 << 20;

/// How long one fetch may take: a full collection of some gigabytes, and a walk through them.
pub const PROFILE_PATIENCE: Duration = Duration::from_secs(30);

/// Sites of a profile that are held, at some 150 bytes each.
pub const PROFILE_SITES_MAX: usize = 65_536;

/// Characters of a site's name: function, file and line.
pub const PROFILE_SITE_LEN_MAX: usize = 240;

/// A site that grew by less than this part of the most, in bytes and in count, is not told.
pub const PROFILE_GROWTH_SHARE: u64 = 100;

/// Nesting of a profile in JSON, read by recursion: V8 tells 128 frames, at two levels each.
pub const PROFILE_DEPTH_MAX: usize = 1_024;

/// Processes of one target that are asked.
pub const PROFILE_PROCESSES_MAX: usize = 64;

/// How much of the beginning of a target's output is searched for addresses of inspectors.
pub const PROFILE_LOG_BYTES_MAX: u64 = 1 << 20;

/// Places that a note on growth names, and sites of a profile of each kind.
pub const PLACES_TOLD: usize = 10;

/// Epochs that a slope is told of while a run goes on: fewer say nothing.
pub const DASHBOARD_EPOCHS_MIN: usize = 8;

/// Characters of the course of memory while a run goes on: it fits a line of 80 columns with its figures.
pub const DASHBOARD_BARS: usize = 24;
