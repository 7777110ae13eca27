//! Every bound of this crate, each with its reason.

use std::time::Duration;

pub use steppe_net::limits::SERVICE_BYTES_MAX;

/// Bytes of the header of a frame.
pub const HEADER_BYTES: usize = 24;

/// Bytes of the payload of a DATA frame. The frame of one stream delays those of others by its length; at
/// 64 KiB, the header takes less than 0.04 %.
pub const DATA_BYTES_MAX: usize = 64 << 10;

/// Bytes of the payload of any other known frame. It is read whole before it is parsed, into the inbox of
/// its connection.
pub const CONTROL_BYTES_MAX: usize = 4 << 10;

/// Bytes of a connection's inbox: the largest control frame, and frames that are received in the same read.
/// The payload of DATA is read into other buffers.
pub const INBOX_BYTES: usize = 8 << 10;

/// Bytes of the largest message on standing credit, which is sent without a request for credit. It fits one
/// DATA frame, so no part of it waits at the receiver for credit that the other parts hold.
pub const EAGER_BYTES_MAX: usize = DATA_BYTES_MAX;

/// The least standing credit of a stream and of a connection. A receiver may owe a quarter of it
/// before it sends CREDIT; the rest must suffice for the largest eager message.
pub const STANDING_CREDIT_MIN: u32 = 128 << 10;

/// The share of standing credit that is owed before CREDIT is sent, as a divisor: a CREDIT frame for
/// each small message would double the number of frames.
pub const CREDIT_OWED_DIVISOR: u64 = 4;

/// The least part of a split message, in bytes. A sender with less credit waits for more; otherwise a
/// receiver that grants byte by byte would cause a header for each byte.
pub const SPLIT_BYTES_MIN: usize = 4 << 10;

/// Bytes of credit that a stream or connection can be granted over its life: sums never overflow.
pub const CREDIT_BYTES_MAX: u64 = 1 << 62;

/// Streams that a peer may have open on one connection. A caller with more opens another connection.
pub const STREAMS_MAX: u32 = 65_536;

/// The last stream number; a connection that reaches it drains.
pub const STREAM_ID_MAX: u32 = (1 << 31) - 1;

/// Bytes of a content type. RFC 6838 §4.2 allows 127 for each of its two names; the common ones are short.
pub const CONTENT_TYPE_BYTES_MAX: usize = 128;

/// Bytes of an idempotency key: a UUID as text, or a digest as hex.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 64;

/// Bytes of the text in END and RESET. Longer texts are truncated.
pub const DETAIL_BYTES_MAX: usize = 512;

/// Services that one worker can register: their names fit one frame.
pub const SERVICES_MAX: usize = 64;

/// The longest deadline of a stream. Longer ones count as this.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Messages, or parts of one, that a stream queues before they are written. Their sender waits with further
/// ones.
pub const PARTS_PER_STREAM_MAX: usize = 8;

/// Bytes of pending control frames above which a connection queues no further HEADERS, SERVICES and CREDIT. The
/// charge of a connection includes them twice, and the bytes that are being written.
pub const HEADS_WAITING_BYTES_MAX: usize = 16 << 10;

/// RESET frames that may wait to be written, for each stream that the peer may have open, when it opens
/// another. A peer that keeps to its limit has one at most: its stream stays open until it reads the RESET.
pub const RESETS_WAITING_PER_STREAM_MAX: usize = 2;

/// RESET frames for streams of its own that a peer may send within a second. Each may have started a
/// call, so they cost more than their bytes (CVE-2023-44487 in HTTP/2).
pub const RESETS_PER_SECOND_MAX: u32 = 20_000;

/// GOAWAY frames that are accepted on a connection: drain, drained, an error, and one in reserve.
/// Each costs a walk over all streams.
pub const GOAWAYS_MAX: u8 = 4;

/// Slices of one vectored write.
pub const SLICES_MAX: usize = 64;

/// Approximate bytes of committed frames. Control frames wait behind no more than these.
pub const COMMITTED_BYTES_MAX: usize = 256 << 10;

/// Time limit of HELLO on a new connection.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Entries of ended streams in a queue, beyond those of live streams, before it is swept.
pub(crate) const STALE_MAX: usize = 64;

/// Entries of answered streams, which may have ended meanwhile, before they are swept.
pub(crate) const ANSWERED_SWEPT_MIN: usize = 64;

/// Share of the memory of calls, in thousandths, that bodies may not take. Connections, streams and idle
/// buffers have it, so that a call that arrives while bodies fill the rest can wait for its turn.
pub const TABLES_PERMILLE: u16 = 125;

/// Share of the memory of calls, in thousandths, for the idle buffers of threads. It is part of the share that
/// bodies may not take; idle buffers are freed for connections and streams.
pub const IDLE_PERMILLE: u16 = 125;

/// Share of the memory of bodies, in thousandths, that requests leave to responses by default.
pub const RESPONSE_SHARE_PERMILLE: u16 = 250;

/// The largest such share: at least a tenth is left for requests.
pub const RESPONSE_SHARE_PERMILLE_MAX: u16 = 900;

/// Bodies that wait for room at a time. Each is a task, and a request that waits behind this many
/// others had better be refused.
pub const WAITING_MAX: usize = 16_384;

/// Charge in a relay of a service that a worker names, without its name: its entries in tables.
pub const SEAT_BYTES: usize = 304;

/// Charge of a service with a name of `len` bytes, for each worker that offers it: a relay has the name twice.
#[must_use]
pub const fn seat_bytes(len: usize) -> usize {
    SEAT_BYTES + 2 * block_bytes(len)
}

