//! Faults of the path: fragmentation, which must not occur, and loss.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use socket2::{Domain, Protocol, Socket, Type};
use steppe_dns::config::Policy;
use steppe_testkit::{Namespace, Port, Process, eventually, skip};

use super::{A, assert_good, good};
use crate::client::{Client, PATIENCE, forwarder, query};
use crate::node::Node;
use crate::server::Server;

/// DF bit of the IPv4 header. RFC 791 §3.1.
const DONT_FRAGMENT: u8 = 0x40;

#[test]
fn queries_take_small_datagrams_and_are_never_fragmented() {
    // No other process sends to this address: the raw socket sees all datagrams to it, with their headers.
    let (address, listen) = (
        SocketAddr::from(([127, 7, 7, 7], Port::free().keep().port())),
        Port::free().keep(),
    );
    let server = Server::start_at(address, |asked| vec![good(asked)]);
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP));
    if let Ok(raw) = &raw {
        raw.set_read_timeout(Some(PATIENCE)).expect("is set");
        raw.bind(&address.into()).expect("is its own");
    }
    let _node = Node::start(forwarder(listen, &[server.address]), 2);
    assert_good(&Client::of(listen).ask_for("a.example.org"));
    let bytes = &server.asked()[0].bytes;
    let opt = bytes.windows(3).rposition(|bytes| bytes == [0, 0, 41]);
    let payload = &bytes[opt.expect("EDNS") + 3..][..2];
    assert_eq!(u16::from_be_bytes([payload[0], payload[1]]), 1232);
    let Ok(mut raw) = raw else {
        return skip("queries_take_small_datagrams", "raw sockets take root");
    };
    let mut packet = [0; 2048];
    let flags = loop {
        let len = raw.read(&mut packet).expect("the query");
        let udp = usize::from(packet[0] & 0x0f) * 4;
        let port = packet[..len].get(udp + 2..udp + 4).expect("a datagram");
        if port == server.address.port().to_be_bytes() {
            break packet[6];
        }
    };
    assert_ne!(flags & DONT_FRAGMENT, 0);
}

/// dnsmasq in a network namespace, behind a link of its own, with one address for all names.
fn dnsmasq(namespace: &Namespace) -> Result<(Process, SocketAddr), String> {
    let version = Command::new("dnsmasq").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err("dnsmasq is not installed".to_owned());
    }
    let [ip, rest @ ..] = namespace.prefix();
    let address = SocketAddr::from((namespace.address(), 5353));
    let mut command = Command::new(ip);
    command
        .args(rest)
        .args(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null"])
        .args(["--pid-file=", "--no-resolv", "--no-hosts", "--user="])
        .args(["--bind-interfaces", "--local-ttl=3600", "--port=5353"])
        .arg("--address=/example.org/192.0.2.7")
        .arg(format!("--listen-address={}", namespace.address()));
    let process = Process::start("dnsmasq", command);
    eventually("dnsmasq listens", || TcpStream::connect(address).is_ok());
    Ok((process, address))
}

#[test]
fn queries_that_are_lost_on_the_way_are_sent_again() {
    let started = Namespace::new().and_then(|namespace| {
        let (server, address) = dnsmasq(&namespace)?;
        Ok((namespace, server, address))
    });
    let (mut namespace, _server, address) = match started {
        Ok(started) => started,
        Err(reason) => return skip("queries_that_are_lost_on_the_way", &reason),
    };
    let listen = Port::free().keep();
    let mut config = forwarder(listen, &[address]);
    config.upstreams[0].timeout = 2 * PATIENCE;
    config.upstreams[0].policy = Policy::Failover;
    let _node = Node::start(config, 2);
    let clients: Vec<Client> = (0..100).map(|_| Client::of(listen)).collect();
    namespace.lose_datagrams(30);
    for (number, client) in clients.iter().enumerate() {
        client.send(&query(&format!("{number}.example.org"), A));
    }
    clients
        .iter()
        .for_each(|client| assert_good(&client.receive()));
    assert!(namespace.lost() > 0, "nothing was lost");
}
