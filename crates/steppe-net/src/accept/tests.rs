//! A toy service over sockets of loopback: connections that are admitted, introduced, refused, retired and drained.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use steppe_mem::{Budget, ClientAddress, ClientReport, Holding, Lease};
use steppe_testkit::virtual_time::{pass, run, settle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use super::*;
use crate::address::{ListenAddress, SocketKey};
use crate::deadline::Deadlines;
use crate::drain::{Drain, Phase};
use crate::limits::DRAIN_GRACE;
use crate::listener::{BoundListener, bind};
use crate::stream::PeerAddress;
use crate::transport::Transport;
use crate::worker::Worker;

const NO_ROOM: &[u8] = b"full\n";
const CONNECTION_BYTES: usize = 1000;
const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\nrest";
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// A worker, its toy service, and what became of connections.
struct Site {
    worker: Rc<Worker>,
    budget: Budget,
    state: Rc<State>,
}

struct State {
    budget: Budget,
    lease: Lease,
    limit: SessionLimit,
    has_header: Cell<bool>,
    trusts: Cell<bool>,
    served: RefCell<Vec<Accepted<ToySession>>>,
    refused: RefCell<Vec<String>>,
}

struct ToySession(Admitted);

struct Toy {
    admission: Admission,
    state: Rc<State>,
}

impl AsMut<Admitted> for ToySession {
    fn as_mut(&mut self) -> &mut Admitted {
        &mut self.0
    }
}

impl State {
    fn admit(&self, admission: &Admission, client: ClientAddress) -> Result<Admitted, Refused> {
        admission.admit(SessionRequest {
            limit: Some(&self.limit),
            clients: self.budget.clients(),
            client,
            kind: "toy",
            lease: &self.lease,
            bytes: CONNECTION_BYTES,
        })
    }
}

impl SessionService for Toy {
    fn admission(&self) -> &Admission {
        &self.admission
    }
}

impl ConnectionService for Toy {
    type Session = ToySession;

    fn admit(&self, peer: PeerAddress, _: &Transport) -> Result<ToySession, Refused> {
        let client = ClientAddress::Shared(peer.ip());
        let admitted = self.state.admit(&self.admission, client);
        admitted.map(ToySession)
    }

    fn preamble(&self, _: &ToySession) -> Option<Preamble> {
        self.state.has_header.get().then(|| Preamble {
            header: Some(HeaderLimits {
                timeout: HEADER_TIMEOUT,
                read_bytes: 4096,
            }),
            tls: None,
            lease: self.state.lease.clone(),
            no_room: NO_ROOM,
        })
    }

    fn trusts(&self, _: PeerAddress) -> bool {
        self.state.trusts.get()
    }

    fn hold(&self, client: PeerAddress) -> Holding {
        let client = ClientAddress::Shared(client.ip());
        self.state.budget.clients().open(client, "toy")
    }

    fn establish(&self, _: &mut ToySession, _: Established) -> Result<(), Refused> {
        unreachable!("it speaks no TLS")
    }

    fn serve(&self, connection: Accepted<ToySession>) {
        self.state.served.borrow_mut().push(connection);
    }

    fn refused(&self, reason: &Refused) {
        self.state.refused.borrow_mut().push(reason.to_string());
    }

    fn no_room(&self) -> Option<&'static [u8]> {
        Some(NO_ROOM)
    }
}

impl Site {
    fn new(connections: usize) -> Self {
        let worker = Rc::new(Worker {
            index: 0,
            deadlines: Deadlines::default(),
            drain: Drain::default(),
            io: Worker::default_io(),
        });
        let deadlines = worker.deadlines.clone();
        spawn_local(async move { deadlines.run().await });
        let budget = Budget::new(1 << 20);
        let state = State {
            budget: budget.clone(),
            lease: budget.root().client_lease(),
            limit: SessionLimit {
                count: Arc::default(),
                max: connections,
            },
            has_header: Cell::new(false),
            trusts: Cell::new(true),
            served: RefCell::default(),
            refused: RefCell::default(),
        };
        Self {
            worker,
            budget,
            state: Rc::new(state),
        }
    }

