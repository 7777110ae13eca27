//! The least client of DNS: one question over UDP.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use crate::PATIENCE;

/// The response of `server` to a query for the IPv4 addresses of `name`, without EDNS.
///
/// # Panics
/// When none comes, or none that begins like the query.
pub fn ask_dns(server: SocketAddr, name: &str) -> Vec<u8> {
    let query = dns_query(0x1234, name, 1);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    socket.send_to(&query, server).expect("is sent");
    let mut response = vec![0; 1500];
    let len = socket.recv(&mut response).expect("a response");
    response.truncate(len);
    assert!(
        len >= query.len() && response[..2] == query[..2],
        "a response to it"
    );
    response
}

/// A query of class IN that asks for recursion, without EDNS. `name` has labels between dots, and none at its end.
///
/// # Panics
/// When a label is longer than 255 bytes.
pub fn dns_query(id: u16, name: &str, qtype: u8) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).expect("a label"));
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, qtype, 0, 1]);
    query
}
