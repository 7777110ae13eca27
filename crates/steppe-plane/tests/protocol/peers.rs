//! Peers that are silent, flood, stop, leave or read nothing; and the copies of a large body.

use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_plane::frame::{FrameHeader, FrameType, HEADER_BYTES, Head, Payment, flag};
use steppe_plane::limits::{HELLO_TIMEOUT, RESETS_PER_SECOND_MAX};
use steppe_plane::{
    Connection, Event, HalfLeft, OpenError, Processing, SendError, Side, Status, StreamId,
    Violation,
};

use crate::support::{World, config, feed, written};

const SECOND: Duration = Duration::from_secs(1);

/// Two connections that have exchanged HELLO.
fn pair(now: Instant) -> (Connection, Connection) {
    let mut dialer = Connection::new(config(Side::Dialer), now);
    let mut acceptor = Connection::new(config(Side::Acceptor), now);
    exchange(&mut dialer, &mut acceptor, now);
    (dialer, acceptor)
}

/// Carries the output of both connections, and drops their events.
fn exchange(one: &mut Connection, other: &mut Connection, now: Instant) {
    loop {
        let (to_other, to_one) = (written(one, 1 << 20), written(other, 1 << 20));
        if to_other.is_empty() && to_one.is_empty() {
            return;
        }
        feed(other, &to_other, 1 << 20, now).expect("honest");
        feed(one, &to_one, 1 << 20, now).expect("honest");
    }
}

/// Carries the output of one connection, without taking events.
fn carry(one: &mut Connection, other: &mut Connection, now: Instant) {
    let bytes = written(one, 1 << 20);
    assert!(bytes.len() < 4096, "it fits the inbox");
    let mut room = other.room(&mut []);
    room[1][..bytes.len()].copy_from_slice(&bytes);
    other.filled(bytes.len(), now);
}

fn request(stream: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    Head::request("echo").write(&mut payload);
    let mut header = FrameHeader::new(FrameType::HEADERS, stream);
    header.len = u32::try_from(payload.len()).expect("short");
    [&header.to_bytes()[..], &payload].concat()
}

#[test]
fn a_peer_that_says_nothing_is_dismissed() {
    let now = Instant::now();
    let mut connection = Connection::new(config(Side::Acceptor), now);
    assert_eq!(connection.next_timeout(), Some(now + HELLO_TIMEOUT));
    assert!(connection.next_event(now + SECOND).expect("time").is_none());
    let late = connection.next_event(now + HELLO_TIMEOUT).err();
    assert_eq!(late, Some(Violation::HelloTimeout));
    assert_eq!(connection.next_timeout(), None);
}

#[test]
fn a_silent_peer_is_asked_and_dismissed() {
    let now = Instant::now();
    let (mut dialer, mut acceptor) = pair(now);
    let quiet = now + config(Side::Dialer).quiet;
    assert_eq!(dialer.next_timeout(), Some(quiet));
    assert!(dialer.next_event(quiet).expect("in time").is_none());
    carry(&mut dialer, &mut acceptor, quiet);
    assert!(acceptor.next_event(quiet).expect("in time").is_none());
    let pong = written(&mut acceptor, 4096);
    feed(&mut dialer, &pong, 1, quiet).expect("the answer");
    assert_eq!(
        dialer.next_timeout(),
        Some(quiet + config(Side::Dialer).quiet)
    );
    let later = quiet + config(Side::Dialer).quiet;
    assert!(dialer.next_event(later).expect("asked").is_none());
    let lost = dialer.next_event(later + config(Side::Dialer).patience);
    assert_eq!(lost.err(), Some(Violation::Silent));
}

#[test]
fn pings_are_answered_once() {
    let now = Instant::now();
    let (_, mut acceptor) = pair(now);
    let mut header = FrameHeader::new(FrameType::PING, 0);
    for opaque in 1..=10_000 {
        header.aux = opaque;
        feed(&mut acceptor, &header.to_bytes(), 24, now).expect("valid");
    }
    (header.flags, header.aux) = (flag::ACK, 10_000);
    assert_eq!(written(&mut acceptor, 1 << 20), header.to_bytes());
}

