//! Establishes connections to servers: for pools and probes alike.
//!
//! Non-goals: whom to connect to, and what for.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use steppe_mem::{Lease, OverBudget, Reservation};
use steppe_net::proxy_protocol::{EncodedHeader, Ends};
use steppe_net::tls::{ConnectError, ServerTls};
use steppe_net::{Endpoints, Io, ServerAddress, ServerSocket, Transport, Worker};
use tokio::time::timeout;

use super::channel::{Channel, Established, UpstreamCodec};
use super::target::Failure;
use crate::config::Servers;
use crate::metrics::Traffic;
use crate::socket_buffers::SocketBuffers;

/// Establishes connections to the servers of one upstream.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    codec: Arc<dyn UpstreamCodec>,
    buffers: Arc<SocketBuffers>,
    lease: Lease,
    traffic: Traffic,
    io: Rc<dyn Io>,
}

/// One server, and what it is told first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer<'a> {
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) ip: IpAddr,
    pub(crate) settings: &'a Servers,
    /// TLS below the codec; `None`: there is none.
    pub(crate) tls: Option<&'a ServerTls>,
    /// Both ends of the client's connection, where the server is told them.
    pub(crate) ends: Option<Ends>,
    pub(crate) timeout: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum EstablishError {
    #[error("{0}")]
    Connect(#[from] io::Error),
    #[error("TLS: {0}")]
    Tls(#[from] ConnectError),
}

impl Connector {
    pub(crate) fn new(
        codec: Arc<dyn UpstreamCodec>,
        buffers: Arc<SocketBuffers>,
        lease: Lease,
        traffic: Traffic,
    ) -> Self {
        Self {
            codec,
            buffers,
            lease,
            traffic,
            io: Worker::default_io(),
        }
    }

    /// Connects with the drivers of a worker.
    pub(crate) fn with_io(mut self, io: &Rc<dyn Io>) -> Self {
        self.io = Rc::clone(io);
        self
    }

    /// True when its connections carry several exchanges at a time.
    pub(crate) fn is_shared(&self) -> bool {
        self.codec.is_shared()
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The memory of a connection, beside its streams, from `lease`, which all of its memory is charged to.
    ///
    /// # Errors
    /// The budget has no room, or the client that `lease` counts for no share of it.
    pub(crate) fn reserve(&self, lease: &Lease) -> Result<Reservation, OverBudget> {
        lease.try_admit(self.codec.connection_bytes())
    }

    /// Connects, within the time that `peer` may take. `charge` is what [`Connector::reserve`] gave.
    pub(crate) async fn connect(
        &self,
        peer: Peer<'_>,
        charge: Reservation,
    ) -> Result<Box<dyn Channel>, Failure> {
        let lease = charge.lease().clone();
        match timeout(peer.timeout, self.establish(peer, &lease)).await {
            Ok(Ok(transport)) => Ok(self.codec.open(Established {
                transport,
                is_secure: peer.tls.is_some(),
                lease,
                charge,
                traffic: self.traffic.clone(),
            })),
            Ok(Err(error)) => {
                tracing::debug!(server = %peer.endpoints.server(), %error, "cannot connect");
                Err(match error {
                    EstablishError::Connect(_) => Failure::Connect,
                    EstablishError::Tls(error) => Failure::of_tls(&error),
                })
            }
            Err(_) => Err(Failure::ConnectTimeout),
        }
    }

    async fn establish(&self, peer: Peer<'_>, lease: &Lease) -> Result<Transport, EstablishError> {
        let transport = self.establish_plain(peer).await?;
        let Some(tls) = peer.tls else {
            return Ok(transport);
        };
        let host = match peer.endpoints.server() {
            ServerAddress::Name { host, .. } => Some(host.clone()),
            ServerAddress::Ip(address) => Some(address.ip().to_string()),
            ServerAddress::Unix(_) => None,
        };
        let session = tls.connect(transport, host.as_deref(), lease).await?;
        Ok(session.0)
    }

    async fn establish_plain(&self, peer: Peer<'_>) -> io::Result<Transport> {
        let endpoints = peer.endpoints;
        let socket = match (endpoints.server(), endpoints.socket_address(peer.ip)) {
            (ServerAddress::Unix(path), _) => ServerSocket::Unix(path),
            (_, Some(address)) => ServerSocket::Tcp(address),
            (_, None) => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        let mut transport = self.io.connect(socket).await?;
        self.buffers.fit(&transport);
        if let Some(version) = peer.settings.proxy_protocol {
            let header = EncodedHeader::new(version, peer.ends);
            self.write_all(&mut transport, header.as_bytes()).await?;
        }
        Ok(transport)
    }

    async fn write_all(&self, transport: &mut Transport, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| transport.poll_write(cx, &[IoSlice::new(bytes)])).await?;
            self.traffic.written(written);
            bytes = &bytes[written..];
        }
        Ok(())
    }
}