/// Charge in a relay of the rights of a peer, without the names in its certificate.
pub const ACCESS_BYTES: usize = 320;

/// Time in which a worker has to grant the first credit of a request if calls do not wait (`plane.queue.wait` is
/// zero). It grants or refuses at once, so this covers the round trip.
pub const GRANT_WAIT: Duration = Duration::from_secs(1);

/// Services without a worker whose names a relay keeps, so that a worker that returns finds the
/// calls that wait for it. They are not charged to the budget: less than 256 KiB.
pub const FORGOTTEN_SERVICES_MAX: usize = 256;

/// Time for which a worker that refused a call as overloaded gets calls only if no other worker can take them, unless
/// one of its calls ends before. Short against a retry that it may have asked for, long against the microseconds that
/// a refusal takes.
pub const REFUSAL_REST: Duration = Duration::from_secs(1);

/// Workers that a relay tries for one call, as long as none has processed it.
pub const RELAY_TRIES_MAX: usize = 8;

/// Workers that are read from etcd; each service of an address counts. As many connections take a third
/// of a GiB of the budget.
pub const FOUND_WORKERS_MAX: usize = 1_024;

/// Bytes of a discovered worker's host: a name (RFC 1035 §2.3.4) or an IP address.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// Times that a balancer sends a call, in all.
pub const CALL_TRIES_MAX: usize = 4;

/// Retries that are left while no call succeeds: as many calls as a worker that dies may have had.
pub const RETRIES_SAVED_MAX: u32 = 1_000;

/// The share of calls that may be retried over time, as a divisor.
pub const RETRY_SHARE_DIVISOR: u32 = 5;

/// Streams that a peer may have open on a connection of this crate's callers and workers.
pub const CONNECTION_STREAMS_MAX: u32 = 8_192;

/// Standing credit of a connection of this crate's callers and workers, reserved while it lives.
pub const CONNECTION_CREDIT: u32 = 256 << 10;

/// Charge of a connection beside its standing credit: its buffers for reads and writes, and its task.
pub const CONNECTION_BYTES: usize = 112 << 10;

/// Bytes that a TLS session buffers for writing: a few records.
pub const TLS_UNSENT_BYTES: usize = 48 << 10;

/// Charge of a TLS session, beside its connection: unwritten records, a received record with its plaintext
/// (RFC 8446 §5.1), and keys.
pub const TLS_BYTES: usize = TLS_UNSENT_BYTES + (48 << 10);

/// Charge of a stream: its entries in both tables of a connection, and in queues.
pub const STREAM_BYTES: usize = 1_600;

/// Charge of a call that a relay forwards, beside its streams: its task, which may wait for memory, and its entry at a
/// worker. The texts of its HEADERS are charged by their length.
pub const RELAY_CALL_BYTES: usize = 3_008;

/// Charge of a call at a worker of this crate, beside its stream: its task, without the memory of its handler.
pub const WORKER_CALL_BYTES: usize = 672;

/// Memory of pending output that the charge of a connection includes. Pending output above it, of a peer that reads too
/// slowly, is charged in addition.
pub const OUTPUT_BYTES: usize = 68 << 10;

/// Charge of a text or another block of `len` bytes: an allocator's size classes are a quarter apart.
#[must_use]
pub const fn block_bytes(len: usize) -> usize {
    len + len / 4 + 16
}

/// Blocks of streams that a table keeps while no stream is open.
pub(crate) const STREAMS_KEPT: usize = 32;

/// Charge of a small message beyond its length and a quarter of it: its owner, and its entry in a queue.
pub const MESSAGE_BYTES: usize = 176;

/// Length in bytes from which a message on standing credit gets a buffer of the pool: size classes double, so less
/// than half of a buffer is unused, and it needs no zeroing.
pub const POOLED_BYTES_MIN: usize = 8 << 10;

/// Credit in bytes that is granted ahead to a body that is received in parts.
pub const WINDOW_BYTES: usize = 4 * DATA_BYTES_MAX;

/// Reads of a connection's task before it yields to other tasks.
pub const READS_PER_TURN: usize = 32;

/// Silence before a peer is sent a PING.
pub const QUIET: Duration = Duration::from_secs(5);
/// Time limit of a peer's reaction to a PING.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Pause of a listener after a failed accept.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time for peers to read GOAWAY and RESETs, after the deadline of a drain.
pub const FAREWELL: Duration = Duration::from_secs(1);

/// Time limit of a connection attempt, TLS handshake included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The first wait before a peer is dialed again. It doubles with each failure.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(100);

/// The longest wait before a peer is dialed again, and so before a peer that returns is found. A
/// connection that lasted as long resets the wait to the first one.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

const _: () = assert!(INBOX_BYTES >= HEADER_BYTES + CONTROL_BYTES_MAX);
const _: () = assert!(
    STANDING_CREDIT_MIN as u64 - STANDING_CREDIT_MIN as u64 / CREDIT_OWED_DIVISOR
        >= (EAGER_BYTES_MAX + HEADER_BYTES) as u64
);
// For SERVICES_MAX services with names of 32 bytes, each with its lengths and its maximum of calls.
const _: () = assert!(SERVICES_MAX * (SERVICE_BYTES_MAX / 4 + 16) <= CONTROL_BYTES_MAX);
const _: () = assert!(
    SERVICE_BYTES_MAX + CONTENT_TYPE_BYTES_MAX + IDEMPOTENCY_KEY_BYTES_MAX + 128
        <= CONTROL_BYTES_MAX
);
const _: () = assert!(DETAIL_BYTES_MAX <= CONTROL_BYTES_MAX);