#[test]
fn streams_that_are_reset_at_once_are_a_flood() {
    let now = Instant::now();
    let (_, mut acceptor) = pair(now);
    let mut storm = |count: u32, from: u32, now| {
        (0..count).try_for_each(|index| {
            let stream = 2 * (from + index) + 1;
            feed(&mut acceptor, &request(stream), 1 << 20, now)?;
            let reset = FrameHeader::new(FrameType::RESET, stream);
            feed(&mut acceptor, &reset.to_bytes(), 24, now).map(|_| ())
        })
    };
    let max = RESETS_PER_SECOND_MAX;
    assert_eq!(storm(max, 0, now), Ok(()));
    assert_eq!(storm(max, max, now + SECOND), Ok(()), "another second");
    let flood = storm(1, 2 * max, now + SECOND);
    assert_eq!(flood, Err(Violation::Flood(FrameType::RESET)));
}

#[test]
fn a_peer_that_opens_on_and_reads_nothing_is_dismissed() {
    let now = Instant::now();
    let (_, mut acceptor) = pair(now);
    let mut stream = 1;
    let violation = loop {
        if let Err(violation) = feed(&mut acceptor, &request(stream), 1 << 20, now) {
            break violation;
        }
        acceptor
            .reset(
                StreamId(stream),
                &Status::Overloaded.into(),
                Processing::None,
            )
            .expect("it was opened");
        stream += 2;
        assert!(stream < 100_000, "nothing bounds what waits for it");
    };
    assert_eq!(violation, Violation::Flood(FrameType::HEADERS));
    assert!(acceptor.held_bytes() < 1 << 20, "{}", acceptor.held_bytes());
}

#[test]
fn a_stream_ends_with_its_time_on_both_sides() {
    let now = Instant::now();
    let (mut dialer, mut acceptor) = pair(now);
    let head = Head {
        deadline: Some(SECOND),
        payment: Payment::Granted,
        ..Head::request("echo")
    };
    let stream = dialer.open(&head, now).expect("room");
    carry(&mut dialer, &mut acceptor, now);
    let half = now + SECOND / 2;
    let event = acceptor.next_event(half).expect("valid");
    assert!(matches!(event, Some(Event::Request { head, .. }) if head.deadline == Some(SECOND)));
    acceptor.grant(stream, 5000).expect("open");
    assert_eq!(dialer.next_timeout(), Some(now + SECOND));
    assert_eq!(acceptor.next_timeout(), Some(half + SECOND));
    let event = dialer.next_event(now + SECOND).expect("valid");
    assert!(
        matches!(event, Some(Event::Expired { unspent: 0, .. })),
        "{event:?}"
    );
    // The RESET of the other side is in flight.
    let event = acceptor.next_event(half + SECOND).expect("valid");
    assert!(
        matches!(event, Some(Event::Expired { unspent: 5000, .. })),
        "{event:?}"
    );
    exchange(&mut dialer, &mut acceptor, half + SECOND);
    assert_eq!((dialer.streams(), acceptor.streams()), (0, 0));
}

