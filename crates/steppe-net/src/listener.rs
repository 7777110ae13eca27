//! Listening sockets: one per worker for TCP (`SO_REUSEPORT`), one shared for a Unix path.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use crate::address::{ListenAddress, SocketKey};
use crate::limits::BACKLOG;
use crate::stream::{PeerAddress, Stream};

/// A listening socket that no runtime polls yet.
#[derive(Debug)]
pub struct BoundListener {
    socket: Socket,
    address: ListenAddress,
    path: Option<Arc<SocketPath>>,
}

/// A listening socket registered with a worker's runtime.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    _path: Option<Arc<SocketPath>>,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Removes the socket's file when the last worker has closed it.
#[derive(Debug)]
struct SocketPath(PathBuf);

/// Why an address can't be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{0} is in use by another process")]
    Taken(ListenAddress),
    /// The path exists and is no socket: removing it could lose a file.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// Some of the sockets would queue connections that no worker accepts.
    #[error("{sockets} inherited sockets listen on {address}, more than the {workers} workers")]
    MoreInherited {
        /// Where.
        address: ListenAddress,
        /// Number of sockets.
        sockets: usize,
        /// Number of workers.
        workers: usize,
    },
    /// Any other error of the system.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// Where.
        address: ListenAddress,
        /// The system's error.
        source: io::Error,
    },
    /// A configuration asks for it twice.
    #[error("{0} is listened on twice")]
    Duplicate(SocketKey),
    /// Another service listens there, and gives it up by this change at the earliest.
    #[error("{0} is in use by another service of this node; reload once without it first")]
    OfAnotherService(SocketKey),
    /// This node listens at an address that takes the other one.
    #[error("{key} overlaps {held}, where this node itself listens")]
    Overlaps {
        /// The socket that was asked for.
        key: SocketKey,
        /// The one that the node has.
        held: SocketKey,
    },
    /// Datagrams are received by UDP alone.
    #[error("{}: datagrams over a Unix socket are not supported", .0.display())]
    UnixDatagram(PathBuf),
}

impl BindError {
    /// The meaning of the system's refusal to bind `address`.
    pub(crate) fn of(address: &ListenAddress, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::AddrInUse => Self::Taken(address.clone()),
            _ => Self::System {
                address: address.clone(),
                source,
            },
        }
    }
}

/// Binds `address` once for each of `workers`.
///
/// # Errors
/// [`BindError`]; no socket stays bound then.
pub fn bind(address: &ListenAddress, workers: usize) -> Result<Vec<BoundListener>, BindError> {
    let bound = match address {
        ListenAddress::Tcp(tcp) => bind_tcp(*tcp, workers),
        ListenAddress::Unix(path) => bind_unix(path, workers)?,
    };
    bound.map_err(|source| BindError::of(address, source))
}

/// Checks that `address` could be bound now. The socket is closed again.
pub(crate) fn probe_stream(address: &ListenAddress) -> Result<(), BindError> {
    match address {
        ListenAddress::Tcp(tcp) => tcp_socket(*tcp, Port::Exclusive)
            .map(drop)
            .map_err(|source| BindError::of(address, source)),
        ListenAddress::Unix(path) => probe_unix(path),
    }
}

/// The folder of a socket is not looked at.
fn probe_unix(path: &Path) -> Result<(), BindError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(BindError::NotASocket(path.to_owned())),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            Err(BindError::Taken(ListenAddress::Unix(path.to_owned())))
        }
        // A stale file, or none.
        _ => Ok(()),
    }
}

fn bind_tcp(address: SocketAddr, workers: usize) -> io::Result<Vec<BoundListener>> {
    // SO_REUSEPORT lets any process of the same user share the port: without this
    // probe a second node would take half of the first one's connections.
    drop(tcp_socket(address, Port::Exclusive)?);
    let first = tcp_socket(address, Port::Shared)?;
    // The system chooses port 0 for the first socket; the others share its choice.
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(tcp_socket(address, Port::Shared)?);
    }
    let listen = |socket: Socket| {
        socket.listen(BACKLOG)?;
        Ok(BoundListener {
            socket,
            address: ListenAddress::Tcp(address),
            path: None,
        })
    };
    sockets.into_iter().map(listen).collect()
}

/// Permission for other sockets to listen on the same port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Shared,
    Exclusive,
}

