//! Messages: a client's bytes get a response that fits or none, and a server's response is passed on as a
//! message that reads again, with no record that was not asked for.

use steppe_dns::rebinding::private_address;
use steppe_dns::special_use::special_use;
use steppe_dns::wire::{
    Asked, Body, ClientQuery, ExtendedError, Flags, Message, Name, Padding, Rcode, Rejection,
    Reply, Response, Section, Transport, TtlOffsets, TtlPolicy, age_ttls, apply_policy,
    write_rejection,
};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    client(bytes);
    server(bytes);
}

fn client(bytes: &[u8]) {
    let mut out = vec![0; 65_535];
    let is_response = bytes.get(2).is_some_and(|byte| byte & 0x80 != 0);
    let query = match ClientQuery::parse(bytes) {
        Ok(query) => query,
        Err(Rejection::Ignore) => return,
        Err(Rejection::Respond(rcode)) => {
            assert!(!is_response, "a loop");
            let len = write_rejection(bytes, rcode, &mut out).expect("room");
            assert!(len <= bytes.len() + 11, "an amplifier");
            return;
        }
    };
    assert!(!is_response, "a loop");
    let name = Name::from_wire(query.question().qname).expect("it was read");
    assert_eq!(name.to_string().parse(), Ok(name));
    let _ = special_use(&name, query.question().qtype);
    let mut reply = Reply::new(&query, Transport::Udp { payload_max: 1232 });
    reply.padding = Padding::Blocks;
    reply.server_cookie = Some([7; 16]);
    reply.extended_error = Some((ExtendedError::BLOCKED, "why"));
    for rcode in [Rcode::NXDOMAIN, Rcode::BADCOOKIE] {
        let len = reply.negative(rcode, 60, &mut out).expect("room");
        check_reply(&query, &out[..len]);
    }
    reply.transport = Transport::Stream;
    let len = reply.rcode(Rcode::REFUSED, &mut out).expect("room");
    check_reply(&query, &out[..len]);
}

fn check_reply(query: &ClientQuery<'_>, bytes: &[u8]) {
    let seen = Message::parse(bytes).expect("written here");
    assert!(seen.header().flags.has(Flags::QR) && bytes.len() <= 1232);
    assert_eq!(seen.header().id, query.message().header().id);
    assert_eq!(seen.question(), query.question());
    assert_eq!(seen.opt().is_some(), query.message().opt().is_some());
}

fn server(bytes: &[u8]) {
    let asked = Asked {
        cname_depth: 8,
        is_dnssec_ok: bytes.first().is_some_and(|byte| byte & 1 == 1),
    };
    let Ok(response) = Message::parse(bytes).and_then(|message| Response::read(message, asked))
    else {
        return;
    };
    let _ = private_address(&response);
    let mut out = vec![0; 65_535];
    let Ok(body) = response.write_body(&mut out) else {
        return;
    };
    let message = Message::parse(&out[..body.len]).expect("written here");
    assert_eq!(Body::of(&message), body);
    let again = Response::read(message, asked).expect("what is passed on passes again");
    for section in Section::ALL {
        assert_eq!(
            again.kept(section).count(),
            usize::from(message.count(section))
        );
        assert_eq!(again.kept(section).count(), response.kept(section).count());
    }
    let policy = TtlPolicy {
        min: 5,
        max: 86_400,
        negative_max: 3600,
    };
    let mut offsets = TtlOffsets::default();
    if let Ok(Some(lifetime)) = apply_policy(&mut out[..body.len], &policy, None, &mut offsets) {
        assert!((5..=86_400).contains(&lifetime.seconds()));
        age_ttls(
            &mut out[..body.len],
            offsets.as_slice().iter().copied(),
            90_000,
            30,
        );
        let message = Message::parse(&out[..body.len]).expect("only its TTLs changed");
        let records = Section::ALL
            .into_iter()
            .flat_map(|section| message.records(section));
        records.for_each(|record| assert_eq!(record.ttl, 30));
    }
}
