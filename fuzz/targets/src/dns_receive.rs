//! Acceptance of responses: only with the id, the question and the case of the query that is in flight.
//!
//! The first byte says which parts of the query are copied into the datagram, so that all but one check can pass.

use std::time::Instant;

use steppe_dns::in_flight::{Attempts, Case, Outgoing, Received, Sizes};
use steppe_dns::wire::{Class, Question, Rtype};

const QNAME: &[u8] = b"\x0aa-long-one\x07example\x03org\x00";

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let Some((&copied, bytes)) = bytes.split_first() else {
        return;
    };
    let now = Instant::now();
    let sizes = Sizes {
        exchanges: 1,
        attempts: 1,
        sockets: 1,
    };
    let mut attempts = Attempts::new(sizes, now);
    let question = Question {
        qname: QNAME,
        qtype: Rtype::A,
        qclass: Class::IN,
    };
    let exchange = attempts.open(&question, 1, now).expect("room");
    let outgoing = Outgoing {
        server: 0,
        socket: 0,
        case: Case::Randomized,
        random: [0x1234_5678_9abc_def0, 0xa5a5_5a5a_a5a5_5a5a],
        deadline: now,
    };
    let sent = attempts.send(exchange, &outgoing).expect("room");
    let mut datagram = bytes.to_vec();
    if copied & 1 != 0 && datagram.len() >= 2 {
        datagram[..2].copy_from_slice(&sent.id.to_be_bytes());
    }
    if copied & 2 != 0 && datagram.len() >= 16 + QNAME.len() {
        datagram[12..12 + QNAME.len()].copy_from_slice(QNAME);
    }
    if copied & 4 != 0 && datagram.len() >= 12 + QNAME.len() {
        sent.case.apply(&mut datagram[12..12 + QNAME.len()]);
    }
    let received = attempts.receive(0, &datagram);
    if let Received::Response(attempt, message) = received {
        assert_eq!(attempt, sent.attempt);
        let header = message.header();
        assert!(header.id == sent.id && header.flags.0 & 0xf800 == 0x8000);
        let mut expected = QNAME.to_vec();
        sent.case.apply(&mut expected);
        assert_eq!(message.question().qname, expected);
        assert_eq!(
            (message.question().qtype, message.question().qclass),
            (Rtype::A, Class::IN)
        );
    }
    assert_eq!(
        attempts.attempt(sent.attempt),
        Some((exchange, 0)),
        "it goes on waiting"
    );
}
