//! A listener with a full accept queue, to which connection attempts time out.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// A listener whose queue is full, so that the kernel drops SYN segments.
pub struct FullQueue {
    listener: TcpListener,
    address: SocketAddr,
    fillers: Vec<TcpStream>,
}

impl FullQueue {
    /// Fills the queue of a listener on a port of its own.
    #[must_use]
    pub fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
        socket
            .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .expect("some port is free");
        socket.listen(0).expect("a bound socket can listen");
        let listener: TcpListener = socket.into();
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let mut fillers = Vec::new();
        // One that fails may have met a busy machine instead of a full queue.
        let mut failed = 0;
        while failed < 3 {
            match TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
                Ok(stream) => fillers.push(stream),
                Err(_) => failed += 1,
            }
            assert!(fillers.len() < 100, "the queue never fills");
        }
        Self {
            listener,
            address,
            fillers,
        }
    }

    /// The address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes room, and answers the first request that comes with `response`.
    pub fn answer_one(self, response: &str) {
        drop(self.fillers);
        while let Ok((mut stream, _)) = self.listener.accept() {
            let mut text = [0; 1024];
            if stream.read(&mut text).unwrap_or(0) > 0 {
                let _ = stream.write_all(response.as_bytes());
                return;
            }
        }
    }
}

impl Default for FullQueue {
    fn default() -> Self {
        Self::new()
    }
}
