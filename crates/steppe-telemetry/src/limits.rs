//! Every bound of this crate, each with its reason.

use std::time::Duration;

/// Bytes of one buffer of a line log. A write this large costs its system call once for
/// some hundreds of lines.
pub const LINE_BUFFER_BYTES: usize = 64 << 10;

/// Buffers that one worker may have filled, or on their way to the file. A disk that
/// stands still for this long at 50,000 lines a second loses none: some 100 ms.
pub const LINE_BUFFERS_MAX: usize = 16;

/// Empty buffers that a worker keeps; more of them go back at its next flush.
pub const LINE_BUFFERS_IDLE_MAX: usize = 2;

/// Orders to the writer that may wait: to reopen, and to stop.
pub const LINE_ORDERS_MAX: usize = 16;

/// How long a writer waits before it tries a pipe again whose reader is slow.
pub const LINE_PIPE_PAUSE: Duration = Duration::from_millis(5);

/// How often a log that can't be written is spoken of.
pub const LINE_TROUBLE_EVERY: Duration = Duration::from_secs(60);

/// A line fits into a buffer, whatever its peer sent, since it is cut to this.
pub const LINE_BYTES_MAX: usize = 56 << 10;

const _: () = assert!(LINE_BYTES_MAX < LINE_BUFFER_BYTES);
const _: () = assert!(LINE_BUFFERS_IDLE_MAX < LINE_BUFFERS_MAX);
