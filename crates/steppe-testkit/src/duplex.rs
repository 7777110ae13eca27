//! A client's connection for tasks: TCP alone, or TLS above it.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpSocket;

use crate::tls_client::TlsClient;

/// Both directions of it.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Room in the kernel, in bytes; it doubles the figures for its own use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) receive: u32,
    pub(crate) send: u32,
}

/// Connects to `address`, and over TLS where there is a client of it, which names the protocol.
pub(crate) async fn connect(
    address: SocketAddr,
    buffers: Option<Buffers>,
    tls: Option<TlsClient>,
) -> io::Result<Box<dyn Duplex>> {
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    if let Some(buffers) = buffers {
        socket.set_recv_buffer_size(buffers.receive)?;
        socket.set_send_buffer_size(buffers.send)?;
    }
    let stream = socket.connect(address).await?;
    let Some(tls) = tls else {
        return Ok(Box::new(stream));
    };
    let name = ServerName::try_from("localhost").expect("it is a name");
    Ok(Box::new(tls.connector().connect(name, stream).await?))
}
