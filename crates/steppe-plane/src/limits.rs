//! Every bound of this crate, each with its reason.

use std::time::Duration;

pub use steppe_net::limits::SERVICE_BYTES_MAX;

/// Bytes of the header of a frame.
pub const HEADER_BYTES: usize = 24;

/// Bytes of the payload of a DATA frame. What one stream sends delays the others by as much, and a
/// frame of 64 KiB spends less than 0.04 % on its header.
pub const DATA_BYTES_MAX: usize = 64 << 10;

/// Bytes of the payload of every other frame that is understood: it is read whole before it is
/// parsed, into memory that each connection has.
pub const CONTROL_BYTES_MAX: usize = 4 << 10;

/// Memory of a connection for what it reads, DATA aside: the largest control frame, and what comes
/// with it in the same read.
pub const INBOX_BYTES: usize = 8 << 10;

/// Bytes of a message that is sent without asking, on standing credit: it fits one DATA frame, so no
/// part of one waits at the receiver for credit that the other parts hold.
pub const EAGER_BYTES_MAX: usize = DATA_BYTES_MAX;

/// The least standing credit of a stream and of a connection. A receiver may owe a quarter of it
/// without telling; the rest has to have room for the largest eager message.
pub const STANDING_CREDIT_MIN: u32 = 128 << 10;

/// The share of standing credit that is owed before it is told, as a divisor: a frame of CREDIT for
/// each small message would double the frames.
pub const CREDIT_OWED_DIVISOR: u64 = 4;

/// Bytes that a message is split at, at least. A sender with less credit waits for more, lest a
/// receiver that grants byte by byte make it send a header a byte.
pub const SPLIT_BYTES_MIN: usize = 4 << 10;

/// Credit that one stream or connection is granted over its life: sums of it never overflow.
pub const CREDIT_BYTES_MAX: u64 = 1 << 62;

/// Streams that a peer may have open on one connection, at most. A caller with more opens another.
pub const STREAMS_MAX: u32 = 65_536;

/// The last number of a stream; a connection that reaches it drains.
pub const STREAM_ID_MAX: u32 = (1 << 31) - 1;

/// Bytes of a content type. RFC 6838 §4.2 has 127 for each of its two names; those in use are short.
pub const CONTENT_TYPE_BYTES_MAX: usize = 128;

/// Bytes of an idempotency key: a UUID as text, or a digest as hex.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 64;

/// Bytes of the text that says why a stream ended. Longer text is cut.
pub const DETAIL_BYTES_MAX: usize = 512;

/// Services that one worker registers at a time: their names fit one frame.
pub const SERVICES_MAX: usize = 64;

/// The longest time that a stream may have. What is sent as more counts as this.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Messages, or parts of one, that a stream takes before they are written. More wait outside, where
/// whoever made them sees that they wait.
pub const PARTS_PER_STREAM_MAX: usize = 8;

/// Bytes of HEADERS and SERVICES that wait to be written, at most: more streams are opened when
/// these have left. A connection's charge includes them twice over, and what is being written.
pub const HEADS_WAITING_BYTES_MAX: usize = 16 << 10;

/// RESET frames that wait to be written for each stream that the peer may have open, when it opens
/// another. A peer that counts as it must has one at most: a stream is open to it until it reads the RESET.
pub const RESETS_WAITING_PER_STREAM_MAX: usize = 2;

/// RESET frames for streams of its own that a peer may send in a second. Each may have started a
/// call, so they cost more than their bytes (CVE-2023-44487 in HTTP/2).
pub const RESETS_PER_SECOND_MAX: u32 = 20_000;

/// GOAWAY frames that are read of a connection: going away, drained, an error, and one to spare.
/// Each costs a look at every stream.
pub const GOAWAYS_MAX: u8 = 4;

/// Slices that one vectored write gets.
pub const SLICES_MAX: usize = 64;

/// Bytes of frames that are decided on before they are written, about. Control frames wait for no
/// more than these.
pub const COMMITTED_BYTES_MAX: usize = 256 << 10;

/// How long a new connection may take to say HELLO.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Entries of queues that are over, beyond those of live streams, before they are swept.
pub(crate) const STALE_MAX: usize = 64;

/// Streams that were answered before their requests had ended, and may be over, before they are swept.
pub(crate) const ANSWERED_SWEPT_MIN: usize = 64;

/// Thousandths of the memory of calls that bodies may not take: connections and streams have them to
/// themselves and idle buffers, so that a call that comes while bodies fill the rest can wait for its turn.
pub const TABLES_PERMILLE: u16 = 125;

/// Thousandths of the memory of calls that idle buffers of threads may have, of those that bodies may not take:
/// they make room for connections and streams.
pub const IDLE_PERMILLE: u16 = 125;

/// Thousandths of the memory of bodies that requests may not take, where nobody says otherwise: responses
/// have them to themselves.
pub const RESPONSE_SHARE_PERMILLE: u16 = 250;

/// The most of them: requests have a tenth at least.
pub const RESPONSE_SHARE_PERMILLE_MAX: u16 = 900;

/// Bodies that wait for room at a time. Each is a task, and a request that waits longer than this many
/// others is better refused.
pub const WAITING_MAX: usize = 16_384;

/// Charge of a service that a worker names, in a relay, beside its name: its places in tables.
pub const SEAT_BYTES: usize = 304;

/// Charge of a service with a name of `len` bytes, for each worker that names it: a relay has the name twice.
#[must_use]
pub const fn seat_bytes(len: usize) -> usize {
    SEAT_BYTES + 2 * block_bytes(len)
}

