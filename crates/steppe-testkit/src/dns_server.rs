//! A minimal DNS server: an address for each question, over UDP.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Port;

/// Answers from a port of its own until it is dropped.
#[derive(Debug)]
pub struct DnsServer {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

type Say = dyn FnMut(&str) -> Option<(Ipv4Addr, u32)> + Send;

/// Time after which the thread notices, at the latest, that the server was dropped.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl DnsServer {
    /// Starts the server. `say` returns the address of a name, with its TTL in seconds, or `None` for no response.
    /// Names are in lower case, with dots between labels and none at the end.
    ///
    /// # Panics
    /// When no port is free.
    pub fn start(say: impl FnMut(&str) -> Option<(Ipv4Addr, u32)> + Send + 'static) -> Self {
        let socket = UdpSocket::bind(Port::free().keep()).expect("is free");
        socket.set_read_timeout(Some(LOOK_EVERY)).expect("is set");
        let address = socket.local_addr().expect("is bound");
        let ends = Arc::new(AtomicBool::new(false));
        let thread = {
            let (ends, mut say) = (Arc::clone(&ends), say);
            std::thread::spawn(move || serve(&socket, &ends, &mut say))
        };
        Self {
            address,
            ends,
            thread: Some(thread),
        }
    }

    /// The address that the server answers on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, ends: &AtomicBool, say: &mut Say) {
    let mut query = [0; 1500];
    while !ends.load(Ordering::Acquire) {
        let Ok((_, peer)) = socket.recv_from(&mut query) else {
            continue;
        };
        let (name, end) = qname(&query);
        let Some((address, ttl)) = say(&name) else {
            continue;
        };
        // The question as it came; RFC 1035 §4.1.4 points to its name.
        let mut response = query[..end + 4].to_vec();
        response[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        response.extend([0xc0, 12, 0, 1, 0, 1]);
        response.extend(ttl.to_be_bytes());
        response.extend([0, 4]);
        response.extend(address.octets());
        let _ = socket.send_to(&response, peer);
    }
}

/// The name that a query asks for, and where its labels end.
fn qname(query: &[u8]) -> (String, usize) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    (labels.join("."), at + 1)
}
