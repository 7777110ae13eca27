//! A check that a socket could be bound, without keeping it.

use crate::address::{ListenAddress, SocketKey, SocketKind};
use crate::datagram::probe_datagram;
use crate::listener::{BindError, probe_stream};

/// Binds a socket and closes it again. The folder of a Unix socket is not looked at, and nothing is
/// left behind.
///
/// # Errors
/// [`BindError`], as a bind would give it now.
pub fn probe(key: &SocketKey) -> Result<(), BindError> {
    match (&key.address, key.kind) {
        (ListenAddress::Tcp(address), SocketKind::Datagram) => probe_datagram(*address),
        (ListenAddress::Unix(path), SocketKind::Datagram) => {
            Err(BindError::UnixDatagram(path.clone()))
        }
        (address, SocketKind::Stream) => probe_stream(address),
    }
}