#[test]
fn a_stop_lets_what_was_made_arrive() {
    let now = Instant::now();
    let (mut dialer, mut acceptor) = pair(now);
    let stream = dialer.open(&Head::request("echo"), now).expect("room");
    dialer.end(stream, &Status::Ok.into()).expect("open");
    exchange(&mut dialer, &mut acceptor, now);
    acceptor.respond(stream, &Head::response()).expect("first");
    for _ in 0..2 {
        dialer
            .stop(stream, &Status::Cancelled.into())
            .expect("open");
    }
    carry(&mut dialer, &mut acceptor, now);
    let event = acceptor.next_event(now).expect("valid");
    assert!(matches!(event, Some(Event::Stopped { .. })), "{event:?}");
    assert!(
        acceptor.next_event(now).expect("valid").is_none(),
        "told once"
    );
    acceptor
        .send(stream, &Bytes::from_static(b"made"), 0)
        .expect("open");
    acceptor
        .end(stream, &Status::Cancelled.into())
        .expect("open");
    carry(&mut acceptor, &mut dialer, now);
    let event = dialer.next_event(now).expect("valid");
    assert!(matches!(event, Some(Event::Response { .. })));
    let event = dialer.next_event(now).expect("valid");
    let Some(Event::Data(part)) = event else {
        panic!("{event:?}");
    };
    let mut message = [0; 4];
    assert_eq!((dialer.take_body(&mut message), &message), (4, b"made"));
    assert_eq!(part.cost, 4 + HEADER_BYTES as u64);
    let event = dialer.next_event(now).expect("valid");
    let Some(Event::Ended { reason, side, .. }) = event else {
        panic!("{event:?}");
    };
    assert_eq!((reason.status, side), (Status::Cancelled, HalfLeft::None));
    assert_eq!(dialer.standing_held(), part.cost);
    dialer.release(stream, part.cost);
    assert_eq!((dialer.standing_held(), dialer.streams()), (0, 0));
}

#[test]
fn whoever_goes_away_says_what_it_did_not_take() {
    let now = Instant::now();
    let (mut dialer, mut acceptor) = pair(now);
    let first = dialer.open(&Head::request("echo"), now).expect("room");
    exchange(&mut dialer, &mut acceptor, now);
    acceptor.drain();
    let second = dialer
        .open(&Head::request("echo"), now)
        .expect("it does not know");
    let crossing = written(&mut dialer, 4096);
    carry(&mut acceptor, &mut dialer, now);
    let event = dialer.next_event(now).expect("valid");
    assert!(matches!(
        event,
        Some(Event::GoingAway {
            code: 0,
            is_drained: false
        })
    ));
    let event = dialer.next_event(now).expect("valid");
    let Some(Event::Reset {
        stream,
        is_unprocessed,
        ..
    }) = event
    else {
        panic!("{event:?}");
    };
    assert_eq!((stream, is_unprocessed), (second, true));
    let third = dialer.open(&Head::request("echo"), now);
    assert_eq!(third, Err(OpenError::GoingAway));
    assert_eq!(
        feed(&mut acceptor, &crossing, 1, now),
        Ok(0),
        "it is not told of it"
    );
    assert!(!acceptor.is_drained());
    acceptor.end(first, &Status::Ok.into()).expect("open");
    dialer.end(first, &Status::Ok.into()).expect("open");
    exchange(&mut dialer, &mut acceptor, now);
    assert!(acceptor.is_drained());
}

#[test]
fn whoever_goes_away_with_no_stream_open_is_drained_at_once() {
    let now = Instant::now();
    let (mut dialer, mut acceptor) = pair(now);
    acceptor.drain();
    assert!(!acceptor.is_drained(), "nobody was told");
    carry(&mut acceptor, &mut dialer, now);
    assert!(acceptor.is_drained());
    let mut told = || match dialer.next_event(now).expect("no violation") {
        Some(Event::GoingAway { is_drained, .. }) => Some(is_drained),
        _ => None,
    };
    assert_eq!([told(), told()], [Some(false), Some(true)]);
}

#[test]
fn a_full_stream_says_when_it_is_not() {
    let now = Instant::now();
    let (mut dialer, mut acceptor) = pair(now);
    let stream = dialer.open(&Head::request("echo"), now).expect("room");
    let message = Bytes::from_static(b"token");
    while dialer.send(stream, &message, 0).is_ok() {}
    assert!(dialer.next_event(now).expect("valid").is_none());
    exchange(&mut dialer, &mut acceptor, now);
    // `exchange` drops events; the next message fits.
    dialer.send(stream, &message, 0).expect("room");
    while dialer.send(stream, &message, 0).is_ok() {}
    let sent = written(&mut dialer, 4096);
    let event = dialer.next_event(now).expect("valid");
    assert!(
        matches!(event, Some(Event::Writable(of)) if of == stream),
        "{event:?}"
    );
    assert!(!sent.is_empty());
}

