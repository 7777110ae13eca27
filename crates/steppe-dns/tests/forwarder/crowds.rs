//! Many clients on connections, and slow ones.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use steppe_dns::limits::{CLIENT_IDLE_TIME, CONNECTIONS_PER_WORKER_MAX};
use steppe_testkit::{Peer, Port, eventually};

use crate::client::{answers, forwarder, query};
use crate::node::Node;
use crate::server::{Server, answered};
use crate::streams::ask;

const A: u16 = 1;

/// Connections beyond the limit.
const MORE: usize = 300;

fn address_for_all() -> Server {
    Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])])
}

/// True if the peer has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("is set");
    let read = stream.read(&mut [0; 64]);
    stream.set_nonblocking(false).expect("is set");
    match read {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

fn connect(listen: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(listen).expect("listens");
    stream
        .set_read_timeout(Some(3 * CLIENT_IDLE_TIME))
        .expect("is set");
    stream
}

#[test]
fn of_too_many_connections_those_that_idle_longest_are_closed() {
    let wanted = 2 * (CONNECTIONS_PER_WORKER_MAX + MORE) + 200;
    assert!(steppe_net::raise_file_limit(wanted).descriptors >= wanted as u64);
    let (server, listen) = (address_for_all(), Port::free().keep());
    let node = Node::start(forwarder(listen, &[server.address]), 1);
    let mut idle: Vec<TcpStream> = Vec::new();
    // The accept queue is shorter than the crowd.
    for _ in 0..CONNECTIONS_PER_WORKER_MAX / 256 {
        idle.extend((0..256).map(|_| connect(listen)));
        let mut probe = idle.pop().expect("one is there");
        let asked = query("a.example.org", A);
        let framed = [&[0, u8::try_from(asked.len()).expect("short")][..], &asked].concat();
        probe.write_all(&framed).expect("is sent");
        let mut response = [0; 64];
        assert!(probe.read(&mut response).expect("a response") > 0);
        idle.push(probe);
    }
    let evicted = || node.metric("steppe_dns_connection_events_total{event=\"evicted\"}");
    assert_eq!(evicted(), 0);
    for _ in 0..MORE {
        let mut peer = Peer::connect(listen);
        assert_eq!(answers(&ask(&mut peer, &query("a.example.org", A))), 1);
        // From now on this connection idles, and is younger than the others.
        idle.push(peer.stream().try_clone().expect("a descriptor"));
    }
    // On a slow machine, the idle timeout has closed some.
    assert!(evicted() > 0);
    eventually("the oldest are closed", || {
        let oldest = idle[..MORE].iter_mut();
        oldest.map(is_closed).filter(|closed| *closed).count() >= MORE - 20
    });
    let young = &mut idle[CONNECTIONS_PER_WORKER_MAX..];
    assert!(young.iter_mut().all(|stream| !is_closed(stream)));
    let refused = "steppe_dns_connection_events_total{event=\"refused\"}";
    assert_eq!(node.metric(refused), 0);
}

#[test]
fn who_sends_slowly_or_nothing_is_closed() {
    let (server, listen) = (address_for_all(), Port::free().keep());
    let _node = Node::start(forwarder(listen, &[server.address]), 1);
    let mut silent = connect(listen);
    let mut slow = connect(listen);
    let asked = query("a.example.org", A);
    let dripping = {
        let mut slow = slow.try_clone().expect("a descriptor");
        let mut bytes = vec![0, u8::try_from(asked.len()).expect("short")];
        bytes.extend(asked);
        std::thread::spawn(move || {
            // One byte at a time, so that the query takes longer than any timeout.
            for byte in bytes {
                if slow.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        })
    };
    assert_eq!(silent.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed");
    assert_eq!(slow.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed");
    dripping.join().expect("it stops");
    assert_eq!(server.asked().len(), 0);
}