fn tcp_socket(address: SocketAddr, port: Port) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(port == Port::Shared)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit it, which saves a system call per connection.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    if port == Port::Exclusive {
        // With SO_REUSEADDR, bind succeeds beside a listener; only listen fails.
        socket.listen(1)?;
    }
    Ok(socket)
}

fn bind_unix(path: &Path, workers: usize) -> Result<io::Result<Vec<BoundListener>>, BindError> {
    let address = ListenAddress::Unix(path.to_owned());
    probe_unix(path)?;
    // A stale file of a process that was killed; or there is none.
    _ = std::fs::remove_file(path);
    let bound = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::unix(path)?)?;
        socket.listen(BACKLOG)?;
        let path = Some(Arc::new(SocketPath(path.to_owned())));
        let share = |_| {
            let socket = socket.try_clone()?;
            Ok(BoundListener {
                socket,
                address: address.clone(),
                path: path.clone(),
            })
        };
        (0..workers).map(share).collect()
    };
    Ok(bound())
}

impl BoundListener {
    /// A socket that listens already; its file, if any, belongs to the service manager.
    pub(crate) fn inherited(socket: Socket, address: ListenAddress) -> Self {
        Self {
            socket,
            address,
            path: None,
        }
    }

    /// The address it listens on, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Registers it with the runtime of the calling thread.
    ///
    /// # Errors
    /// When it can't be registered.
    pub fn into_listener(self) -> io::Result<Listener> {
        let kind = match self.address {
            ListenAddress::Tcp(_) => Kind::Tcp(TcpListener::from_std(self.socket.into())?),
            ListenAddress::Unix(_) => Kind::Unix(UnixListener::from_std(self.socket.into())?),
        };
        Ok(Listener {
            kind,
            _path: self.path,
        })
    }
}

impl Listener {
    /// Accepts the next connection.
    ///
    /// # Errors
    /// The system's; after `EMFILE` and the like the connection stays queued.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, PeerAddress)>> {
        let accepted = match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, peer) = ready!(listener.poll_accept(cx))?;
                (Stream::Tcp(stream), PeerAddress::Ip(peer))
            }
            Kind::Unix(listener) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                (Stream::Unix(stream), PeerAddress::Local)
            }
        };
        Poll::Ready(Ok(accepted))
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn any_port(ip: impl Into<std::net::IpAddr>) -> ListenAddress {
        ListenAddress::Tcp(SocketAddr::new(ip.into(), 0))
    }

    #[test]
    fn workers_share_a_port_and_a_second_node_is_told() {
        let bound = bind(&any_port(Ipv4Addr::LOCALHOST), 3).expect("loopback");
        assert_eq!(bound.len(), 3);
        let address = bound[0].address().clone();
        assert!(bound.iter().all(|listener| *listener.address() == address));
        let again = bind(&address, 1).expect_err("taken");
        assert_eq!(
            again.to_string(),
            format!("{address} is in use by another process")
        );
    }

    #[test]
    fn the_unspecified_ipv6_address_is_dual_stack() {
        let bound = bind(&any_port(Ipv6Addr::UNSPECIFIED), 1).expect("IPv6");
        let ListenAddress::Tcp(address) = bound[0].address() else {
            panic!("not TCP")
        };
        let v4 = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port());
        std::net::TcpStream::connect(v4).expect("IPv4 reaches it");
    }

    #[test]
    fn a_stale_socket_file_is_replaced_and_other_files_are_kept() {
        let folder = std::env::temp_dir().join(format!("steppe-listener-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary folder");
        let (socket, file) = (folder.join("s"), folder.join("f"));
        drop(std::os::unix::net::UnixListener::bind(&socket).expect("leaves its file behind"));
        std::fs::write(&file, "precious").expect("writes");
        let bound = bind(&ListenAddress::Unix(socket.clone()), 2).expect("replaces");
        assert!(matches!(
            bind(&ListenAddress::Unix(socket.clone()), 1),
            Err(BindError::Taken(_))
        ));
        drop(bound);
        assert!(!socket.exists(), "the last worker removes it");
        assert!(matches!(
            bind(&ListenAddress::Unix(file), 1),
            Err(BindError::NotASocket(_))
        ));
        std::fs::remove_dir_all(folder).expect("cleans up");
    }
}
