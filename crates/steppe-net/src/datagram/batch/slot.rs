//! Peer, local address and length of a datagram.

use std::net::{IpAddr, SocketAddr};

/// One datagram, without its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Sender, or receiver.
    pub(super) peer: SocketAddr,
    /// Address of this machine: destination of a datagram that came, source of one to send.
    pub(super) local: Option<IpAddr>,
    /// Length in bytes.
    pub(super) len: usize,
    pub(super) fits: Fits,
}

/// Completeness of a datagram that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fits {
    /// Read whole.
    Whole,
    /// Longer than the room for it; the rest is lost.
    Truncated,
}