    /// Has `listeners` accept at a port of their own.
    fn listen(&self, listeners: &mut ListenerSet<Toy>) -> SocketAddr {
        let bound = bound();
        let ListenAddress::Tcp(address) = *bound.address() else {
            unreachable!("it was bound to TCP")
        };
        let key = SocketKey::stream(ListenAddress::Tcp(address));
        listeners.open(key, bound, |admission| Toy {
            admission,
            state: Rc::clone(&self.state),
        });
        address
    }

    /// Addresses of the clients that are served.
    fn served(&self) -> Vec<String> {
        let served = self.state.served.borrow();
        let peers = served.iter().map(|connection| connection.ends.peer);
        peers.map(|peer| peer.ip().to_string()).collect()
    }

    fn refused(&self) -> Vec<String> {
        self.state.refused.borrow().clone()
    }
}

fn bound() -> BoundListener {
    let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    bind(&any, 1).expect("loopback").remove(0)
}

async fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).await.expect("it listens");
    settle().await;
    client
}

/// All that `client` is sent until the end.
async fn read(client: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    client.read_to_end(&mut read).await.expect("no reset");
    read
}

#[test]
fn connections_count_and_are_charged_until_they_end() {
    run(async {
        let site = Site::new(1);
        let mut listeners = ListenerSet::new(&site.worker);
        let address = site.listen(&mut listeners);
        let _first = connect(address).await;
        assert_eq!(site.served(), ["127.0.0.1"]);
        assert!(site.budget.root().reserved_bytes() >= CONNECTION_BYTES as u64);
        let mut second = connect(address).await;
        assert_eq!(read(&mut second).await, NO_ROOM);
        assert_eq!(site.refused(), ["too many connections"]);
        site.state.served.borrow_mut().clear();
        assert_eq!(site.state.limit.count.open(), 0);
        assert_eq!(site.budget.root().reserved_bytes(), 0);
        let _third = connect(address).await;
        assert_eq!(site.served().len(), 1);
    });
}

#[test]
fn a_budget_without_room_refuses_connections_and_counts_none() {
    run(async {
        let site = Site::new(10);
        let mut listeners = ListenerSet::new(&site.worker);
        let address = site.listen(&mut listeners);
        let everything = site.budget.root().lease().try_reserve(1 << 20);
        let mut client = connect(address).await;
        assert_eq!(read(&mut client).await, NO_ROOM);
        assert_eq!(site.refused(), ["over budget"]);
        assert_eq!(site.state.limit.count.open(), 0);
        drop(everything);
        let _client = connect(address).await;
        assert_eq!(site.served().len(), 1);
    });
}

#[test]
fn a_proxy_header_names_the_client() {
    run(async {
        let site = Site::new(10);
        site.state.has_header.set(true);
        let mut listeners = ListenerSet::new(&site.worker);
        let address = site.listen(&mut listeners);
        let mut proxy = connect(address).await;
        proxy.write_all(&HEADER[..10]).await.expect("room");
        settle().await;
        assert!(site.served().is_empty(), "the header is not whole");
        proxy.write_all(&HEADER[10..]).await.expect("room");
        settle().await;
        let served = site.state.served.borrow_mut().pop().expect("it is served");
        let destination = served.ends.destination.map(|address| address.to_string());
        assert_eq!(served.ends.peer.ip().to_string(), "192.0.2.7");
        assert_eq!(destination.as_deref(), Some("198.51.100.1:443"));
        assert_eq!(served.pending.expect("it was read").filled(), b"rest");
        let clients = ClientReport::top(site.budget.clients(), 10);
        let clients: Vec<_> = clients.iter().map(|report| report.client).collect();
        assert_eq!(clients, ["192.0.2.7".parse().ok()]);
    });
}

