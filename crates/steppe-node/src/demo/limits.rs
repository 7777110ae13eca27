//! Every bound of the demo origin, with its reason: it shares the node's process,
//! and must not be what outgrows it.

use std::time::Duration;

/// Connections open at once; more wait in the listener's queue.
pub const CONNECTIONS_MAX: usize = 256;

/// Between two requests, and for a request's head. Longer than the gateway's own
/// idle timeout towards servers, so that the gateway closes first.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(120);

/// For a whole connection, whatever it does.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(3_600);

/// For a WebSocket, which leaves its HTTP connection.
pub const WEB_SOCKET_TIME_MAX: Duration = Duration::from_secs(3_600);

/// WebSockets open at once: they hold no place among the connections.
pub const WEB_SOCKETS_MAX: usize = 64;

/// One WebSocket message, and what may be queued to a client.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// What `/bytes` sends at most: 1 GiB.
pub const BYTES_MAX: u64 = 1 << 30;

/// Longest wait of `/slow`.
pub const SLOW_MAX: Duration = Duration::from_secs(60);

/// Events that one response of `/events` sends: ten minutes of them.
pub const EVENTS_MAX: u64 = 600;

/// Field lines that the page shows.
pub const FIELDS_SHOWN_MAX: usize = 100;

/// Bytes of a value that the page shows.
pub const VALUE_BYTES_SHOWN_MAX: usize = 1_024;

/// The certificate that is made at start: longer than anybody tries a node out.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 86_400);
