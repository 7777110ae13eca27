//! Every bound of the lab, with its reason.

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

/// Threads of a tree whose context switches are read, at some 15 µs each: 4 ms a look.
pub const SWITCH_THREADS_MAX: usize = 256;

/// Remote addresses remembered, by which sockets without an owner (TIME_WAIT) are told to be the
/// target's. A gateway has as many as it has upstreams.
pub const PEERS_MAX: usize = 1_024;

/// A rollup that takes longer than this is taken once, a quicker one three times for its median.
pub const QUICK_ROLLUP: std::time::Duration = std::time::Duration::from_millis(5);

/// Times that a control group is tried to be removed, and the pause between: processes that were
/// just killed leave it a moment later.
pub const GROUP_REMOVALS_MAX: u32 = 20;
/// See [`GROUP_REMOVALS_MAX`].
pub const GROUP_REMOVAL_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

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

/// How far apart looks get, by doubling, when each takes more than a hundredth of the time.
pub const WATCH_INTERVAL_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// How often `smaps_rollup` is read of a process that is at work.
pub const WATCH_ROLLUP_EVERY: std::time::Duration = std::time::Duration::from_secs(10);

/// Above this it is not read at all: it would hold the target's memory lock for longer than 5 ms.
pub const WATCH_ROLLUP_RSS_BYTES_MAX: u64 = 256 << 20;

const _: () = assert!(SLOPE_POINTS_MIN < SLOPE_POINTS_MAX);
const _: () = assert!(SLOPE_POINTS_MAX < WATCH_LOOKS_MAX);
