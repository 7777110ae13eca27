//! Responses of servers: classification, records that are passed on, and cache times.

use hickory_proto::op as other;
use proptest::prelude::*;
use steppe_dns::wire::{
    Asked, Body, Denial, Lifetime, Message, Outcome, Rcode, Response, Section, TtlOffsets,
    TtlPolicy, WireError, age_ttls, apply_policy,
};

use crate::messages::{Rr, message, name, soa, with_opt};

const ASKED: Asked = Asked {
    cname_depth: 8,
    is_dnssec_ok: false,
};
const POLICY: TtlPolicy = TtlPolicy {
    min: 0,
    max: 86_400,
    negative_max: 3600,
};

fn outcome(bytes: &[u8]) -> Result<Outcome, WireError> {
    Response::read(Message::parse(bytes)?, ASKED).map(|response| response.outcome())
}

/// The passed-on records, as parsed by another library: one record a line, sections separated by a line of dashes.
fn passed(bytes: &[u8], asked: Asked) -> String {
    let response =
        Response::read(Message::parse(bytes).expect("well formed"), asked).expect("well formed");
    let mut out = vec![0; 65_535];
    let body = response.write_body(&mut out).expect("well formed");
    let message = Message::parse(&out[..body.len]).expect("well formed");
    assert_eq!(Body::of(&message), body);
    let seen = other::Message::from_vec(&out[..body.len]).expect("another reader takes it");
    let lines = |records: &[hickory_proto::rr::Record]| {
        records
            .iter()
            .map(|record| format!("{record}\n"))
            .collect::<String>()
    };
    format!("{}--\n{}", lines(&seen.answers), lines(&seen.authorities))
}

/// Responses captured from dnsmasq, with their types.
fn captured() -> Vec<(String, u16, Vec<u8>)> {
    let lines = include_str!("../../testdata/dnsmasq.txt").lines();
    let responses = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let parts: Vec<&str> = line.split(' ').collect();
        let digits = parts[2].as_bytes().chunks_exact(2);
        let byte = |pair| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("well formed"), 16)
                .expect("well formed")
        };
        (
            parts[0].to_owned(),
            parts[1].parse().expect("well formed"),
            digits.map(byte).collect(),
        )
    });
    responses.collect()
}

#[test]
fn responses_of_dnsmasq_pass_with_their_records() {
    let responses = captured();
    assert_eq!(responses.len(), 10);
    for (qname, qtype, bytes) in &responses {
        let message = Message::parse(bytes).unwrap();
        assert_eq!(message.question().qtype.0, *qtype);
        let seen = other::Message::from_vec(bytes).unwrap();
        let lines: String = seen
            .answers
            .iter()
            .map(|record| format!("{record}\n"))
            .collect();
        assert_eq!(passed(bytes, ASKED), format!("{lines}--\n"), "{qname}");
        let expected = if qname == "none.example.org" {
            Outcome::Negative {
                denial: Denial::Name,
                ttl: None,
            }
        } else {
            Outcome::Answer
        };
        assert_eq!(outcome(bytes), Ok(expected), "{qname}");
    }
}

