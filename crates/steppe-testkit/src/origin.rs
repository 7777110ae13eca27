//! An origin that follows a script and remembers every byte that reached it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::peer::{PATIENCE, Peer, Tape, find};
use crate::tls_client::TlsLayer;
use crate::tls_server::TlsServer;
use crate::wire::Wire;

/// A scripted origin: one thread a connection, closed when its script returns.
#[derive(Debug)]
pub struct RawOrigin {
    address: SocketAddr,
    tapes: Arc<Mutex<Vec<Arc<Mutex<Tape>>>>>,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

/// The origin's end of one connection.
#[derive(Debug)]
pub struct OriginPeer {
    peer: Peer,
    /// Number of connections before this one.
    pub index: usize,
}

impl Deref for OriginPeer {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.peer
    }
}

impl DerefMut for OriginPeer {
    fn deref_mut(&mut self) -> &mut Peer {
        &mut self.peer
    }
}

impl RawOrigin {
    /// Runs `script` on each connection.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start(script: impl Fn(&mut OriginPeer) + Send + Sync + 'static) -> Self {
        Self::start_narrow(None, script)
    }

    /// As [`RawOrigin::start`], with receive buffers of about `receive_bytes`.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start_narrow(
        receive_bytes: Option<usize>,
        script: impl Fn(&mut OriginPeer) + Send + Sync + 'static,
    ) -> Self {
        let wire = Wire::of_run().credentials();
        let origin = Self::accepting(receive_bytes, wire.map(|wire| wire.server.clone()), script);
        if let Some(wire) = wire {
            wire.add_origin(origin.address());
        }
        origin
    }

    /// As [`RawOrigin::start`], over TCP in any run: beside servers that speak no TLS.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start_plain(script: impl Fn(&mut OriginPeer) + Send + Sync + 'static) -> Self {
        Self::accepting(None, None, script)
    }

    /// As [`RawOrigin::start`], above TLS. Scripts begin when a handshake is over; one that fails
    /// counts as a connection. A connection ends by `close_notify`, unless [`Peer::cut`] ended it.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start_tls(
        tls: TlsServer,
        script: impl Fn(&mut OriginPeer) + Send + Sync + 'static,
    ) -> Self {
        Self::accepting(None, Some(tls), script)
    }

    fn accepting(
        receive_bytes: Option<usize>,
        tls: Option<TlsServer>,
        script: impl Fn(&mut OriginPeer) + Send + Sync + 'static,
    ) -> Self {
        let listener = bind(receive_bytes);
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let tapes: Arc<Mutex<Vec<Arc<Mutex<Tape>>>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let script = Arc::new(script);
        let acceptor = {
            let (tapes, stop) = (Arc::clone(&tapes), Arc::clone(&stop));
            std::thread::spawn(move || accept(&listener, (&tapes, &stop), tls.as_ref(), &script))
        };
        Self {
            address,
            tapes,
            stop,
            acceptor: Some(acceptor),
        }
    }

    /// Answers each request with the same bytes and keeps the connection.
    pub fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::replying(move |_| response.clone())
    }

    /// Answers 200 to any bytes that end with an empty line, and takes all that follow as the next
    /// request, as a careless backend does with smuggled bytes.
    pub fn permissive() -> Self {
        Self::start(|peer| {
            let mut seen: Vec<u8> = Vec::new();
            loop {
                let part = peer.some();
                if part.is_empty() {
                    return;
                }
                seen.extend_from_slice(&part);
                while let Some(at) = find(&seen, b"\n\r\n") {
                    seen.drain(..at + 3);
                    if peer
                        .try_send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                        .is_err()
                    {
                        return;
                    }
                }
            }
        })
    }

    /// Answers each request with the bytes that `answer` returns for it.
    pub fn replying(answer: impl Fn(&crate::Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start(move |peer| {
            while let Some(request) = peer.request() {
                if peer.try_send(&answer(&request)).is_err() {
                    return;
                }
            }
        })
    }

    /// The address that the origin listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes of each connection so far.
    pub fn connections(&self) -> Vec<Vec<u8>> {
        self.each(|tape| tape.bytes.clone())
    }

    /// Every byte that reached the origin, connection after connection, as text.
    pub fn received(&self) -> String {
        String::from_utf8_lossy(&self.connections().concat()).into_owned()
    }

    /// Forgets the bytes of all connections so far.
    pub fn forget(&self) {
        for tape in self
            .tapes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            tape.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .bytes
                .clear();
        }
    }

    /// Number of connections accepted.
    pub fn accepted(&self) -> usize {
        self.tapes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// For each connection, true if the node closed its end.
    pub fn closed(&self) -> Vec<bool> {
        self.each(|tape| tape.closed)
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// When it doesn't in time.
    #[track_caller]
    pub fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !condition(self) {
            assert!(
                Instant::now() < until,
                "not in {PATIENCE:?}: {what}; {self:?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn each<T>(&self, take: impl Fn(&Tape) -> T) -> Vec<T> {
        let tapes = self.tapes.lock().unwrap_or_else(PoisonError::into_inner);
        tapes
            .iter()
            .map(|tape| take(&tape.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect()
    }
}

impl Drop for RawOrigin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Time that an origin waits for bytes: the node keeps connections to it open between requests.
const IDLE: Duration = Duration::from_secs(120);

fn bind(receive_bytes: Option<usize>) -> TcpListener {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
    if let Some(bytes) = receive_bytes {
        socket
            .set_recv_buffer_size(bytes)
            .expect("a receive buffer can be set");
    }
    socket.bind(&address.into()).expect("some port is free");
    socket.listen(4096).expect("a bound socket can listen");
    socket.into()
}

fn accept(
    listener: &TcpListener,
    (tapes, stop): (&Mutex<Vec<Arc<Mutex<Tape>>>>, &AtomicBool),
    tls: Option<&TlsServer>,
    script: &Arc<impl Fn(&mut OriginPeer) + Send + Sync + 'static>,
) {
    while let Ok((stream, _)) = listener.accept() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let tape = Arc::new(Mutex::new(Tape::default()));
        let index = {
            let mut tapes = tapes.lock().unwrap_or_else(PoisonError::into_inner);
            tapes.push(Arc::clone(&tape));
            tapes.len() - 1
        };
        let (script, tls) = (Arc::clone(script), tls.cloned());
        std::thread::spawn(move || {
            let Some(peer) = introduce(stream, &tape, tls.as_ref()) else {
                return;
            };
            let mut peer = OriginPeer { peer, index };
            peer.patience(IDLE);
            script(&mut peer);
            peer.say_goodbye();
        });
    }
}

/// The origin's end of a connection; `None` if the TLS handshake fails.
fn introduce(stream: TcpStream, tape: &Arc<Mutex<Tape>>, tls: Option<&TlsServer>) -> Option<Peer> {
    let session = match tls.map(|tls| tls.handshake(&stream)).transpose() {
        Ok(session) => session,
        Err(_) => {
            tape.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
            return None;
        }
    };
    let peer = Peer::over(stream, Some(Arc::clone(tape)));
    Some(match session {
        Some(session) => peer.with_tls(TlsLayer::new(session)),
        None => peer,
    })
}