/// Charge of what a relay keeps of the rights of a peer, beside the names of its certificate.
pub const ACCESS_BYTES: usize = 320;

/// How long a worker may take to say whether it has room, where no call may wait for it: it says so at once, and the
/// way there is short.
pub const GRANT_WAIT: Duration = Duration::from_secs(1);

/// Services that nobody serves any more, whose names a relay keeps: a worker that comes back finds the
/// calls that waited for it. They are charged to nobody: less than 256 KiB.
pub const FORGOTTEN_SERVICES_MAX: usize = 256;

/// Time for which a worker that refused a call as overloaded is asked only where no other can be, unless one of its calls
/// ends before: short beside a retry that it may have asked for, and long beside a call that it refuses in microseconds.
pub const REFUSAL_REST: Duration = Duration::from_secs(1);

/// Workers that a relay tries for one call, while nothing was done for it.
pub const RELAY_TRIES_MAX: usize = 8;

/// Workers that are found in etcd, a service of one address each. As many connections would take a third of
/// a GiB of the budget.
pub const FOUND_WORKERS_MAX: usize = 1_024;

/// Bytes of the host of a worker that is found: of a name (RFC 1035 §2.3.4), or an IP address.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// Times that a call is sent in all, by a caller of several workers.
pub const CALL_TRIES_MAX: usize = 4;

/// Calls that may be sent again, at a time when none succeeds: as many as a worker that dies may have had.
pub const RETRIES_SAVED_MAX: u32 = 1_000;

/// The share of calls that may be sent again for a while, as a divisor.
pub const RETRY_SHARE_DIVISOR: u32 = 5;

/// Streams that a peer may have open on a connection of this crate's callers and workers.
pub const CONNECTION_STREAMS_MAX: u32 = 8_192;

/// Standing credit of a connection of this crate's callers and workers: reserved as long as it lives.
pub const CONNECTION_CREDIT: u32 = 256 << 10;

/// What else a connection is charged: what it reads and writes through, and its task.
pub const CONNECTION_BYTES: usize = 112 << 10;

/// Bytes that a session of TLS has taken and not written yet: a few records.
pub const TLS_UNSENT_BYTES: usize = 48 << 10;

/// What a session of TLS is charged beside its connection: what it has not written, a record that is read with
/// its text (RFC 8446 §5.1), and its keys.
pub const TLS_BYTES: usize = TLS_UNSENT_BYTES + (48 << 10);

/// Charge of a stream: its entries in both tables of a connection, and in queues.
pub const STREAM_BYTES: usize = 1_600;

/// Charge of a call that a relay passes on, beside its streams: its task, which may wait for memory, and its place at a
/// worker. The texts of its HEADERS are charged by their length.
pub const RELAY_CALL_BYTES: usize = 3_008;

/// Charge of a call that a worker of this crate serves, beside its stream: its task, without the memory of its handler.
pub const WORKER_CALL_BYTES: usize = 672;

/// Memory of what waits to be written that a connection's charge includes. A peer that reads less than it causes to be
/// written has the rest charged.
pub const OUTPUT_BYTES: usize = 68 << 10;

/// Charge of a text or another block of `len` bytes: an allocator's size classes are a quarter apart.
#[must_use]
pub const fn block_bytes(len: usize) -> usize {
    len + len / 4 + 16
}

/// Streams that a table of a connection keeps blocks for while none is open.
pub(crate) const STREAMS_KEPT: usize = 32;

/// Charge of a small message beyond its bytes and a quarter of these: its owner, and its place in a queue.
pub const MESSAGE_BYTES: usize = 176;

/// Bytes from which on a message on standing credit is worth a buffer of the pool: classes double, so less
/// than half of one is unused, and no bytes are cleared for it.
pub const POOLED_BYTES_MIN: usize = 8 << 10;

/// Credit that a body is given ahead, where it is taken as it comes.
pub const WINDOW_BYTES: usize = 4 * DATA_BYTES_MAX;

/// Times that a connection's task reads before it lets others run.
pub const READS_PER_TURN: usize = 32;

/// Silence before a peer is asked for a sign of life, and how long it may take to give one.
pub const QUIET: Duration = Duration::from_secs(5);
/// See [`QUIET`].
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a listener waits after it could not accept.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a worker or relay whose time to drain is over waits for its peers to hear of it.
pub const FAREWELL: Duration = Duration::from_secs(1);

/// How long it may take to reach a peer, TLS included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before a peer is dialed again, at first. It doubles with each failure.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(100);

/// How long to wait before a peer is dialed again, at most: a peer that returns is found by then. A
/// connection that lasted as long makes the next wait the first one.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

const _: () = assert!(INBOX_BYTES >= HEADER_BYTES + CONTROL_BYTES_MAX);
const _: () = assert!(
    STANDING_CREDIT_MIN as u64 - STANDING_CREDIT_MIN as u64 / CREDIT_OWED_DIVISOR
        >= (EAGER_BYTES_MAX + HEADER_BYTES) as u64
);
// Services with names of 32 bytes, each with its lengths and how many calls it takes.
const _: () = assert!(SERVICES_MAX * (SERVICE_BYTES_MAX / 4 + 16) <= CONTROL_BYTES_MAX);
const _: () = assert!(
    SERVICE_BYTES_MAX + CONTENT_TYPE_BYTES_MAX + IDEMPOTENCY_KEY_BYTES_MAX + 128
        <= CONTROL_BYTES_MAX
);
const _: () = assert!(DETAIL_BYTES_MAX <= CONTROL_BYTES_MAX);
