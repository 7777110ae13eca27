//! What attackers found, from the outside: each test is named after what they tried.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use steppe_testkit::{RawOrigin, Steppe, eventually};

const STEPPE: &str = env!("CARGO_BIN_EXE_steppe");
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A node with these lines in its listener's table and in its upstream's.
fn node(origin: SocketAddr, listener: &str, upstream: &str) -> Steppe {
    let listener = format!("protocols = [\"h1\"]\n{listener}\n");
    let upstream = format!("servers = [\"{{origin}}\"]\n{upstream}\n");
    let toml = Steppe::PLAIN
        .replace("protocols = [\"h1\"]\n", &listener)
        .replace("servers = [\"{origin}\"]\n", &upstream);
    Steppe::builder(STEPPE)
        .with("origin", origin)
        .start(&toml)
}

/// A listener whose queue is full: connections to it hang.
struct Hanging {
    address: SocketAddr,
    _listener: Socket,
    _queued: Vec<TcpStream>,
}

impl Hanging {
    fn start() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listener.bind(&any.into()).expect("some port is free");
        listener.listen(0).expect("a bound socket can listen");
        let address = listener.local_addr().expect("bound").as_socket();
        let address = address.expect("an IPv4 address");
        Self {
            address,
            _listener: listener,
            _queued: vec![TcpStream::connect(address).expect("one fits")],
        }
    }
}

/// Short fields cost more in the list of lines than in the bytes that they lie in.
#[test]
fn a_thousand_short_fields_are_charged_with_the_list_of_them() {
    const CLIENTS: usize = 20;
    const FIELDS: usize = 991;
    const BYTES_PER_FIELD: usize = 20;
    let hanging = Hanging::start();
    let node = node(
        hanging.address,
        "limits = { header_count = 1000 }",
        "timeouts = { connect = \"1m\" }",
    );
    let reserved = || {
        let memory = node.admin_json("/memory");
        memory["budget"]["reserved_bytes"].as_u64().expect("there")
    };
    let before = reserved();
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a:\r\n".repeat(FIELDS));
    let _held: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut peer = node.connect();
            peer.send(&head);
            peer
        })
        .collect();
    let expected = CLIENTS * (head.len() + FIELDS * BYTES_PER_FIELD);
    eventually("each list is charged", || {
        reserved().saturating_sub(before) >= expected as u64
    });
}
