//! Every bound of the admin server, with its reason. Request content has no
//! bound of its own: admin accepts none.

use std::time::Duration;

/// Open connections of a listener. Scrapers, probes and a few operators. One more takes the place
/// of the one that has waited longest for its peer.
pub const CONNECTIONS_MAX: usize = 64;

/// Time for a TLS handshake. Peers are near, and half a handshake keeps no place.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a request's head, and between two requests. Below the usual scrape interval, so that a
/// scraper that pauses does not keep its place.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Age of a connection at which it ends with its next response: no peer keeps a place for ever. A
/// scraper whose connection ended connects again.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(300);

/// Time for the last response of a connection.
pub const LAST_RESPONSE_TIME_MAX: Duration = Duration::from_secs(300);

/// Time for which a write may wait for a peer that has stopped reading.
pub const WRITE_STALL_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of request line and fields together; hyper's smallest.
pub const HEADER_BYTES_MAX: usize = 8 << 10;

/// Field lines of a request.
pub const HEADER_COUNT_MAX: usize = 64;

/// Bytes of a token file. A larger one is no token.
pub const TOKEN_BYTES_MAX: u64 = 4 << 10;

/// Time between two events of a stream.
pub const EVENTS_EVERY: Duration = Duration::from_secs(1);

/// Streams of events open at once: a few pages and terminals. The other places
/// stay with scrapers.
pub const EVENT_STREAMS_MAX: usize = 8;

/// Age of a stream of events at which it ends. A page that is still open connects again; a stream
/// of a peer that vanished ends.
pub const EVENT_STREAM_TIME_MAX: Duration = Duration::from_secs(240);

/// Bytes reserved for a stream of events: the history as text (600 rows of up to 80 bytes), and an
/// event with tables of 50 rows (see `live/responses.rs`).
pub const EVENT_STREAM_BYTES: usize = 96 << 10;

/// Queued reloads. An operator and a tool or two request them; more are an error, and get 429.
pub const RELOADS_QUEUED_MAX: usize = 16;

// Requests in flight keep their places under any number of new connections. All other requests are
// answered at once, so half of the places can always be taken.
const _: () = assert!(EVENT_STREAMS_MAX + RELOADS_QUEUED_MAX < CONNECTIONS_MAX / 2);
// A stream ends by itself rather than in the middle of an event.
const _: () = assert!(EVENT_STREAM_TIME_MAX.as_secs() < LAST_RESPONSE_TIME_MAX.as_secs());
