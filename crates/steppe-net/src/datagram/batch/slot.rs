//! What is known of a datagram beside its bytes.

use std::net::{IpAddr, SocketAddr};

/// What is known of one datagram.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Who sent it, or is to have it.
    pub(super) peer: SocketAddr,
    /// The address of this machine that it came to, or is to come from.
    pub(super) local: Option<IpAddr>,
    /// Bytes of it.
    pub(super) len: usize,
    pub(super) fits: Fits,
}

/// Whether a datagram was read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fits {
    /// It was.
    Whole,
    /// It was longer than the room for it; the rest is lost.
    Truncated,
}
