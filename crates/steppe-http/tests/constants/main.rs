//! Charges of connections and exchanges, against the memory that they take, by the allocator's counters.
//!
//! Leaves out what the C library of the cryptography allocates, which these counters do not show.
//!
//! A binary of its own: the allocator counts for the whole process, by thread.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod http2;
#[path = "../support/in_process.rs"]
mod in_process;
mod running;

use std::alloc::System;
use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use steppe_http::config::ListenerTls;
use steppe_mem::alloc::Counted;
use steppe_net::tls::config::{
    CertificateFiles, ClientAuth, ClientTrust, ListenerConfig, MinVersion, RevocationPolicy,
};
use steppe_testkit::{Authority, Leaf, Peer, RawOrigin, Scratch, TlsClient};

use running::{Before, Running, Sides};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// With a certificate for `a`.
fn tls(scratch: &Scratch, authority: &Authority, client: ClientAuth) -> ListenerTls {
    let issued = authority.issue(&Leaf::named(&["a"]));
    let (cert, key) = (scratch.path().join("a.crt"), scratch.path().join("a.key"));
    std::fs::write(&cert, &issued.cert).expect("writes");
    std::fs::write(&key, &issued.key).expect("writes");
    ListenerTls {
        session: ListenerConfig {
            certificates: vec![CertificateFiles {
                cert,
                key,
                ocsp: None,
            }],
            min_version: MinVersion::Tls12,
            client,
            ticket_keys: None,
            alpn: vec![b"http/1.1".to_vec()],
        },
        strict_transport_security: None,
    }
}

/// Answers requests but those for `/never`.
fn origin() -> RawOrigin {
    RawOrigin::start(|peer| {
        while let Some(head) = peer.head() {
            match head.target() {
                "/never" => {}
                "/slow" => {
                    thread::sleep(Duration::from_millis(1500));
                    peer.send(OK);
                }
                _ => _ = peer.send(OK),
            }
        }
    })
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const ANSWERED: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
const WAITING: &str = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n";
const POSTED: &str = "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nok";

fn read_answer(stream: &mut TcpStream) {
    let mut answer = [0; 1024];
    let mut filled = 0;
    while !answer[..filled].ends_with(b"ok") {
        let count = stream.read(&mut answer[filled..]).expect("reads");
        assert!(
            count > 0,
            "closed after {:?}",
            answer[..filled].escape_ascii().to_string()
        );
        filled += count;
    }
}

#[test]
fn connections_and_exchanges_are_charged_with_what_they_take() {
    let running = Running::start(Sides::of_http1(origin()));
    // Stocks, tables and what is made once.
    for request in [SLOW, WAITING] {
        let mut warm = running.connections(request, |_| ());
        if request == SLOW {
            warm.iter_mut().for_each(read_answer);
        }
        running.taken();
        drop(warm);
    }
    let before = Before::of(&running);
    let idle = running.connections(ANSWERED, read_answer);
    before.is_covered("an idle connection");
    drop(idle);
    let before = Before::of(&running);
    let waiting = running.connections(WAITING, |_| ());
    before.is_covered("a request that waits for its response");
    drop(waiting);
    let before = Before::of(&running);
    let posted = running.connections(POSTED, |_| ());
    before.is_covered("a request whose content is to come");
    drop(posted);
}

#[test]
fn sessions_and_handshakes_are_charged_with_what_they_take() {
    let scratch = Scratch::new("constants");
    let authority = Authority::new("clients");
    let ca = scratch.path().join("ca.crt");
    std::fs::write(&ca, authority.pem()).expect("writes");
    let trust = ClientTrust {
        ca,
        crls: Vec::new(),
        expired_crl: RevocationPolicy::Refuse,
        unknown_status: RevocationPolicy::Refuse,
    };
    for (version, client) in [("1.3", TlsClient::new()), ("1.2", TlsClient::of_1_2())] {
        let asked = ClientAuth::Optional(trust.clone());
        let running = Running::start(Sides {
            tls: Some(tls(&scratch, &authority, asked)),
            ..Sides::of_http1(origin())
        });
        let connect = |_| {
            let mut peer = client.connect(running.address, "a");
            peer.send(ANSWERED);
            assert_eq!(peer.response().text(), "ok");
            peer
        };
        drop((0..running.count).map(connect).collect::<Vec<Peer>>());
        let before = Before::of(&running);
        let idle: Vec<Peer> = (0..running.count).map(connect).collect();
        before.is_covered(&format!("a session of TLS {version}"));
        drop(idle);
        let before = Before::of(&running);
        let begin = |_| {
            let mut peer = Peer::connect(running.address);
            peer.send(client.hello("a"));
            peer.some();
            peer
        };
        let mut begun: Vec<Peer> = (0..running.count).map(begin).collect();
        before.is_covered(&format!("a handshake of TLS {version}"));
        if version == "1.2" {
            begun.iter_mut().for_each(send_most_of_a_certificate);
            before.is_covered("a certificate whose end does not come");
        }
    }
}

/// RFC 5246 §7.4.2: a Certificate of 38,000 bytes, but for the last 2,000.
fn send_most_of_a_certificate(peer: &mut Peer) {
    const CERTIFICATE: u8 = 11;
    const HANDSHAKE: u8 = 22;
    let length = |bytes: usize| u16::try_from(bytes).expect("short").to_be_bytes();
    let [high, low] = length(38_000);
    let mut message = vec![CERTIFICATE, 0, high, low];
    message.extend([0; 36_000]);
    for part in message.chunks(12_000) {
        let [high, low] = length(part.len());
        peer.send([&[HANDSHAKE, 3, 3, high, low], part].concat());
    }
}
