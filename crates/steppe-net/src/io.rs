//! The drivers of a worker's sockets: of listeners, and of connections that it establishes.
//!
//! Non-goals: datagrams, which [`DatagramBatch`](crate::DatagramBatch) reads from the runtime's sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::listener::{BoundListener, Listener};
use crate::stream::{PeerAddress, Stream};
use crate::transport::Transport;

/// Drivers of stream sockets. A worker has one choice of them for all of its services.
pub trait Io: fmt::Debug {
    /// Starts to accept connections of `bound`.
    ///
    /// # Errors
    /// The system has no room for the socket.
    fn listen(&self, bound: BoundListener) -> io::Result<Box<dyn Accept>>;

    /// Connects to a server.
    fn connect<'a>(&'a self, server: ServerSocket<'a>) -> Connecting<'a>;
}

/// A listening socket.
pub trait Accept: fmt::Debug {
    /// Ready with a connection and its peer.
    ///
    /// # Errors
    /// As the system reports them: descriptors or memory ran out.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Transport, PeerAddress)>>;
}

/// A connection that is being established.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Transport>> + 'a>>;

/// The socket of a server.
#[derive(Debug, Clone, Copy)]
pub enum ServerSocket<'a> {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix stream socket at this path.
    Unix(&'a Path),
}

/// Sockets that the runtime polls for readiness.
#[derive(Debug, Clone, Copy, Default)]
pub struct Readiness;

impl Io for Readiness {
    fn listen(&self, bound: BoundListener) -> io::Result<Box<dyn Accept>> {
        Ok(Box::new(bound.into_listener()?))
    }

    fn connect<'a>(&'a self, server: ServerSocket<'a>) -> Connecting<'a> {
        Box::pin(async move {
            let stream = match server {
                ServerSocket::Tcp(address) => Stream::connect_tcp(address).await,
                ServerSocket::Unix(path) => Stream::connect_unix(path).await,
            };
            stream.map(Transport::new)
        })
    }
}

impl Accept for Listener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Transport, PeerAddress)>> {
        let (stream, peer) = ready!(Listener::poll_accept(self, cx))?;
        Poll::Ready(Ok((Transport::new(stream), peer)))
    }
}
