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

/// Bytes of a span's text: a path, a name of a host. More says little in a list of spans.
pub const SPAN_TEXT_BYTES_MAX: usize = 256;

/// Attributes of a span: those of HTTP, and a few of ours.
pub const SPAN_ATTRIBUTES_MAX: usize = 16;

/// Spans that wait for the thread that sends them. At a thousand a second they bridge half a second
/// in which the collector does not answer.
pub const SPANS_QUEUED_MAX: usize = 512;

/// Spans that are sent at once; the default of OpenTelemetry's own batches.
pub const SPANS_IN_BATCH_MAX: usize = 256;

/// The time that the thread waits for a batch to become full.
pub const SPAN_BATCH_WAIT: Duration = Duration::from_secs(1);

/// Attempts to send a batch, at most, if its collector can't be reached.
pub const SPAN_ATTEMPTS_MAX: u32 = 4;

/// Pause before a batch is sent again; doubled each further time.
pub const SPAN_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of all texts of a span: the excess is left out.
pub const SPAN_TEXTS_BYTES_MAX: usize = 1 << 10;

/// Memory of a span: its texts and its attributes.
const SPAN_BYTES: usize = SPAN_TEXTS_BYTES_MAX + 1024;

/// Memory of all spans that are held: the queue, a batch, and the batch as JSON of about its size.
pub const SPANS_HELD_BYTES: usize = (SPANS_QUEUED_MAX + 2 * SPANS_IN_BATCH_MAX) * SPAN_BYTES;

const _: () = assert!(SPANS_IN_BATCH_MAX <= SPANS_QUEUED_MAX);
