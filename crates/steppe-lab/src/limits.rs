//! Every bound of the lab, with its reason.

use std::time::Duration;

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
/// How long the output is read of a program that is over, where its children still write.
pub const COMMAND_DRAIN_MAX: Duration = Duration::from_secs(1);
/// Of its log, what a failure repeats.
pub const COMMAND_SAID_BYTES_MAX: u64 = 2048;

const _: () = assert!(COMMAND_LOOK_INTERVAL.as_millis() < COMMAND_GRACE.as_millis());
const _: () = assert!(SAID_LEN_MAX < LINE_LEN_MAX);
const _: () = assert!(LEAD_IN.as_millis() < BACKOFF_MIN.as_millis());
const _: () = assert!(BACKOFF_MIN.as_millis() < BACKOFF_MAX.as_millis());
