//! A session of one channel with packets of 10 ms, for tests of sources.

use super::*;
use crate::channel_map::ChannelMap;
use crate::format::Sample;
use crate::packetizer::{Overrun, Settings, Silence};
use crate::ring::Ring;
use crate::ring::tests::ring;

/// Format of the source and of the packets.
pub const FORMAT: Format = Format {
    rate: 48_000,
    channels: 1,
    sample: Sample::S16,
};

/// Bytes of a packet.
pub const PACKET_BYTES: u32 = 960;

/// A session with packets in this ring, and the receiver of its events.
pub fn session(ring: Ring) -> (Session, Receiver<Event>) {
    session_of(ring, Policy::Refuse)
}

/// Like [`session`], with this policy of conversion.
pub fn session_of(ring: Ring, policy: Policy) -> (Session, Receiver<Event>) {
    let settings = Settings {
        format: FORMAT,
        map: ChannelMap::standard(FORMAT.channels),
        packet_frames: 480,
        overrun: Overrun::DropOldest,
        silence: Silence::Emit,
        gate: None,
    };
    let packetizer = Packetizer::new(ring, settings).unwrap();
    let control = Arc::new(Control::default());
    Session::new(packetizer, policy, control, Box::new(|| {}))
}

/// Pushes packets, and returns whether readers were woken for them; clears the wake.
fn is_woken(session: &mut Session, packets: usize) -> bool {
    let data = vec![1; packets * PACKET_BYTES as usize];
    session
        .push(Data::Bytes(&data), Time::of_device(0))
        .unwrap();
    take_wake(session)
}

fn take_wake(session: &Session) -> bool {
    let word = session.packetizer.ring().words(word::DOORBELL);
    word.swap(doorbell::SILENT, SeqCst) == doorbell::RUNG
}

#[test]
fn packets_wait_for_each_other_but_not_for_long() {
    let (mut session, _events) = session(ring(16, PACKET_BYTES));
    assert!(is_woken(&mut session, 1));
    session.group_wakes(Duration::from_millis(20));
    let longest = Duration::from_millis(250);
    assert_eq!(session.turn_max(longest, 0), longest);
    assert!(!is_woken(&mut session, 1));
    let since_ns = session.group.since_ns.unwrap();
    for (passed_ms, left_ms) in [(0, 20), (15, 5), (20, 0), (30, 0)] {
        let left = session.turn_max(longest, since_ns + passed_ms * 1_000_000);
        assert_eq!(left, Duration::from_millis(left_ms));
    }
    assert!(is_woken(&mut session, 1));
    assert_eq!(session.turn_max(longest, since_ns), longest);
    assert!(is_woken(&mut session, 3));
    // The packet has no other to wait for.
    assert!(!is_woken(&mut session, 1));
    let since_ns = session.group.since_ns.unwrap();
    session.wake_if_due(since_ns + 19_999_999);
    assert!(!take_wake(&session));
    session.wake_if_due(since_ns + 20_000_000);
    assert!(take_wake(&session));
    session.wake_if_due(since_ns + 40_000_000);
    assert!(!take_wake(&session));
}

#[test]
fn no_more_packets_wait_than_half_of_the_ring_has_room_for() {
    for (slots, ms, packets) in [(16, 5, 1), (16, 40, 4), (4, 40, 2), (2, 40, 1)] {
        let (mut session, _events) = session(ring(slots, PACKET_BYTES));
        session.group_wakes(Duration::from_millis(ms));
        assert_eq!(session.group.packets, packets, "{slots} slots");
    }
}