#[test]
fn connections_without_a_proxy_header_are_refused() {
    run(async {
        let site = Site::new(10);
        site.state.has_header.set(true);
        let mut listeners = ListenerSet::new(&site.worker);
        let address = site.listen(&mut listeners);
        let mut malformed = connect(address).await;
        malformed
            .write_all(b"GET / HTTP/1.1\r\n")
            .await
            .expect("room");
        drop(connect(address).await);
        settle().await;
        let closed = "connection closed by the proxy before the end of its PROXY header";
        let mut refused = site.refused();
        refused.sort();
        assert_eq!(refused, [closed, "malformed PROXY protocol header"]);
        let _silent = connect(address).await;
        pass(HEADER_TIMEOUT - Duration::from_secs(1)).await;
        assert_eq!(site.refused().len(), 2);
        pass(Duration::from_secs(2)).await;
        assert_eq!(site.refused()[2], "no PROXY protocol header in time");
        site.state.trusts.set(false);
        let mut untrusted = connect(address).await;
        untrusted.write_all(HEADER).await.expect("room");
        settle().await;
        assert_eq!(site.refused()[3], "peer is not a trusted proxy");
        assert!(site.served().is_empty());
        assert_eq!(site.state.limit.count.open(), 0);
    });
}

#[test]
fn a_drain_leaves_a_proxy_header_its_grace() {
    run(async {
        let site = Site::new(10);
        site.state.has_header.set(true);
        let mut listeners = ListenerSet::new(&site.worker);
        let address = site.listen(&mut listeners);
        let (_silent, mut slow) = (connect(address).await, connect(address).await);
        listeners.retain(|_, _| false).close().await;
        pass(DRAIN_GRACE / 2).await;
        slow.write_all(HEADER).await.expect("room");
        settle().await;
        assert_eq!(site.served(), ["192.0.2.7"]);
        pass(DRAIN_GRACE).await;
        assert_eq!(site.refused(), ["no PROXY protocol header in time"]);
    });
}

#[test]
fn a_listener_that_is_retired_serves_its_queue_and_others_go_on() {
    run(async {
        let site = Site::new(10);
        let mut listeners = ListenerSet::new(&site.worker);
        let (stays, goes) = (site.listen(&mut listeners), site.listen(&mut listeners));
        // The kernel completes it; the acceptor has had no turn since.
        let queued = std::net::TcpStream::connect(goes).expect("it listens");
        let retired = listeners.retain(|key, _| key.address == ListenAddress::Tcp(stays));
        retired.close().await;
        assert_eq!(site.served().len(), 1, "the queue is empty");
        let served = site.state.served.borrow_mut().pop().expect("a connection");
        assert!(TcpStream::connect(goes).await.is_err(), "it is closed");
        let _client = connect(stays).await;
        assert_eq!(site.served().len(), 1);
        drop((queued, served));
    });
}

#[test]
fn a_drain_waits_for_sessions_that_are_no_byte_streams() {
    run(async {
        let site = Site::new(2);
        let mut listeners = ListenerSet::new(&site.worker);
        let address = site.listen(&mut listeners);
        let admission = RefCell::new(None);
        let _ = listeners.retain(|_, toy| {
            admission.replace(Some(toy.admission.clone()));
            true
        });
        let admission = admission.take().expect("there is a listener");
        let client = ClientAddress::Shared(Ipv4Addr::new(192, 0, 2, 1).into());
        let session = site.state.admit(&admission, client).expect("room");
        let connection = connect(address).await;
        let refused = site.state.admit(&admission, client).expect_err("no room");
        assert_eq!(refused.to_string(), "too many connections");
        let draining = spawn_local(listeners.shut_down());
        settle().await;
        assert!(admission.drain().is_draining(), "the session is told");
        site.state.served.borrow_mut().clear();
        drop(connection);
        settle().await;
        assert!(!draining.is_finished(), "the session is open");
        drop(session);
        let drained = draining.await.expect("it ends");
        assert_eq!((drained.open, drained.dropped), (2, 0));
    });
}

#[test]
fn a_drain_that_times_out_counts_what_it_drops() {
    run(async {
        let site = Site::new(2);
        let mut listeners = ListenerSet::new(&site.worker);
        let address = site.listen(&mut listeners);
        let (_first, _second) = (connect(address).await, connect(address).await);
        let draining = spawn_local(listeners.shut_down());
        settle().await;
        site.state.served.borrow_mut().pop();
        site.worker.drain.enter(Phase::Stopped);
        let drained = draining.await.expect("it ends");
        assert_eq!((drained.open, drained.dropped), (2, 1));
    });
}
