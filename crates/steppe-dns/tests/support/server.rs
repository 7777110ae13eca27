//! A DNS server for tests, with responses from the test.

use std::collections::HashSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use steppe_testkit::Port;

/// Transport of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Udp,
    Tcp,
}

/// A query as received.
#[derive(Debug, Clone)]
pub struct Asked {
    pub by: By,
    pub from: SocketAddr,
    pub bytes: Vec<u8>,
}

/// A server that runs until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<Asked>>>,
    ends: Arc<AtomicBool>,
    /// Number of further connections to reset.
    resets: usize,
    threads: Vec<JoinHandle<()>>,
}

/// Returns the messages to send for a query, in this order; empty for no response.
pub type Say = dyn Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync;

impl Server {
    pub fn start(say: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::start_at(Port::free().keep(), say)
    }

    pub fn start_at(
        address: SocketAddr,
        say: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let say: Arc<Say> = Arc::new(say);
        let tcp = TcpListener::bind(address).expect("is free");
        let mut server = Self::serving_udp(address, &say);
        server.serve_tcp(tcp, say);
        server
    }

    /// A server that refuses TCP connections.
    pub fn start_without_tcp(say: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let say: Arc<Say> = Arc::new(say);
        Self::serving_udp(Port::free().keep(), &say)
    }

    /// A server over TCP only, which resets its first `resets` connections.
    pub fn start_with_resets(
        resets: usize,
        say: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let address = Port::free().keep();
        let tcp = TcpListener::bind(address).expect("is free");
        let mut server = Self {
            address,
            log: Arc::default(),
            ends: Arc::default(),
            resets,
            threads: Vec::new(),
        };
        server.serve_tcp(tcp, Arc::new(say));
        server
    }

    fn serving_udp(address: SocketAddr, say: &Arc<Say>) -> Self {
        let udp = UdpSocket::bind(address).expect("is free");
        udp.set_read_timeout(Some(LOOK_EVERY)).expect("is set");
        let (log, ends) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let of_udp = {
            let (log, ends, say) = (Arc::clone(&log), Arc::clone(&ends), Arc::clone(say));
            std::thread::spawn(move || serve_udp(&udp, &log, &ends, &*say))
        };
        Self {
            address,
            log,
            ends,
            resets: 0,
            threads: vec![of_udp],
        }
    }

    fn serve_tcp(&mut self, listener: TcpListener, say: Arc<Say>) {
        listener.set_nonblocking(true).expect("is set");
        let shared = Shared {
            log: Arc::clone(&self.log),
            ends: Arc::clone(&self.ends),
            say,
        };
        let resets = self.resets;
        let of_tcp = std::thread::spawn(move || serve_tcp(&listener, resets, &shared));
        self.threads.push(of_tcp);
    }

    /// All queries so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.log.lock().expect("no test failed there").clone()
    }

    /// The number of queries so far.
    pub fn asked_count(&self) -> usize {
        self.log.lock().expect("no test failed there").len()
    }

    /// Source ports of the queries.
    pub fn ports(&self) -> HashSet<u16> {
        self.asked().iter().map(|asked| asked.from.port()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(5);

type Log = Mutex<Vec<Asked>>;

fn note(log: &Log, asked: &Asked) {
    log.lock()
        .expect("no test failed there")
        .push(asked.clone());
}

fn serve_udp(socket: &UdpSocket, log: &Log, ends: &AtomicBool, say: &Say) {
    let mut buffer = [0; 65_535];
    while !ends.load(Ordering::Acquire) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let asked = Asked {
            by: By::Udp,
            from,
            bytes: buffer[..len].to_vec(),
        };
        note(log, &asked);
        for response in say(&asked) {
            let _ = socket.send_to(&response, from);
        }
    }
}

/// State of a server that its connections share.
struct Shared {
    log: Arc<Log>,
    ends: Arc<AtomicBool>,
    say: Arc<Say>,
}

fn serve_tcp(listener: &TcpListener, mut resets: usize, shared: &Shared) {
    let Shared { log, ends, say } = shared;
    while !ends.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((stream, _)) if resets > 0 => {
                resets -= 1;
                // With a linger time of zero, closing sends RST.
                let stream = socket2::Socket::from(stream);
                stream.set_linger(Some(Duration::ZERO)).expect("is set");
            }
            Ok((stream, from)) => {
                let (log, ends, say) = (Arc::clone(log), Arc::clone(ends), Arc::clone(say));
                std::thread::spawn(move || serve_stream(stream, from, &log, &ends, &*say));
            }
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn serve_stream(mut stream: TcpStream, from: SocketAddr, log: &Log, ends: &AtomicBool, say: &Say) {
    stream.set_nonblocking(false).expect("is set");
    stream.set_read_timeout(Some(LOOK_EVERY)).expect("is set");
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    while !ends.load(Ordering::Acquire) {
        match stream.read(&mut room) {
            Ok(0) => return,
            Ok(len) => bytes.extend_from_slice(&room[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
        while let Some(message) = take_message(&mut bytes) {
            let asked = Asked {
                by: By::Tcp,
                from,
                bytes: message,
            };
            note(log, &asked);
            for response in say(&asked) {
                let len = u16::try_from(response.len()).expect("a message");
                let framed = [&len.to_be_bytes()[..], &response].concat();
                if stream.write_all(&framed).is_err() {
                    return;
                }
            }
        }
    }
}

/// Takes the first message from the bytes of a stream.
pub fn take_message(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes(*bytes.first_chunk::<2>()?));
    let message = bytes.get(2..2 + len)?.to_vec();
    bytes.drain(..2 + len);
    Some(message)
}

/// A response with the question of the query, and these records.
pub fn answered(query: &[u8], flags: u16, answers: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut end = 12;
    while query[end] != 0 {
        end += 1 + usize::from(query[end]);
    }
    end += 5;
    let mut response = query[..end].to_vec();
    response[2..4].copy_from_slice(&(0x8180 | flags).to_be_bytes());
    let count = u16::try_from(answers.len()).expect("few");
    response[6..8].copy_from_slice(&count.to_be_bytes());
    response[8..12].fill(0);
    for (rtype, ttl, data) in answers {
        response.extend([0xc0, 12]);
        response.extend(rtype.to_be_bytes());
        response.extend([0, 1]);
        response.extend(ttl.to_be_bytes());
        response.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
        response.extend(*data);
    }
    response
}
