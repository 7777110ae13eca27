//! The transport of a connection: a TCP socket, or TLS over it.
//!
//! Invariant: a TLS session is charged to the budget before its first byte is read.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use steppe_mem::Reservation;
use steppe_net::tls::x509::Summary;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::memory::Memory;
use crate::limits::{HELLO_TIMEOUT, TLS_BYTES, TLS_UNSENT_BYTES};

/// The protocol's name in ALPN (RFC 7301), so that peers of other protocols are rejected.
pub const ALPN: &[u8] = b"steppe-plane";

/// The transport of a connection.
pub(crate) enum Transport {
    Tcp(TcpStream),
    Tls(Box<Session>),
}

/// A TLS session with its charge.
pub(crate) struct Session {
    stream: TlsStream<TcpStream>,
    _charge: Reservation,
}

/// Reserves the memory of a TLS session.
pub(crate) fn reserve_session(memory: &Memory) -> io::Result<Reservation> {
    let reserved = memory.reserve_entry(TLS_BYTES);
    reserved.map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))
}

/// As [`reserve_session`], for a client that has connected: refused to one beyond its share.
pub(crate) fn admit_session(memory: &Memory) -> io::Result<Reservation> {
    let admitted = memory.admit_entry(TLS_BYTES);
    admitted.map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))
}

impl Transport {
    /// Completes the TLS handshake with a client, within [`HELLO_TIMEOUT`].
    pub(crate) async fn accept(
        socket: TcpStream,
        config: Arc<ServerConfig>,
        charge: Reservation,
    ) -> io::Result<Self> {
        let accepted = timeout(HELLO_TIMEOUT, TlsAcceptor::from(config).accept(socket)).await;
        let stream = accepted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Self::session(stream.into(), charge)
    }

    /// Completes the TLS handshake with a server.
    pub(crate) async fn connect(
        socket: TcpStream,
        connector: &TlsConnector,
        name: ServerName<'static>,
        charge: Reservation,
    ) -> io::Result<Self> {
        let stream = connector.connect(name, socket).await?;
        Self::session(stream.into(), charge)
    }

    /// Checks that the peers agreed on [`ALPN`]; a peer without it speaks another protocol.
    fn session(mut stream: TlsStream<TcpStream>, charge: Reservation) -> io::Result<Self> {
        let agreed = match &stream {
            TlsStream::Client(stream) => stream.get_ref().1.alpn_protocol(),
            TlsStream::Server(stream) => stream.get_ref().1.alpn_protocol(),
        };
        if agreed != Some(ALPN) {
            let text = "the peer did not agree on `steppe-plane` by ALPN";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let unsent = Some(TLS_UNSENT_BYTES);
        match &mut stream {
            TlsStream::Client(stream) => stream.get_mut().1.set_buffer_limit(unsent),
            TlsStream::Server(stream) => stream.get_mut().1.set_buffer_limit(unsent),
        }
        Ok(Self::Tls(Box::new(Session {
            stream,
            _charge: charge,
        })))
    }

    /// The verified certificate of a client.
    ///
    /// # Errors
    /// If the certificate, although valid, can't be parsed here.
    pub(crate) fn client_cert(&self) -> io::Result<Option<Summary>> {
        let Self::Tls(session) = self else {
            return Ok(None);
        };
        let TlsStream::Server(stream) = &session.stream else {
            return Ok(None);
        };
        let chain = stream.get_ref().1.peer_certificates();
        let cert = chain.and_then(|chain| chain.first());
        let cert = cert.map(|cert| Summary::of(cert)).transpose();
        cert.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// The socket of the transport.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(session) => session.stream.get_ref().0,
        }
    }

    /// Reads into `slices`: a socket into all of them, TLS into the first that is not empty.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        slices: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(socket) => loop {
                ready!(socket.poll_read_ready(cx))?;
                match socket.try_read_vectored(slices) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(read),
                }
            },
            Self::Tls(session) => {
                let Some(room) = slices.iter_mut().find(|slice| !slice.is_empty()) else {
                    return Poll::Ready(Err(io::ErrorKind::InvalidInput.into()));
                };
                let mut room = ReadBuf::new(room);
                ready!(Pin::new(&mut session.stream).poll_read(cx, &mut room))?;
                Poll::Ready(Ok(room.filled().len()))
            }
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Tls(session) => Pin::new(&mut session.stream).poll_write_vectored(cx, slices),
        }
    }

    /// Flushes written bytes from TLS to the socket.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) => Poll::Ready(Ok(())),
            Self::Tls(session) => Pin::new(&mut session.stream).poll_flush(cx),
        }
    }
}

impl From<TcpStream> for Transport {
    fn from(socket: TcpStream) -> Self {
        Self::Tcp(socket)
    }
}
