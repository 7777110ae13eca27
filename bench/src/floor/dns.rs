//! `steppe-bench floor-dns`: a minimal DNS server that answers over UDP, in batches.
//!
//! The floor of an answer from a cache, and the server behind every forwarder of `dns`: two system
//! calls a batch on one thread, each query's question sent back with one address. The cost of a
//! forwarder beyond the floor's is that forwarder's own work, and not the kernel's.
//!
//! Non-goals: everything else. The floor ignores name and type, has no EDNS, and drops every message
//! that is no query with one question. Use it for nothing but this bench.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Args;
use steppe_net::{DatagramBatch, bind_datagram};
use tokio::net::TcpListener;

/// Where it answers.
#[derive(Args, Debug)]
pub struct Options {
    /// Where it listens
    #[arg(long)]
    listen: SocketAddr,
}

/// Datagrams of a batch, and bytes of each: as many as Steppe takes at once.
const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 1232;

const HEADER_BYTES: usize = 12;
/// With a name of 255 bytes. RFC 1035, section 2.3.4.
const QUESTION_END_MAX: usize = HEADER_BYTES + 255 + 4;
/// QR, RD and RA.
const RESPONSE_FLAGS: [u8; 2] = [0x81, 0x80];
/// One question, one answer. RFC 1035, section 4.1.1.
const COUNTS: [u8; 8] = [0, 1, 0, 1, 0, 0, 0, 0];
/// The question's name, A, IN, an hour, 192.0.2.1.
const ANSWER: [u8; 16] = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1];

/// Answers until the process is stopped.
///
/// # Errors
/// When the address can't be listened on.
pub async fn run(options: &Options) -> Result<bool> {
    let listen = options.listen;
    let failed = || format!("cannot listen on {listen}");
    let mut sockets = bind_datagram(listen, 1).with_context(failed)?;
    let socket = sockets.pop().with_context(failed)?.into_socket()?;
    // The bench connects by TCP to see that the server is up.
    let _ready = TcpListener::bind(listen).await.with_context(failed)?;
    let mut received = DatagramBatch::new(BATCH, DATAGRAM_BYTES);
    let mut answers = DatagramBatch::new(BATCH, DATAGRAM_BYTES);
    loop {
        received.receive(&socket).await.context("cannot receive")?;
        for datagram in received.iter() {
            let Some(question_end) = question_end(datagram.bytes) else {
                continue;
            };
            answers.push(datagram.peer, datagram.local, |room| {
                answer(datagram.bytes, question_end, room)
            });
        }
        answers.send(&socket);
    }
}

/// Where the question of a query ends; `None`: it is none, or has more or fewer questions than one.
fn question_end(query: &[u8]) -> Option<usize> {
    let header = query.get(..HEADER_BYTES)?;
    if header[2] & 0x80 != 0 || header[4..6] != [0, 1] {
        return None;
    }
    let mut at = HEADER_BYTES;
    loop {
        match *query.get(at)? {
            0 => break,
            length => at += 1 + usize::from(length),
        }
    }
    let end = at + 5;
    (end <= query.len() && end <= QUESTION_END_MAX).then_some(end)
}

/// Writes the response into `room`, and says how long it is.
fn answer(query: &[u8], question_end: usize, room: &mut [u8]) -> usize {
    room[..question_end].copy_from_slice(&query[..question_end]);
    room[2..4].copy_from_slice(&RESPONSE_FLAGS);
    room[4..HEADER_BYTES].copy_from_slice(&COUNTS);
    let end = question_end + ANSWER.len();
    room[question_end..end].copy_from_slice(&ANSWER);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";

    #[test]
    fn a_query_is_answered_with_its_question_and_an_address() {
        let end = question_end(QUERY).unwrap();
        assert_eq!(end, QUERY.len());
        let mut room = [0; 512];
        let length = answer(QUERY, end, &mut room);
        assert_eq!(room[..4], [0x12, 0x34, 0x81, 0x80]);
        assert_eq!(room[12..end], QUERY[12..]);
        assert_eq!(room[length - 4..length], [192, 0, 2, 1]);
    }

    #[test]
    fn what_is_no_query_is_dropped() {
        for end in 0..QUERY.len() {
            assert_eq!(question_end(&QUERY[..end]), None, "{end}");
        }
        let mut response = QUERY.to_vec();
        response[2] |= 0x80;
        assert_eq!(question_end(&response), None);
    }
}
