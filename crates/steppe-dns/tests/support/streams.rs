//! Clients of DNS on connections, with and without TLS, and listeners for them.

use std::net::SocketAddr;

use steppe_dns::config::{Introduction, Listener, Protocol};
use steppe_net::tls::config::{CertificateFiles, ClientAuth, ListenerConfig, MinVersion};
use steppe_testkit::{Issued, Peer, Scratch};

/// Sends queries in one write.
pub fn send(peer: &mut Peer, queries: &[Vec<u8>]) {
    let framed = queries.iter().flat_map(|query| {
        let len = u16::try_from(query.len()).expect("a message");
        [&len.to_be_bytes()[..], query].concat()
    });
    peer.send(framed.collect::<Vec<u8>>());
}

/// Receives the next response.
pub fn receive(peer: &mut Peer) -> Vec<u8> {
    let len = peer.bytes(2);
    let len = u16::from_be_bytes([len[0], len[1]]);
    peer.bytes(usize::from(len))
}

/// Sends a query, and receives its response.
pub fn ask(peer: &mut Peer, query: &[u8]) -> Vec<u8> {
    send(peer, &[query.to_vec()]);
    receive(peer)
}

/// A listener of DNS over TLS with the certificate `pair`, whose files are in `scratch`.
pub fn tls_listener(address: SocketAddr, pair: &Issued, scratch: &Scratch) -> Listener {
    let files = CertificateFiles {
        cert: scratch.write("dns.crt", &pair.cert),
        key: scratch.write("dns.key", &pair.key),
        ocsp: None,
    };
    Listener {
        address,
        protocols: vec![Protocol::Tls],
        tls: Some(ListenerConfig {
            certificates: vec![files],
            min_version: MinVersion::Tls12,
            client: ClientAuth::None,
            ticket_keys: None,
            alpn: vec![b"dot".to_vec()],
        }),
        introduction: Introduction::None,
    }
}

/// The data of an option in the OPT record of a response, which must be its last record.
pub fn option(response: &[u8], wanted: u16) -> Option<Vec<u8>> {
    let opt = response.windows(3).rposition(|bytes| bytes == [0, 0, 41])?;
    let mut options = response.get(opt + 11..)?;
    while let Some((&[c0, c1, l0, l1], rest)) = options.split_first_chunk::<4>() {
        let (data, after) = rest.split_at(usize::from(u16::from_be_bytes([l0, l1])));
        if u16::from_be_bytes([c0, c1]) == wanted {
            return Some(data.to_vec());
        }
        options = after;
    }
    None
}