#[test]
fn responses_are_told_apart() {
    let a = || Rr("www.example.org", 1, 300, vec![192, 0, 2, 1]);
    let alias = || Rr("www.example.org", 5, 300, name("web.example.net"));
    let authority = || Rr("example.org", 6, 3600, soa(7));
    let other = || Rr("example.net", 6, 3600, soa(7));
    let ns = || Rr("example.org", 2, 3600, name("ns.example.org"));
    let question = ("www.example.org", 1);
    let response =
        |flags, sections: [&[Rr<'_>]; 3]| outcome(&message(1, flags, question, sections));
    let denies = |denial, ttl| Ok(Outcome::Negative { denial, ttl });
    assert_eq!(response(0x8180, [&[a()], &[], &[]]), Ok(Outcome::Answer));
    assert_eq!(response(0x8380, [&[a()], &[], &[]]), Ok(Outcome::Truncated));
    // RFC 2308 §5: the SOA's TTL is 3600, its MINIMUM field is 7.
    assert_eq!(
        response(0x8183, [&[], &[authority()], &[]]),
        denies(Denial::Name, Some(7))
    );
    assert_eq!(
        response(0x8180, [&[], &[authority()], &[]]),
        denies(Denial::Type, Some(7))
    );
    assert_eq!(
        response(0x8180, [&[], &[], &[]]),
        denies(Denial::Type, None)
    );
    assert_eq!(response(0x8180, [&[], &[ns()], &[]]), Ok(Outcome::Referral));
    // §2.2.1: with an SOA beside the NS records, the response is NODATA.
    assert_eq!(
        response(0x8180, [&[], &[ns(), authority()], &[]]),
        denies(Denial::Type, Some(7))
    );
    // The SOA of a zone that does not enclose the name says nothing about it.
    assert_eq!(
        response(0x8183, [&[], &[other()], &[]]),
        denies(Denial::Name, None)
    );
    // §2.1: the denial applies to the target of the alias.
    assert_eq!(
        response(0x8183, [&[alias()], &[other()], &[]]),
        denies(Denial::Name, Some(7))
    );
    assert_eq!(
        response(0x8182, [&[], &[], &[]]),
        Ok(Outcome::Failure(Rcode::SERVFAIL))
    );
    assert_eq!(
        response(0x8185, [&[], &[], &[]]),
        Ok(Outcome::Failure(Rcode::REFUSED))
    );
    let mut badvers = with_opt(message(1, 0x8180, question, [&[], &[], &[]]), 1232, 0, &[]);
    let at = badvers.len() - 6;
    badvers[at] = 1;
    assert_eq!(outcome(&badvers), Ok(Outcome::Failure(Rcode::BADVERS)));
}

#[test]
fn aliases_in_a_circle_are_refused() {
    let circle = [
        Rr("a.example", 5, 60, name("b.example")),
        Rr("b.example", 5, 60, name("A.example")),
    ];
    let bytes = message(1, 0x8180, ("a.example", 1), [&circle, &[], &[]]);
    assert_eq!(outcome(&bytes), Err(WireError::Aliases));
    // `cname_depth` aliases are followed, in any order, and no more.
    for (count, expected) in [(8, Ok(Outcome::Answer)), (9, Err(WireError::Aliases))] {
        let names: Vec<String> = (0..=count)
            .map(|index| format!("n{index}.example"))
            .collect();
        let alias = |pair: &'_ [String]| Rr(leaked(&pair[0]), 5, 60, name(&pair[1]));
        let mut records: Vec<Rr<'_>> = names.windows(2).map(alias).collect();
        records.push(Rr(leaked(&names[count]), 1, 60, vec![192, 0, 2, 1]));
        records.reverse();
        let bytes = message(1, 0x8180, ("n0.example", 1), [&records, &[], &[]]);
        assert_eq!(outcome(&bytes), expected, "{count} aliases");
    }
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

#[test]
fn records_that_were_not_asked_for_are_left_out() {
    let answers = [
        Rr("www.example.org", 5, 300, name("web.example.net")),
        Rr("bank.example", 1, 300, vec![192, 0, 2, 66]),
        Rr("web.example.net", 1, 300, vec![192, 0, 2, 1]),
        Rr("WEB.example.net", 1, 300, vec![192, 0, 2, 2]),
    ];
    let authority = [
        Rr("example.net", 2, 300, name("ns.bank.example")),
        Rr("bank.example", 6, 300, soa(60)),
        Rr("net", 6, 300, soa(60)),
    ];
    let additional = [Rr("ns.bank.example", 1, 300, vec![192, 0, 2, 66])];
    let bytes = message(
        1,
        0x8580,
        ("www.example.org", 1),
        [&answers, &authority, &additional],
    );
    let expected = "www.example.org. 300 IN CNAME web.example.net.\n\
                    web.example.net. 300 IN A 192.0.2.1\n\
                    web.example.net. 300 IN A 192.0.2.2\n\
                    --\n\
                    net. 300 IN SOA ns.example.org. admin.example.org. 1 2 3 4 60\n";
    assert_eq!(passed(&bytes, ASKED), expected);
    // Records of another class are no answers.
    let mut chaos = message(1, 0x8180, ("www.example.org", 1), [&answers[2..], &[], &[]]);
    chaos[30] = 3;
    assert_eq!(passed(&chaos, ASKED), "--\n");
    let mut chaos = message(1, 0x8180, ("www.example.org", 1), [&answers, &[], &[]]);
    // The class of the alias, after the question and its owner.
    chaos[33 + 17 + 3] = 3;
    assert_eq!(
        passed(&chaos, ASKED),
        "--\n",
        "what a foreign alias leads to was not asked for"
    );
}

#[test]
fn proofs_are_for_those_who_want_them() {
    let rrsig = |covered: u16| [&covered.to_be_bytes()[..], &[8, 3], &[0; 14], b"\x00sig"].concat();
    let answers = [
        Rr("www.example.org", 1, 300, vec![192, 0, 2, 1]),
        Rr("www.example.org", 46, 300, rrsig(1)),
    ];
    let nsec = [&name("x.example.org")[..], &[0, 1, 0x40]].concat();
    let authority = [
        Rr("example.org", 2, 300, name("ns.example.org")),
        Rr("example.org", 46, 300, rrsig(2)),
        Rr("a.example.org", 47, 300, nsec),
        Rr("a.example.org", 46, 300, rrsig(47)),
    ];
    let bytes = message(
        1,
        0x8180,
        ("www.example.org", 1),
        [&answers, &authority, &[]],
    );
    let count = |asked| {
        let response = Response::read(Message::parse(&bytes).unwrap(), asked).unwrap();
        Section::ALL.map(|section| response.kept(section).count())
    };
    assert_eq!(count(ASKED), [1, 0, 0]);
    let with_do = Asked {
        is_dnssec_ok: true,
        ..ASKED
    };
    assert_eq!(count(with_do), [2, 2, 0]);
    // A query for the type itself gets the records.
    for (qtype, expected) in [(46, 1), (255, 2)] {
        let bytes = message(1, 0x8180, ("www.example.org", qtype), [&answers, &[], &[]]);
        let response = Response::read(Message::parse(&bytes).unwrap(), ASKED).unwrap();
        let kept = response.kept(Section::Answer);
        let kept = kept.filter(|record| qtype == 255 || record.rtype.0 == qtype);
        assert_eq!(kept.count(), expected, "{qtype}");
    }
}

#[test]
fn addresses_have_the_length_of_their_type() {
    for (rtype, len, is_one) in [
        (1, 0, false),
        (1, 3, false),
        (1, 4, true),
        (1, 5, false),
        (28, 0, false),
        (28, 4, false),
        (28, 15, false),
        (28, 16, true),
        (28, 17, false),
    ] {
        let answers = [Rr("www.example.org", rtype, 300, vec![7; len])];
        let bytes = message(1, 0x8180, ("www.example.org", rtype), [&answers, &[], &[]]);
        let expected = if is_one {
            Ok(Outcome::Answer)
        } else {
            Err(WireError::Rdata)
        };
        assert_eq!(outcome(&bytes), expected, "type {rtype}, {len} bytes");
    }
}

/// A response whose first record is of another name, so that the records after it are written anew. Names in
/// `data` may point to the question, which has mixed case.
fn written_anew(qtype: u16, owner: &[u8], data: &[u8]) -> Vec<u8> {
    let other = [Rr("bank.example", 1, 300, vec![192, 0, 2, 66])];
    let mut bytes = message(1, 0x8180, ("wWw.eXample.ORG", qtype), [&other, &[], &[]]);
    bytes[7] = 2;
    bytes.extend(owner);
    bytes.extend(qtype.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 1, 44]);
    let len = u16::try_from(data.len()).expect("short");
    bytes.extend(len.to_be_bytes());
    bytes.extend(data);
    let response = Response::read(Message::parse(&bytes).expect("whole"), ASKED).expect("plain");
    let mut out = vec![0; 512];
    let body = response.write_body(&mut out).expect("room");
    out.truncate(body.len);
    out
}

#[test]
fn names_in_data_that_is_written_anew_are_whole_and_in_lower_case() {
    // `eXample.ORG` is at offset 16.
    let naptr = b"\0\x0a\0\x01\x01S\x07SIP+D2U\0\x04_sip\xc0\x10";
    let full = b"\x07example\x03org\0";
    for (qtype, data, expected) in [
        (35, &naptr[..], [&naptr[..20], full].concat()),
        (
            15,
            b"\0\x0a\x02MX\xc0\x10",
            [&b"\0\x0a\x02MX"[..], full].concat(),
        ),
        (16, b"\x03TxT", b"\x03TxT".to_vec()),
    ] {
        let written = written_anew(qtype, &[0xc0, 12], data);
        let message = Message::parse(&written).expect("it was written here");
        let record = message.records(Section::Answer).next().expect("a record");
        assert_eq!(record.rdata, expected, "type {qtype}");
    }
    // The strings must end before the replacement.
    let cut = [Rr("www.example.org", 35, 300, naptr[..12].to_vec())];
    let bytes = message(1, 0x8180, ("www.example.org", 35), [&cut, &[], &[]]);
    assert!(outcome(&bytes).is_err());
}

#[test]
fn names_below_a_dname_bring_it_along() {
    let answers = [
        Rr("example.org", 39, 300, name("example.net")),
        Rr("www.example.org", 5, 300, name("www.example.net")),
        Rr("www.example.net", 1, 300, vec![192, 0, 2, 1]),
        Rr("example.com", 39, 300, name("bank.example")),
    ];
    let bytes = message(1, 0x8180, ("www.example.org", 1), [&answers, &[], &[]]);
    let response = Response::read(Message::parse(&bytes).unwrap(), ASKED).unwrap();
    assert_eq!(response.kept(Section::Answer).count(), 3);
    assert_eq!(response.outcome(), Outcome::Answer);
}

#[test]
fn an_alias_that_is_asked_for_keeps_the_dname_that_made_it() {
    let answers = [
        Rr("example.org", 39, 300, name("example.net")),
        Rr("www.example.org", 5, 300, name("www.example.net")),
        Rr("example.com", 39, 300, name("bank.example")),
    ];
    let bytes = message(1, 0x8180, ("www.example.org", 5), [&answers, &[], &[]]);
    let response = Response::read(Message::parse(&bytes).unwrap(), ASKED).unwrap();
    assert_eq!(response.kept(Section::Answer).count(), 2);
}

#[test]
fn unknown_types_pass_byte_for_byte() {
    // `c0 0c` would be a pointer in the data of a type with names.
    let data = b"\xc0\x0c\x00\xff\xc0\xff".to_vec();
    let answers = [
        Rr("other.example", 1, 1, vec![0; 4]),
        Rr("www.example.org", 65_400, 300, data.clone()),
    ];
    let bytes = message(1, 0x8180, ("www.example.org", 65_400), [&answers, &[], &[]]);
    let response = Response::read(Message::parse(&bytes).unwrap(), ASKED).unwrap();
    let mut out = [0; 512];
    let body = response.write_body(&mut out).unwrap();
    let written = Message::parse(&out[..body.len]).unwrap();
    let record = written.records(Section::Answer).next().unwrap();
    assert_eq!(record.rdata, data);
}

#[test]
fn ttls_are_brought_within_the_policy_and_aged() {
    let answers = [
        Rr("www.example.org", 1, 0xffff_ffff, vec![192, 0, 2, 1]),
        Rr("www.example.org", 1, 10, vec![192, 0, 2, 2]),
    ];
    let authority = [Rr("example.org", 6, 3600, soa(7))];
    let mut bytes = message(
        1,
        0x8180,
        ("www.example.org", 1),
        [&answers, &authority, &[]],
    );
    let policy = TtlPolicy { min: 30, ..POLICY };
    let mut offsets = TtlOffsets::default();
    let lifetime = apply_policy(&mut bytes, &policy, None, &mut offsets);
    assert_eq!(lifetime, Ok(Some(Lifetime::Positive(30))));
    let ttls = |bytes: &[u8]| {
        let message = Message::parse(bytes).unwrap();
        let records = Section::ALL
            .into_iter()
            .flat_map(|section| message.records(section));
        records.map(|record| record.ttl).collect::<Vec<_>>()
    };
    assert_eq!(ttls(&bytes), [86_400, 30, 3600]);
    age_ttls(&mut bytes, offsets.as_slice().iter().copied(), 40, 0);
    assert_eq!(ttls(&bytes), [86_360, 0, 3560]);
    age_ttls(&mut bytes, offsets.as_slice().iter().copied(), 86_355, 30);
    assert_eq!(ttls(&bytes), [30, 30, 30]);
    // With more records than can be cached, TTLs are limited too.
    let many: Vec<Rr<'_>> = (0..600)
        .map(|_| Rr("a", 1, 200_000, vec![192, 0, 2, 1]))
        .collect();
    let mut bytes = message(1, 0x8180, ("a", 1), [&many, &[], &[]]);
    let lifetime = apply_policy(&mut bytes, &policy, None, &mut offsets);
    assert_eq!(lifetime, Ok(None));
    assert!(ttls(&bytes).iter().all(|ttl| *ttl == 86_400));
}

#[test]
fn a_denial_is_kept_no_longer_than_its_soa_says() {
    let authority = [Rr("example.org", 6, 90_000, soa(7))];
    for (ttl, policy, expected) in [
        (7, POLICY, 7),
        (90_000, POLICY, 3600),
        (7, TtlPolicy { min: 30, ..POLICY }, 30),
    ] {
        let mut bytes = message(1, 0x8183, ("www.example.org", 1), [&[], &authority, &[]]);
        let mut offsets = TtlOffsets::default();
        let lifetime = apply_policy(&mut bytes, &policy, Some(ttl), &mut offsets);
        assert_eq!(lifetime, Ok(Some(Lifetime::Negative(expected))));
        // The TTL for clients is limited too.
        let message = Message::parse(&bytes).unwrap();
        assert_eq!(
            message.records(Section::Authority).next().unwrap().ttl,
            expected
        );
    }
}

proptest! {
    /// Mutations of real messages: parsing terminates, and passed-on records can be parsed again.
    #[test]
    fn mutated_messages_are_read_or_refused(
        index in 0..10_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let (_, _, mut bytes) = captured().swap_remove(index);
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(message) = Message::parse(&bytes)
            && let Ok(response) = Response::read(message, ASKED)
        {
            let mut out = vec![0; 65_535];
            if let Ok(body) = response.write_body(&mut out) {
                let again = Message::parse(&out[..body.len]).expect("it was written here");
                prop_assert!(Response::read(again, ASKED).is_ok());
            }
        }
    }
}

#[test]
fn private_addresses_are_seen_in_what_is_passed_on() {
    use steppe_dns::rebinding::private_address;
    let alias = || Rr("www.example.org", 5, 300, name("web.example.net"));
    let found = |qtype, answers: &[Rr<'_>]| {
        let bytes = message(1, 0x8180, ("www.example.org", qtype), [answers, &[], &[]]);
        let response =
            Response::read(Message::parse(&bytes).expect("whole"), ASKED).expect("plain");
        private_address(&response)
    };
    let address = |owner, bytes: &[u8]| {
        Rr(
            owner,
            if bytes.len() == 4 { 1 } else { 28 },
            60,
            bytes.to_vec(),
        )
    };
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    let https = [&[0, 1, 0][..], &[0, 4, 0, 4, 10, 0, 0, 1]].concat();
    let ten = Some([10, 0, 0, 1].into());
    assert_eq!(
        found(1, &[alias(), address("web.example.net", &[10, 0, 0, 1])]),
        ten
    );
    assert_eq!(
        found(28, &[address("www.example.org", &mapped)]),
        Some(mapped.into())
    );
    assert_eq!(found(65, &[Rr("www.example.org", 65, 60, https)]), ten);
    assert_eq!(
        found(1, &[address("www.example.org", &[192, 0, 2, 1])]),
        None
    );
    // Records that are not passed on are not checked.
    assert_eq!(found(1, &[address("bank.example", &[10, 0, 0, 1])]), None);
}
