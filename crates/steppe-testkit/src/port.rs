//! Free TCP ports that parallel tests don't steal from each other.
//!
//! A port found by binding zero is up for grabs again before the program under
//! test binds it. Here a port is taken from below the range that the kernel
//! hands out, and a locked file holds it for as long as its guard lives, so
//! that neither another test nor a passing connection gets it.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

use crate::file_lock::try_lock;

/// A port of the loopback interface, free of TCP listeners, held until dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;

impl Port {
    /// Takes a free port.
    ///
    /// # Panics
    /// When none is free.
    pub fn free() -> Self {
        let start = u16::try_from(std::process::id() * 61 % u32::from(COUNT)).unwrap_or(0);
        (0..COUNT)
            .map(|step| FIRST + (start + step) % COUNT)
            .find_map(Self::take)
            .expect("one of 15,000 ports is free")
    }

    fn take(number: u16) -> Option<Self> {
        let lock = try_lock(&format!("port-{number}"))?;
        let addresses = [
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, number)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, number)),
        ];
        let unused = addresses.into_iter().all(is_unused);
        unused.then_some(Self {
            number,
            _lock: lock,
        })
    }

    /// The port's IPv4 loopback address; the port is held until the process ends.
    pub fn keep(self) -> SocketAddr {
        let address = self.address();
        std::mem::forget(self);
        address
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The port's IPv4 loopback address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }

    /// The port's IPv6 loopback address.
    pub fn address_v6(&self) -> SocketAddr {
        (Ipv6Addr::LOCALHOST, self.number).into()
    }
}

/// True if nothing listens at `address`, or the host lacks its address family.
///
/// The socket of the check is bound and never listens: a child that another thread
/// forks meanwhile holds a copy of it until it calls `exec`, and a copy that
/// listened would keep the port from the program under test.
fn is_unused(address: SocketAddr) -> bool {
    let bound = Socket::new(Domain::for_address(address), Type::STREAM, None)
        .and_then(|socket| socket.set_reuse_address(true).map(|()| socket))
        .and_then(|socket| socket.bind(&address.into()));
    !matches!(bound, Err(error) if error.kind() == io::ErrorKind::AddrInUse)
}
