//! Memory: charges, a budget without room, and any frames of a server.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::NotSent;
use super::peer::{DATA, Peer, fields, frame, head, response};
use super::{STREAMS, asked, content};

/// Bytes of the client and of three messages.
const HELD_BYTES_MAX: u64 = 400 << 10;

#[test]
fn what_is_held_is_charged_and_given_back() {
    let mut peer = asked(3);
    let before = peer.budget.root().reserved_bytes();
    let mut held = Vec::new();
    for stream in STREAMS {
        peer.receive(&[head(stream)]);
        for _ in 0..4 {
            peer.receive(&[frame(DATA, 0, stream, &[0; 15_000])]);
        }
        held.push(peer.budget.root().reserved_bytes() - before);
    }
    assert!(held[2] >= 3 * 60_000, "{held:?}");
    let lease = peer.budget.root().lease();
    let mut others = Vec::new();
    for bytes in [64 << 10, 4 << 10, 64] {
        others.extend(std::iter::from_fn(|| lease.try_reserve(bytes).ok()));
    }
    assert_eq!(peer.send(4), Err(NotSent::OverBudget));
    drop(others);
    let budget = peer.budget.clone();
    drop(peer);
    drop(lease);
    assert_eq!(budget.root().reserved_bytes(), 0);
}

#[test]
fn a_response_without_room_fails_its_query_alone() {
    let mut peer = asked(2);
    let lease = peer.budget.root().lease();
    // Enough for what the test itself reads into.
    let spare = lease.try_reserve(1 << 10).expect("room");
    let mut others = Vec::new();
    for bytes in [64 << 10, 4 << 10, 64] {
        others.extend(std::iter::from_fn(|| lease.try_reserve(bytes).ok()));
    }
    drop(spare);
    let outcome = peer.receive(&[head(1)]);
    assert_eq!(outcome, "1 failed: over budget");
    drop(others);
    assert_eq!(peer.receive(&[response(3, &content("ok"))]), "2: ok");
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        Just(fields()),
        Just(content("content")),
        Just(vec![0; 16_384]),
        (0..200_u32).prop_map(|number| number.to_be_bytes().to_vec()),
    ]
}

proptest! {
    #[test]
    fn any_frames_end_each_query_once_and_hold_no_more_than_is_charged(
        frames in vec((0..11_u8, any::<u8>(), 0..8_u32, payload()), 0..60),
        read_bytes in 1..20_000_usize,
    ) {
        let mut peer = asked(3);
        peer.read_bytes = read_bytes;
        let mut ended = BTreeSet::new();
        for (kind, flags, stream, payload) in frames {
            let outcomes = peer.receive(&[frame(kind, flags, stream, &payload)]);
            for outcome in outcomes.lines().filter(|outcome| *outcome != "leaving") {
                let (id, _) = outcome.split_at(1);
                prop_assert!(ended.insert(id.to_owned()), "{outcome}");
            }
            prop_assert!(peer.budget.root().reserved_bytes() <= HELD_BYTES_MAX);
        }
        prop_assert_eq!(peer.client.queries() + ended.len(), 3);
        let Peer { budget, client, .. } = peer;
        drop(client);
        prop_assert_eq!(budget.root().reserved_bytes(), 0);
    }
}
