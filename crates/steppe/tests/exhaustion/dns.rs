//! DNS, over TCP, TLS and HTTPS: queries in flight, and unread answers.

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use steppe_testkit::{
    Authority, FieldSection, H2Frame, Leaf, Peer, Port, TlsClient, dns_query, is_left_to_long_tier,
};

use crate::flood::{Crowd, Flood};

const TABLES: &str = r#"
[[dns.listener]]
listen = "{plain}"
[[dns.listener]]
listen = "{dot}"
protocols = ["tls"]
tls.certificates = [{ cert = "dns.crt", key = "dns.key" }]
[[dns.listener]]
listen = "{doh}"
protocols = ["https"]
tls.certificates = [{ cert = "dns.crt", key = "dns.key" }]
[dns.cache]
bytes = "1MiB"
[dns.hosts]
records = { "large.example" = [{large}], "neighbour.example" = "192.0.2.80" }
[dns.upstream.silent]
servers = ["udp://{silent}"]
[[dns.rule]]
forward = "silent"
"#;

/// A forwarder with a budget, and its addresses.
struct Forwarder {
    flood: Flood,
    /// The forwarder's addresses for TCP, TLS and HTTPS.
    addresses: [SocketAddr; 3],
    _silent: UdpSocket,
}

/// The transport of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Tcp,
    Tls,
    Https,
}

const TXT: u8 = 16;

impl Forwarder {
    /// Starts it in front of a server that answers nothing. `large.example` has 15 KiB of TXT.
    fn new(case: &str, budget_mib: u64) -> Self {
        let [plain, dot, doh] = [(); 3].map(|()| Port::free().keep());
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let leaf = Authority::new("exhaustion").issue(&Leaf::named(&["dns.test"]));
        let texts = (0..60).map(|number| format!("'TXT \"{number:0>250}\"'"));
        let large = texts.collect::<Vec<_>>().join(", ");
        let flood = Flood::new(&format!("{case}, {budget_mib} MiB"), budget_mib)
            .config(|config| config.with_toml(&TABLES.replace("{large}", &large)))
            .builder(|builder| {
                builder
                    .with("plain", plain)
                    .with("dot", dot)
                    .with("doh", doh)
                    .with("silent", silent.local_addr().expect("is bound"))
                    .with_file("dns.crt", &leaf.cert)
                    .with_file("dns.key", &leaf.key)
            })
            .neighbour(move |_| is_answered(plain));
        Self {
            flood,
            addresses: [plain, dot, doh],
            _silent: silent,
        }
    }
}

/// True if a client on another address gets an answer, over TCP.
fn is_answered(forwarder: SocketAddr) -> bool {
    let ask = || -> Option<bool> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
        let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0));
        socket.bind(&from.into()).ok()?;
        socket.connect(&forwarder.into()).ok()?;
        let mut stream = TcpStream::from(socket);
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .ok()?;
        std::io::Write::write_all(&mut stream, &framed(dns_query(7, "neighbour.example", 1)))
            .ok()?;
        let mut head = [0; 2 + 12];
        std::io::Read::read_exact(&mut stream, &mut head).ok()?;
        Some((head[5] & 0x0f, head[9]) == (0, 1))
    };
    ask() == Some(true)
}

fn framed(message: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(message.len()).expect("a short message");
    [len.to_be_bytes().to_vec(), message].concat()
}

/// Attacking clients, and queries of each.
const CLIENTS: usize = 300;
const QUERIES: usize = 150;

/// A query for a long name of its own, which no server answers and which leaves little room.
fn unanswered(number: usize) -> Vec<u8> {
    let label = "a".repeat(60);
    dns_query(
        7,
        &format!("{label}.{label}.{label}.n{number:0>20}.example"),
        1,
    )
}

/// A query for the largest answer.
fn large(_: usize) -> Vec<u8> {
    dns_query(7, "large.example", TXT)
}

/// The bytes that a client sends: queries one after the other; over HTTPS each on a stream.
fn sent(over: Over, query: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let queries = (0..QUERIES).map(query);
    match over {
        Over::Tcp | Over::Tls => queries.flat_map(framed).collect(),
        Over::Https => {
            let fields = FieldSection::of("POST", "/dns-query")
                .field("content-type", "application/dns-message");
            let streams = queries.take(100).zip((1..).step_by(2));
            let frames = streams.flat_map(|(query, stream)| {
                [
                    H2Frame::opening(stream, &fields),
                    H2Frame::last_data(stream, query),
                ]
            });
            let frames = frames.flat_map(|frame| frame.bytes());
            PREFACE.iter().copied().chain(frames).collect()
        }
    }
}

/// The preface of a client of HTTP/2 with large windows (RFC 9113 §3.4).
const PREFACE: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff";

/// Connects clients that send these bytes, and read nothing.
fn crowd(over: Over, addresses: [SocketAddr; 3], bytes: &[u8]) -> (Option<Crowd>, Vec<Peer>) {
    let [plain, dot, doh] = addresses;
    let (client, address) = match over {
        Over::Tcp => {
            let mut crowd = Crowd::connect(plain, CLIENTS);
            println!("{} KiB were taken", crowd.send(bytes) >> 10);
            return (Some(crowd), Vec::new());
        }
        Over::Tls => (TlsClient::new(), dot),
        Over::Https => (TlsClient::new().alpn(&["h2"]), doh),
    };
    let connect = |_| {
        let mut peer = client.try_connect(address, "dns.test").ok()?;
        peer.send_until_stall(bytes, Duration::from_millis(5));
        Some(peer)
    };
    let peers: Vec<_> = (0..CLIENTS).filter_map(connect).collect();
    println!("{} of {CLIENTS} clients connected", peers.len());
    (None, peers)
}

fn queries_in_flight(over: Over, budget_mib: u64) {
    let case = format!("{over:?}, queries to a silent server");
    let Forwarder {
        flood,
        addresses,
        _silent,
    } = Forwarder::new(&case, budget_mib);
    flood.run(|_| crowd(over, addresses, &sent(over, unanswered)));
}

fn answers_unread(over: Over, budget_mib: u64) {
    let case = format!("{over:?}, large answers that nobody reads");
    let Forwarder {
        flood,
        addresses,
        _silent,
    } = Forwarder::new(&case, budget_mib);
    flood.run(|_| crowd(over, addresses, &sent(over, large)));
}

const OVER: [Over; 3] = [Over::Tcp, Over::Tls, Over::Https];

#[test]
fn queries_in_flight_over_tcp() {
    queries_in_flight(Over::Tcp, 64);
}

#[test]
fn queries_in_flight_over_tls() {
    queries_in_flight(Over::Tls, 64);
}

#[test]
fn queries_in_flight_over_https() {
    queries_in_flight(Over::Https, 64);
}

#[test]
fn answers_that_nobody_reads_over_tcp() {
    answers_unread(Over::Tcp, 64);
}

#[test]
fn answers_that_nobody_reads_over_tls() {
    answers_unread(Over::Tls, 64);
}

#[test]
fn answers_that_nobody_reads_over_https() {
    answers_unread(Over::Https, 64);
}

#[test]
fn queries_and_answers_with_other_budgets() {
    if is_left_to_long_tier("queries_and_answers_with_other_budgets") {
        return;
    }
    for (over, budget_mib) in OVER.into_iter().flat_map(|over| [(over, 16), (over, 256)]) {
        queries_in_flight(over, budget_mib);
        answers_unread(over, budget_mib);
    }
}
