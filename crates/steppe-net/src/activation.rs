//! Sockets that the service manager opened before this process began (socket activation).
//!
//! While no process accepts, as during a restart, connections wait in the socket's accept queue,
//! and the process needs no privilege to bind low ports.
//!
//! Invariant: descriptors are adopted once, by the process that `LISTEN_PID` names, and stay open
//! until [`Inherited`] is dropped, so that a reload can remove a listener and add it again. The
//! file of an inherited Unix socket belongs to the manager, and is never removed here.
//!
//! Non-goals: accepted connections (`Accept=yes`) and datagram sockets; [`Inherited::unused`]
//! lists both.
//!
//! Spec: `sd_listen_fds(3)`.

mod sys;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, Socket, Type};

use crate::address::ListenAddress;
use crate::listener::{BindError, BoundListener, bind};

/// The sockets that this process inherited. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Inherited(Arc<[InheritedSocket]>);

#[derive(Debug)]
struct InheritedSocket {
    /// Name in the manager's configuration, for logs.
    name: String,
    socket: Socket,
    /// `None` if it is not a listening stream socket.
    address: Option<ListenAddress>,
    is_used: AtomicBool,
}

impl Inherited {
    /// Adopts the descriptors that the environment names, and removes those variables, so that no
    /// child process adopts them too.
    ///
    /// Call it before any thread is started: otherwise the variables stay.
    #[must_use]
    pub fn take() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let count = announced(
            variable("LISTEN_PID").as_deref(),
            variable("LISTEN_FDS").as_deref(),
            std::process::id(),
        );
        let names = variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').map(str::to_owned);
        let sockets = sys::take_sockets(count)
            .into_iter()
            .map(|socket| InheritedSocket {
                name: names.next().unwrap_or_else(|| "unknown".to_owned()),
                address: listen_address(&socket),
                socket,
                is_used: AtomicBool::new(false),
            });
        let inherited = Self(sockets.collect());
        sys::clear_variables(&["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]);
        inherited
    }

    /// Like [`bind`], but uses inherited sockets of this address if there are any.
    ///
    /// Workers share a single socket; several of one address (`ReusePort=yes`) are assigned to
    /// workers round robin.
    ///
    /// # Errors
    /// [`BindError`]; with more sockets than workers, some would queue connections that no worker
    /// accepts.
    pub fn bind(
        &self,
        address: &ListenAddress,
        workers: usize,
    ) -> Result<Vec<BoundListener>, BindError> {
        let is_here = |socket: &&InheritedSocket| socket.address.as_ref() == Some(address);
        let sockets: Vec<_> = self.0.iter().filter(is_here).collect();
        if sockets.is_empty() {
            return bind(address, workers);
        }
        if sockets.len() > workers {
            return Err(BindError::MoreInherited {
                address: address.clone(),
                sockets: sockets.len(),
                workers,
            });
        }
        let system = |source| BindError::System {
            address: address.clone(),
            source,
        };
        let share = |socket: &&InheritedSocket| socket.share(address).map_err(system);
        sockets.iter().cycle().take(workers).map(share).collect()
    }

    /// Sockets that no listener uses: name and address of each.
    #[must_use]
    pub fn unwanted(&self) -> Vec<String> {
        let is_unwanted = |socket: &&InheritedSocket| !socket.is_used.load(Ordering::Relaxed);
        let unwanted = self.0.iter().filter(is_unwanted);
        unwanted.map(ToString::to_string).collect()
    }
}

impl InheritedSocket {
    /// Duplicates its descriptor for one worker.
    fn share(&self, address: &ListenAddress) -> io::Result<BoundListener> {
        self.is_used.store(true, Ordering::Relaxed);
        let socket = self.socket.try_clone()?;
        socket.set_nonblocking(true)?;
        if matches!(address, ListenAddress::Tcp(_)) {
            // Accepted sockets inherit it, as from sockets that the node binds.
            socket.set_tcp_nodelay(true)?;
        }
        Ok(BoundListener::inherited(socket, address.clone()))
    }
}

impl fmt::Display for InheritedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(f, "{} ({address})", self.name),
            None => write!(f, "{} (not a listening stream socket)", self.name),
        }
    }
}

/// The number of sockets passed to the process `id`.
fn announced(listen_pid: Option<&str>, listen_fds: Option<&str>, id: u32) -> u16 {
    let is_ours = listen_pid.and_then(|pid| pid.parse().ok()) == Some(id);
    let count = listen_fds.and_then(|count| count.parse().ok());
    if is_ours { count.unwrap_or(0) } else { 0 }
}

fn listen_address(socket: &Socket) -> Option<ListenAddress> {
    let is_stream = socket.r#type().ok()? == Type::STREAM;
    if !is_stream || !socket.is_listener().ok()? {
        return None;
    }
    let address = socket.local_addr().ok()?;
    match socket.domain().ok()? {
        Domain::UNIX => address
            .as_pathname()
            .map(|path| ListenAddress::Unix(path.to_owned())),
        _ => address.as_socket().map(ListenAddress::Tcp),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

    use super::*;

    fn inherited(sockets: impl IntoIterator<Item = Socket>) -> Inherited {
        let sockets = sockets.into_iter().map(|socket| InheritedSocket {
            name: "web".to_owned(),
            address: listen_address(&socket),
            socket,
            is_used: AtomicBool::new(false),
        });
        Inherited(sockets.collect())
    }

    fn listening() -> (Socket, ListenAddress) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let address = listener.local_addr().expect("bound");
        (listener.into(), ListenAddress::Tcp(address))
    }

    #[test]
    fn only_what_is_meant_for_this_process_counts() {
        assert_eq!(announced(Some("7"), Some("2"), 7), 2);
        assert_eq!(announced(Some("7"), Some("2"), 8), 0);
        assert_eq!(announced(None, Some("2"), 8), 0);
        assert_eq!(announced(Some("7"), None, 7), 0);
        assert_eq!(announced(Some("7"), Some("-1"), 7), 0);
    }

    #[test]
    fn every_worker_shares_the_inherited_socket_which_then_is_used() {
        let (socket, address) = listening();
        let inherited = inherited([socket]);
        assert_eq!(inherited.unwanted(), [format!("web ({address})")]);
        let bound = inherited.bind(&address, 3).expect("inherited");
        assert_eq!(bound.len(), 3);
        assert_eq!(inherited.unwanted(), [""; 0]);
        drop(bound);
        inherited.bind(&address, 1).expect("it may come back");
    }

    #[test]
    fn another_address_is_bound_as_ever() {
        let (socket, address) = listening();
        let inherited = inherited([socket]);
        let any = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let bound = inherited.bind(&any, 1).expect("loopback");
        assert_ne!(*bound[0].address(), address);
        assert_eq!(inherited.unwanted().len(), 1);
    }

    #[test]
    fn more_sockets_than_workers_are_refused() {
        let (socket, address) = listening();
        let twin = socket.try_clone().expect("descriptors");
        let refused = inherited([socket, twin]).bind(&address, 1);
        assert_eq!(
            refused.expect_err("one would wait for ever").to_string(),
            format!("2 inherited sockets listen on {address}, more than the 1 workers"),
        );
    }

    #[test]
    fn a_socket_that_is_no_listener_is_unwanted() {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let inherited = inherited([udp.into()]);
        assert_eq!(
            inherited.unwanted(),
            ["web (not a listening stream socket)"]
        );
    }
}
