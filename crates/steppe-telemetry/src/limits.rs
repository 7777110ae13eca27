//! Every bound of this crate, each with its reason.

use std::time::Duration;

/// Size of a line log's buffer. One `write` of this size takes some hundreds of lines.
pub const LINE_BUFFER_BYTES: usize = 64 << 10;

/// Buffers of one worker, empty, being filled or queued for the writer thread. At 50,000
/// lines a second they absorb a disk stall of some 100 ms without a lost line.
pub const LINE_BUFFERS_MAX: usize = 16;

/// Empty buffers that a worker keeps for reuse; its next flush frees the others.
pub const LINE_BUFFERS_IDLE_MAX: usize = 2;

/// Reopen and close commands that may be queued for the writer thread.
pub const LINE_COMMANDS_MAX: usize = 16;

/// Delay before a write to a full pipe is retried.
pub const LINE_PIPE_PAUSE: Duration = Duration::from_millis(5);

/// Least interval between reports that a log can't be written.
pub const LINE_REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Longest line; a longer one is dropped, so every line fits a buffer.
pub const LINE_BYTES_MAX: usize = 56 << 10;

const _: () = assert!(LINE_BYTES_MAX < LINE_BUFFER_BYTES);
const _: () = assert!(LINE_BUFFERS_IDLE_MAX < LINE_BUFFERS_MAX);
