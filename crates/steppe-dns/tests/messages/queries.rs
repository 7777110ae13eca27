//! Queries of clients, and the responses to them.

use hickory_proto::op as other;
use steppe_dns::limits::CLIENT_QUERY_BYTES_MAX;
use steppe_dns::wire::{
    Body, CaseBits, ClientQuery, ExtendedError, Flags, LocalRecord, Message, Padding, Rcode,
    Rejection, Reply, Rtype, Section, Subnet, Transport, UpstreamQuery, write_rejection,
};

use crate::messages::{Rr, message, name, soa, with_opt};

const UDP: Transport = Transport::Udp { payload_max: 1232 };
const DO: u16 = 1 << 15;

fn query(flags: u16) -> Vec<u8> {
    message(0x1234, flags, ("Www.example.org", 1), [&[], &[], &[]])
}

fn rejected(bytes: &[u8]) -> Option<Rejection> {
    ClientQuery::parse(bytes).err()
}

/// Parses a response with another library.
fn read(bytes: &[u8]) -> other::Message {
    other::Message::from_vec(bytes).expect("another reader takes it")
}

#[test]
fn what_is_no_query_gets_the_response_that_its_rfc_asks_for() {
    let plain = query(0x0100);
    let edit = |at: usize, byte: u8| {
        let mut bytes = plain.clone();
        bytes[at] = byte;
        Some(bytes)
    };
    let cut = |len: usize| Some(plain[..len].to_vec());
    let with = |options: &[(u16, &[u8])]| Some(with_opt(plain.clone(), 1232, 0, options));
    let version_1 = with(&[]).map(|mut bytes| {
        let at = bytes.len() - 5;
        bytes[at] = 1;
        bytes
    });
    let twice = with(&[]).map(|bytes| with_opt(bytes, 1232, 0, &[]));
    let answers: &[Rr<'_>] = &[Rr("a", 1, 0, vec![0; 4])];
    let formerr = Rejection::Respond(Rcode::FORMERR);
    for (what, bytes, expected) in [
        ("eleven bytes", cut(11), Rejection::Ignore),
        ("a response", edit(2, 0x81), Rejection::Ignore),
        ("NOTIFY", edit(2, 0x21), Rejection::Respond(Rcode::NOTIMP)),
        ("no question", edit(5, 0), formerr),
        ("two questions", edit(5, 2), formerr),
        ("a label of 64 bytes", edit(12, 64), formerr),
        ("a pointer in the question", edit(12, 0xc0), formerr),
        ("a question that ends early", cut(plain.len() - 1), formerr),
        ("bytes behind", Some([&plain[..], &[0]].concat()), formerr),
        (
            "EDNS version 1",
            version_1,
            Rejection::Respond(Rcode::BADVERS),
        ),
        ("two OPT records", twice, formerr),
        ("a cookie of 7 bytes", with(&[(10, &[1; 7])]), formerr),
        ("a cookie of 15 bytes", with(&[(10, &[1; 15])]), formerr),
        (
            "a subnet of bits behind its prefix",
            with(&[(8, &[0, 1, 23, 0, 10, 0, 1])]),
            formerr,
        ),
        (
            "a subnet with a scope",
            with(&[(8, &[0, 1, 24, 24, 10, 0, 1])]),
            formerr,
        ),
        (
            "a subnet of an unknown family",
            with(&[(8, &[0, 3, 0, 0])]),
            formerr,
        ),
        (
            "an answer",
            Some(message(1, 0, ("a", 1), [answers, &[], &[]])),
            formerr,
        ),
        (
            "a zone transfer",
            Some(message(1, 0, ("a", 252), [&[], &[], &[]])),
            Rejection::Respond(Rcode::NOTIMP),
        ),
    ] {
        assert_eq!(
            rejected(&bytes.expect("a message")),
            Some(expected),
            "{what}"
        );
    }
    assert_eq!(rejected(&plain), None);
}

#[test]
fn a_rejection_says_what_it_can() {
    let mut out = [0; 512];
    let len = write_rejection(&query(0x0110), Rcode::NOTIMP, &mut out).unwrap();
    assert_eq!(
        &out[..12],
        &[0x12, 0x34, 0x81, 0x94, 0, 1, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(out[12..len], query(0)[12..]);
    // A question that can't be repeated.
    let mut two = query(0x0100);
    two[5] = 2;
    let len = write_rejection(&two, Rcode::FORMERR, &mut out).unwrap();
    assert_eq!(
        &out[..len],
        &[0x12, 0x34, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    let with_edns = with_opt(query(0x0100), 4096, DO, &[]);
    let len = write_rejection(&with_edns, Rcode::BADVERS, &mut out).unwrap();
    let seen = read(&out[..len]);
    // 16 is also the number of BADSIG, which is the name in the other library.
    assert_eq!(u16::from(seen.metadata.response_code), Rcode::BADVERS.0);
    let edns = seen.edns.expect("an OPT record");
    assert_eq!(
        (edns.version(), edns.max_payload(), edns.flags().dnssec_ok),
        (0, 1232, true)
    );
}

#[test]
fn options_of_a_client_are_read() {
    let cookie = [&[7; 8][..], &[9; 16]].concat();
    let options: [(u16, &[u8]); 5] = [
        (10, &cookie),
        (8, &[0, 2, 20, 0, 0x20, 0x01, 0x10]),
        (12, &[0; 9]),
        (11, &[]),
        (65001, b"x"),
    ];
    let bytes = with_opt(query(0x0100), 400, DO, &options);
    let query = ClientQuery::parse(&bytes).unwrap();
    let found = query.options();
    let cookie = found.cookie.expect("a cookie");
    assert_eq!((cookie.client, cookie.server), ([7; 8], &[9; 16][..]));
    let network = "2001:1000::".parse().unwrap();
    assert_eq!(found.subnet, Some(Subnet::of(network, 20)));
    assert!(found.has_padding && found.has_keepalive && query.is_dnssec_ok());
    // RFC 6891 §6.2.3: less than 512 counts as 512.
    assert_eq!(query.udp_payload(), 512);
}

#[test]
fn a_long_query_waits_with_all_that_its_response_depends_on() {
    let cookie = [&[7; 8][..], &[9; 32]].concat();
    let subnet = [&[0, 2, 128, 0][..], &[0x20; 16]].concat();
    let longest = format!(
        "{}.{}.{}.{}",
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(61)
    );
    for (qname, padding) in [("Www.example.org", 600), (&longest, 3000)] {
        let padding = vec![0; padding];
        let options: [(u16, &[u8]); 5] = [
            (65001, &[1; 200]),
            (12, &padding),
            (10, &cookie),
            (8, &subnet),
            (11, &[]),
        ];
        let plain = message(7, 0x0110, (qname, 28), [&[], &[], &[]]);
        let bytes = with_opt(plain, 4096, DO, &options);
        let query = ClientQuery::parse(&bytes).expect("a query");
        let mut room = [0; CLIENT_QUERY_BYTES_MAX];
        let kept = query.kept(&mut room).expect("room").to_vec();
        let again = ClientQuery::parse(&kept).expect("a query");
        assert_eq!(again.options(), query.options());
        assert_eq!(again.message().header(), query.message().header());
        assert_eq!(again.question(), query.question());
        assert_eq!((again.udp_payload(), again.is_dnssec_ok()), (4096, true));
    }
    // A short query is kept unchanged.
    let bytes = with_opt(query(0x0100), 1232, 0, &[(65001, b"x")]);
    let query = ClientQuery::parse(&bytes).expect("a query");
    assert_eq!(query.kept(&mut []), Ok(&bytes[..]));
}

#[test]
fn a_client_without_edns_gets_no_code_that_it_would_read_as_another() {
    for (rcode, edns, expected) in [
        (Rcode::BADVERS, false, Rcode::SERVFAIL),
        (Rcode::BADVERS, true, Rcode::BADVERS),
        (Rcode::BADCOOKIE, true, Rcode::BADCOOKIE),
        (Rcode::REFUSED, false, Rcode::REFUSED),
    ] {
        let plain = query(0x0100);
        let bytes = if edns {
            with_opt(plain, 1232, 0, &[])
        } else {
            plain
        };
        let query = ClientQuery::parse(&bytes).expect("a query");
        let mut out = [0; 512];
        let len = Reply::new(&query, UDP)
            .rcode(rcode, &mut out)
            .expect("room");
        assert_eq!(
            u16::from(read(&out[..len]).metadata.response_code),
            expected.0
        );
    }
}

#[test]
fn records_made_here_answer_in_the_clients_spelling() {
    let bytes = with_opt(query(0x0110), 1232, 0, &[(10, &[5; 8])]);
    let query = ClientQuery::parse(&bytes).unwrap();
    let mut reply = Reply::new(&query, UDP);
    reply.server_cookie = Some([6; 16]);
    reply.extended_error = Some((ExtendedError::FORGED_ANSWER, "hosts file"));
    let records = [LocalRecord {
        owner: None,
        rtype: Rtype::A,
        ttl: 60,
        rdata: &[192, 168, 7, 9],
    }];
    let mut out = [0; 1232];
    let len = reply.records(records, &mut out).unwrap();
    let seen = read(&out[..len]);
    assert_eq!(seen.metadata.id, 0x1234);
    assert!(seen.metadata.recursion_available && seen.metadata.checking_disabled);
    assert_eq!(
        seen.answers[0].to_string(),
        "Www.example.org. 60 IN A 192.168.7.9"
    );
    let message = Message::parse(&out[..len]).unwrap();
    let options: Vec<_> = message.opt().unwrap().options().collect();
    assert_eq!(options[0].1, [[5; 8].as_slice(), &[6; 16]].concat());
    assert_eq!(
        (options[1].0.0, options[1].1),
        (15, &b"\x00\x04hosts file"[..])
    );
}

#[test]
fn a_denial_made_here_can_be_kept() {
    let bytes = query(0x0100);
    let query = ClientQuery::parse(&bytes).unwrap();
    let mut out = [0; 512];
    let len = Reply::new(&query, UDP)
        .negative(Rcode::NXDOMAIN, 77, &mut out)
        .unwrap();
    let seen = read(&out[..len]);
    assert_eq!(seen.metadata.response_code, other::ResponseCode::NXDomain);
    assert_eq!(
        seen.authorities[0].to_string(),
        "Www.example.org. 77 IN SOA . . 1 3600 600 86400 77"
    );
    assert!(
        seen.edns.is_none(),
        "a client without EDNS gets none: RFC 6891 §7"
    );
}

/// Builds a response with these sections for a query with this OPT record.
fn finish(sections: [&[Rr<'_>]; 3], edns: Option<(u16, u16)>) -> Vec<u8> {
    let response = message(0, 0x81a0, ("wwW.example.org", 1), sections);
    let body = Body::of(&Message::parse(&response).expect("made here"));
    let plain = query(0x0100);
    let bytes = match edns {
        Some((payload, flags)) => with_opt(plain, payload, flags, &[]),
        None => plain,
    };
    let query = ClientQuery::parse(&bytes).expect("made here");
    let mut out = vec![0xaa; 65_535];
    out[..response.len()].copy_from_slice(&response);
    let len = Reply::new(&query, UDP)
        .finish(&mut out, body)
        .expect("made here");
    out.truncate(len);
    out
}

fn counts(response: &[u8]) -> ([u16; 3], bool) {
    let message = Message::parse(response).expect("a whole message");
    let is_truncated = message.header().flags.has(Flags::TC);
    (
        Section::ALL.map(|section| message.count(section)),
        is_truncated,
    )
}

fn answers(count: u8) -> Vec<Rr<'static>> {
    let record = |index| Rr("www.example.org", 1, 300, vec![192, 0, 2, index]);
    (0..count).map(record).collect()
}

#[test]
fn what_has_no_room_goes_by_sections() {
    // A record of `www.example.org` takes 31 bytes here, header and question take 33.
    let authority = [Rr("example.org", 2, 300, name("ns.example.org"))];
    let additional = [Rr("ns.example.org", 1, 300, vec![192, 0, 2, 1])];
    fn three<'a>(answers: &'a [Rr<'a>], rest: [&'a [Rr<'a>]; 2]) -> [&'a [Rr<'a>]; 3] {
        [answers, rest[0], rest[1]]
    }
    let rest: [&[Rr<'_>]; 2] = [&authority, &additional];
    let few = answers(5);
    let (counts_few, truncated) = counts(&finish(three(&few, rest), None));
    // RFC 2181 §9: additional records are dropped without TC; no OPT record is due.
    assert_eq!((counts_few, truncated), ([5, 1, 0], false));
    let more = answers(15);
    assert_eq!(
        counts(&finish(three(&more, rest), None)),
        ([15, 0, 0], false)
    );
    let many = answers(16);
    assert_eq!(counts(&finish(three(&many, rest), None)), ([0, 0, 0], true));
    // With EDNS, the OPT record is always included, and has room reserved.
    assert_eq!(
        counts(&finish(three(&more, rest), Some((512, 0)))),
        ([15, 0, 1], false)
    );
    assert_eq!(
        counts(&finish(three(&many, rest), Some((512, 0)))),
        ([0, 0, 1], true)
    );
    assert_eq!(
        counts(&finish(three(&many, rest), Some((1232, 0)))),
        ([16, 1, 1], false)
    );
    // RFC 4035 §3.1.1: with DO, the authority section may have the proof of the answer.
    assert_eq!(
        counts(&finish(three(&more, rest), Some((512, DO)))),
        ([0, 0, 1], true)
    );
    // A path allows 1,232 bytes, even if the client allows more.
    let crowd = answers(60);
    assert_eq!(
        counts(&finish(three(&crowd, rest), Some((4096, 0)))),
        ([0, 0, 1], true)
    );
    for (count, payload) in (0..60).flat_map(|count| [(count, 512), (count, 800), (count, 9000)]) {
        let records = answers(count);
        let response = finish(three(&records, rest), Some((payload, 0)));
        assert!(response.len() <= usize::from(payload.min(1232)));
        read(&response);
    }
}

#[test]
fn a_denial_keeps_its_soa_or_is_truncated() {
    let long = format!("{}example.org", format!("{}.", "a".repeat(63)).repeat(3));
    let authority = [Rr(&long, 6, 300, soa(60)), Rr(&long, 6, 300, soa(60))];
    let response = finish([&[], &authority, &[]], None);
    assert_eq!(counts(&response), ([0, 0, 0], true));
    let response = finish([&[], &authority, &[]], Some((1232, 0)));
    assert_eq!(counts(&response), ([0, 2, 1], false));
}

#[test]
fn ad_is_shown_to_those_who_ask() {
    let flags = |response: Vec<u8>| Message::parse(&response).unwrap().header().flags;
    let records = answers(1);
    assert!(!flags(finish([&records, &[], &[]], None)).has(Flags::AD));
    assert!(!flags(finish([&records, &[], &[]], Some((1232, 0)))).has(Flags::AD));
    assert!(flags(finish([&records, &[], &[]], Some((1232, DO)))).has(Flags::AD));
}

#[test]
fn padding_fills_blocks_on_encrypted_transports() {
    let padded = with_opt(query(0x0100), 1232, 0, &[(12, &[])]);
    let unpadded = with_opt(query(0x0100), 1232, 0, &[]);
    let mut out = [0; 4096];
    let mut len_of = |bytes: &[u8], padding| {
        let query = ClientQuery::parse(bytes).unwrap();
        let mut reply = Reply::new(&query, Transport::Stream);
        reply.padding = padding;
        let len = reply.rcode(Rcode::REFUSED, &mut out).unwrap();
        read(&out[..len]);
        len
    };
    assert_eq!(len_of(&padded, Padding::Blocks), 468);
    assert!(len_of(&unpadded, Padding::Blocks) < 60);
    assert!(len_of(&padded, Padding::None) < 60);
}

#[test]
fn a_query_to_a_server_reads_as_it_was_meant() {
    let bytes = query(0);
    let question = Message::parse(&bytes).unwrap().question();
    let query = UpstreamQuery {
        question,
        flags: Flags(Flags::RD | Flags::CD | Flags::QR),
        edns_flags: Some(DO),
        subnet: Some(Subnet::of("192.0.2.129".parse().unwrap(), 24)),
        cookie: Some((&[1; 8], &[2; 16])),
        padding: Padding::Blocks,
    };
    let mut out = [0; 512];
    let len = query.write(0xbeef, CaseBits(0b1011), &mut out).unwrap();
    assert_eq!(len, 128);
    let seen = read(&out[..len]);
    assert_eq!(seen.metadata.id, 0xbeef);
    assert!(seen.metadata.recursion_desired && seen.metadata.checking_disabled);
    assert_eq!(seen.queries[0].to_string(), "WWw.Example.org. IN A");
    let edns = seen.edns.expect("an OPT record");
    assert_eq!((edns.max_payload(), edns.flags().dnssec_ok), (1232, true));
    let sent = Message::parse(&out[..len]).unwrap();
    let options = sent.opt().unwrap().client_options().unwrap();
    assert_eq!(options.subnet.unwrap().address[..4], [192, 0, 2, 0]);
    assert_eq!(options.cookie.unwrap().server, [2; 16]);
}
