//! Free TCP ports that parallel tests don't steal from each other.
//!
//! A port found by binding zero is up for grabs again before the program under
//! test binds it. Here a port is taken from below the range that the kernel
//! hands out, and a locked file holds it for as long as its guard lives, so
//! that neither another test nor a passing connection gets it.

use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// A TCP port of the loopback interface, held until dropped.
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
        let locks = std::env::temp_dir().join("steppe-ports");
        std::fs::create_dir_all(&locks).expect("the temporary directory is writable");
        let start = u16::try_from(std::process::id() * 61 % u32::from(COUNT)).unwrap_or(0);
        (0..COUNT)
            .map(|step| FIRST + (start + step) % COUNT)
            .find_map(|number| Self::take(&locks.join(number.to_string()), number))
            .expect("one of 15,000 ports is free")
    }

    fn take(lock: &std::path::Path, number: u16) -> Option<Self> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock)
            .ok()?;
        file.try_lock().ok()?;
        let unused = TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).is_ok()
            && TcpListener::bind((Ipv6Addr::LOCALHOST, number)).map_or_else(
                |error| error.kind() != std::io::ErrorKind::AddrInUse,
                |_| true,
            );
        unused.then_some(Self {
            number,
            _lock: file,
        })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its IPv4 loopback address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }

    /// Its IPv6 loopback address.
    pub fn address_v6(&self) -> SocketAddr {
        (Ipv6Addr::LOCALHOST, self.number).into()
    }
}