/// Two connections, and a stream whose body the dialer has announced and sends once it is granted.
fn announced(body: Vec<u8>, now: Instant) -> (Connection, Connection, StreamId) {
    let (mut dialer, mut acceptor) = pair(now);
    let head = Head {
        length: Some(body.len() as u64),
        payment: Payment::Granted,
        ..Head::request("echo")
    };
    let stream = dialer.open(&head, now).expect("room");
    dialer.send(stream, &Bytes::from(body), 0).expect("open");
    dialer.end(stream, &Status::Ok.into()).expect("open");
    exchange(&mut dialer, &mut acceptor, now);
    (dialer, acceptor, stream)
}

/// Checks the reads of a large body with the sizes of a socket's; prints the bytes that were copied.
#[test]
fn a_large_body_is_read_to_its_place() {
    const LEN: usize = 1_000_000;
    let now = Instant::now();
    let body: Vec<u8> = (0..LEN).map(|index| index.to_le_bytes()[0]).collect();
    let (mut dialer, mut acceptor, stream) = announced(body.clone(), now);
    acceptor.grant(stream, 2 * LEN as u64).expect("open");
    let credit = written(&mut acceptor, 4096);
    feed(&mut dialer, &credit, 4096, now).expect("valid");

    let (mut wire, mut message) = (Vec::new(), vec![0; LEN]);
    let (mut copied, mut reads, mut is_ended) = (0, 0, false);
    while !is_ended {
        let mut at = 0;
        while let Some(event) = acceptor.next_event(now).expect("valid") {
            match event {
                Event::Data(part) => at = usize::try_from(part.offset).expect("small"),
                Event::Ended { unspent, .. } => {
                    assert_eq!(unspent, LEN as u64);
                    is_ended = true;
                }
                event => panic!("{event:?}"),
            }
        }
        let left = acceptor.body_left().map_or(0, |(_, left)| left);
        copied += acceptor.take_body(&mut message[at..at + left]);
        wire.extend(written(&mut dialer, 1 << 20));
        let mut count = 0;
        for slice in &mut acceptor.room(&mut message[at..at + left]) {
            let len = slice.len().min(wire.len());
            slice[..len].copy_from_slice(&wire[..len]);
            wire.drain(..len);
            count += len;
        }
        reads += usize::from(count > 0);
        acceptor.filled(count, now);
    }
    assert!(message == body, "as it was sent");
    assert_eq!(copied, 0, "bytes were copied after they were read");
    assert!(reads <= LEN.div_ceil(65_536) + 3, "{reads} reads");
}

#[test]
fn a_body_costs_its_length_however_it_is_split() {
    const LEN: usize = 300_000;
    let now = Instant::now();
    let (mut dialer, mut acceptor, stream) = announced(vec![1; LEN], now);
    let (mut granted, mut delivered) = (0, 0);
    for grant in (1..).map(|index| 1000 * (index % 7) + 1) {
        exchange(&mut dialer, &mut acceptor, now);
        let grant = (LEN as u64 - granted).min(grant);
        acceptor.grant(stream, grant).expect("not ended");
        granted += grant;
        let credit = written(&mut acceptor, 4096);
        feed(&mut dialer, &credit, 4096, now).expect("valid");
        let data = written(&mut dialer, 1 << 20);
        delivered += feed(&mut acceptor, &data, 1 << 20, now).expect("valid");
        if granted == LEN as u64 {
            break;
        }
    }
    assert!(delivered > 20, "{delivered} frames");
    let ended = acceptor.grant(stream, 1);
    assert_eq!(ended, Err(SendError::Gone), "the length was enough");
}

#[test]
fn both_ends_keep_nothing() {
    let mut world = World::connected(None);
    for _ in 0..50 {
        let now = world.now;
        for _ in 0..100 {
            world.ends[0].open(Payment::Granted, None, now);
            world.ends[1].open(Payment::Standing, None, now);
        }
        world.settle();
    }
    for end in &world.ends {
        let held = end.connection.held_bytes();
        assert!(held < 128 << 10, "{held} bytes of an idle connection");
    }
}
