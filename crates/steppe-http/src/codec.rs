//! The interface between the gateway and its protocols.
//!
//! A codec that faces clients turns a connection into requests and hands each to
//! [`run`](crate::gateway::run); one that faces servers gives pools
//! [channels](crate::upstream::channel::Channel). The gateway names none of them.

use std::fmt;

use crate::gateway::{Accepted, Endpoint};

/// A protocol that clients speak.
pub trait DownstreamCodec: fmt::Debug + Send + Sync {
    /// Spawns a task on the calling worker that serves a connection until it ends.
    ///
    /// The task waits for requests within the listener's timeouts, charges what it reads
    /// to the listener's lease, gives each request to [`run`](crate::gateway::run), or to
    /// [`reject`](crate::gateway::reject) what can't be read as one, and ends between two
    /// requests once the listener [drains](crate::gateway::ListenerSettings::drain).
    fn serve(&self, connection: Accepted);

    /// The bytes for a client whose connection finds no room. They are written once, as far
    /// as one write gets.
    fn no_room(&self) -> &'static [u8];

    /// Response to a client that speaks HTTP without TLS on a listener with TLS, written once as well; empty: none.
    fn to_plain_http(&self) -> &'static [u8] {
        b""
    }

    /// The bytes that every client sends first; empty where that tells nothing.
    fn preface(&self) -> &'static [u8] {
        b""
    }

    /// The protocol's name in ALPN (RFC 7301 §6).
    fn alpn(&self) -> &'static [u8] {
        b""
    }
}

/// A protocol that clients speak in sessions that share a datagram socket, such as those of QUIC.
pub trait DatagramCodec: fmt::Debug + Send + Sync {
    /// Spawns a task on the calling worker that serves the sessions of `endpoint`.
    ///
    /// Each is [admitted](crate::gateway::SessionListener::admit), and its tasks run in the
    /// [scope](crate::gateway::ClientContext::spawn) of its client. When the listener
    /// [drains](crate::gateway::ListenerSettings::drain), the task admits no more; it ends with the last session, and
    /// closes the socket then.
    fn serve(&self, endpoint: Endpoint);
}
