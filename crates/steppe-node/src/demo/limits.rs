//! Every bound of the demo origin, with its reason: it shares the node's process, and must not
//! outgrow it.

use std::time::Duration;

/// Connections open at once; more wait in the listener's queue.
pub const CONNECTIONS_MAX: usize = 256;

/// Time between two requests, and for a request's head. Longer than the gateway's own idle timeout
/// towards servers, so that the gateway closes first.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(120);

/// Age of a connection at which it is closed.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Age of a WebSocket, which has left its HTTP connection.
pub const WEB_SOCKET_TIME_MAX: Duration = Duration::from_secs(3_600);

/// WebSockets open at once: they hold no place among the connections.
pub const WEB_SOCKETS_MAX: usize = 64;

/// Bytes of one WebSocket message, and of the queue to a client.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Bytes that `/bytes` sends, at most: 1 GiB.
pub const BYTES_MAX: u64 = 1 << 30;

/// Longest wait of `/slow`.
pub const SLOW_MAX: Duration = Duration::from_secs(60);

/// Events that one response of `/events` sends: ten minutes of them.
pub const EVENTS_MAX: u64 = 600;

/// Field lines that the page shows.
pub const FIELDS_SHOWN_MAX: usize = 100;

/// Bytes of a value that the page shows.
pub const VALUE_BYTES_SHOWN_MAX: usize = 1_024;

/// Lifetime of the certificate that is made at start: longer than any trial of a node.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 86_400);
