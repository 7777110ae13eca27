//! A connected stream socket, polled for readiness by the runtime.
//!
//! Codecs use it through a [`Transport`](crate::Transport).

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connected stream socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP, with `TCP_NODELAY` set: messages are written whole.
    Tcp(TcpStream),
    /// A Unix stream socket.
    Unix(UnixStream),
}

/// The address of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A local process, over a Unix socket.
    Local,
}

impl Stream {
    /// Connects to a TCP address.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn connect_tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn connect_unix(path: &Path) -> io::Result<Self> {
        Ok(Self::Unix(UnixStream::connect(path).await?))
    }

    /// The local address; `None` for a Unix socket.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Sizes the kernel's buffers, each way. The kernel doubles the figure for
    /// its own overhead, and no longer tunes the size by itself.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_buffer_bytes(&self, bytes: usize) -> io::Result<()> {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
        };
        socket.set_recv_buffer_size(bytes)?;
        socket.set_send_buffer_size(bytes)
    }

    /// Lets the kernel hold no more than about so many bytes that it has not sent yet: what is
    /// written then is what the peer gets next. Of a TCP socket; others are left as they are.
    ///
    /// # Errors
    /// The system's errors.
    pub fn limit_unsent_bytes(&self, bytes: u32) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => SockRef::from(stream).set_tcp_notsent_lowat(bytes),
            Self::Unix(_) => Ok(()),
        }
    }

    /// Ready when bytes, the end or an error can be read; no system call.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Ready when bytes can be written, or an error be had; no system call.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Reads into `room`; 0 is the end of the stream.
    ///
    /// # Errors
    /// The system's errors.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(room);
        let read = match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buf),
        };
        ready!(read)?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Writes as much of the slices as the kernel takes, in one system call.
    ///
    /// # Errors
    /// The system's errors.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match (self, slices) {
            // `sendmsg` has an array of its own to copy in.
            (Self::Tcp(stream), [only]) => Pin::new(stream).poll_write(cx, only),
            (Self::Unix(stream), [only]) => Pin::new(stream).poll_write(cx, only),
            (Self::Tcp(stream), _) => Pin::new(stream).poll_write_vectored(cx, slices),
            (Self::Unix(stream), _) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    /// Ready when the peer has closed or reset the connection, even while bytes that
    /// came before are unread (`EPOLLRDHUP`).
    pub async fn closed(&self) {
        // Linux reports the peer's end along with urgent data, which no peer sends: waiting
        // for that is not woken by bytes.
        let closed = match self {
            Self::Tcp(stream) => stream.ready(Interest::PRIORITY).await,
            Self::Unix(stream) => stream.ready(Interest::PRIORITY).await,
        };
        // An error means that the runtime is going away.
        drop(closed);
    }

    /// Ends the sending side; the other goes on.
    ///
    /// # Errors
    /// The system's errors.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl PeerAddress {
    /// The IP address, an IPv4-mapped one as IPv4. A local peer stands for loopback.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        match self {
            Self::Ip(address) => address.ip().to_canonical(),
            Self::Local => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Local => f.write_str("unix"),
        }
    }
}
