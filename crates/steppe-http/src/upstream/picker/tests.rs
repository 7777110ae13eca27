//! Shares, turns and movements of every policy, with seeds that make chance repeat itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use steppe_net::ServerAddress;

use super::*;
use crate::config::HashOn;

const SEED: u64 = 7;

fn state(port: u16) -> Arc<TargetState> {
    let ip = Ipv4Addr::LOCALHOST;
    let server = ServerAddress::Ip(SocketAddr::from((ip, port)));
    Arc::new(TargetState::new(server, IpAddr::V4(ip), Instant::now()))
}

fn candidates(weights: &[u64]) -> Vec<Candidate> {
    let ports = 1..;
    weights
        .iter()
        .zip(ports)
        .enumerate()
        .map(|(index, (weight, port))| Candidate::new(state(port), index, weight * WEIGHT_STEPS))
        .collect()
}

fn picker(balance: Balance, weights: &[u64]) -> Picker {
    let mut picker = Picker::new(balance, 0, SEED);
    picker.replace(candidates(weights));
    picker
}

fn counts(picker: &mut Picker, picks: usize) -> Vec<u64> {
    let mut counts = vec![0; picker.candidates.len()];
    for _ in 0..picks {
        counts[picker.pick(Wanted::default()).expect("there are some")] += 1;
    }
    counts
}

#[test]
fn round_robin_is_exact_and_smooth() {
    let mut picker = picker(Balance::RoundRobin, &[5, 1, 1]);
    let turns: Vec<_> = (0..7)
        .filter_map(|_| picker.pick(Wanted::default()))
        .collect();
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
    assert_eq!(counts(&mut picker, 7_000), [5_000, 1_000, 1_000]);
}

#[test]
fn workers_start_at_different_servers() {
    let mut firsts = Vec::new();
    for worker in 0..3 {
        let mut picker = Picker::new(Balance::RoundRobin, worker, SEED);
        picker.replace(candidates(&[1, 1, 1]));
        firsts.extend(picker.pick(Wanted::default()));
    }
    assert_eq!(firsts, [0, 1, 2]);
}

/// With five degrees of freedom, χ² is above 20.5 in one of a thousand fair draws.
#[test]
fn random_follows_the_weights() {
    let weights = [1, 2, 3, 4, 5, 6];
    let mut picker = picker(Balance::Random, &weights);
    let picks = 210_000;
    let counts = counts(&mut picker, picks);
    let chi_square = |weights: &[u64]| -> f64 {
        let sum: u64 = weights.iter().sum();
        let terms = counts.iter().zip(weights).map(|(&count, &weight)| {
            let expected = picks as f64 * weight as f64 / sum as f64;
            (count as f64 - expected).powi(2) / expected
        });
        terms.sum()
    };
    assert!(chi_square(&weights) < 20.5, "{counts:?}");
    // A test that could not fail would prove nothing.
    assert!(chi_square(&[1, 2, 3, 4, 5, 7]) > 100.0, "{counts:?}");
}

#[test]
fn the_least_busy_of_few_is_found_by_share() {
    let mut picker = picker(Balance::LeastRequest, &[1, 1, 4]);
    let busy = |picker: &Picker, at: usize, count: usize| {
        (0..count).for_each(|_| picker.candidates[at].state.begin());
    };
    busy(&picker, 0, 1);
    busy(&picker, 1, 2);
    busy(&picker, 2, 6);
    // (1 + 1) / 1, (2 + 1) / 1, (6 + 1) / 4.
    assert_eq!(picker.pick(Wanted::default()), Some(2));
    busy(&picker, 2, 3);
    assert_eq!(picker.pick(Wanted::default()), Some(0));
}

#[test]
fn equally_busy_servers_have_their_turns() {
    let mut picker = picker(Balance::LeastRequest, &[1, 1, 1]);
    assert_eq!(counts(&mut picker, 300), [100, 100, 100]);
}

#[test]
fn of_many_the_busiest_is_never_the_better_of_two() {
    let mut picker = picker(Balance::LeastRequest, &[1; 20]);
    (0..9).for_each(|_| picker.candidates[3].state.begin());
    let counts = counts(&mut picker, 20_000);
    assert_eq!(counts[3], 0, "{counts:?}");
    let others = counts.iter().enumerate().filter(|&(at, _)| at != 3);
    assert!(others.clone().all(|(_, &count)| count > 800), "{counts:?}");
}

#[test]
fn ewma_prefers_the_fast_ones() {
    let mut picker = picker(Balance::P2cEwma, &[1, 1, 1]);
    let now = Instant::now();
    for (at, ms) in [(0, 5), (1, 200), (2, 5)] {
        picker.candidates[at]
            .state
            .note_latency(Duration::from_millis(ms), now);
    }
    let shares = counts(&mut picker, 3_000);
    assert_eq!(shares[1], 0, "{shares:?}");
    // A crowd at both makes the slow one the better choice again.
    for at in [0, 2] {
        (0..60).for_each(|_| picker.candidates[at].state.begin());
    }
    assert!(counts(&mut picker, 3_000)[1] > 1_500);
}

fn assignments(picker: &mut Picker, keys: u64) -> Vec<Arc<TargetState>> {
    let mut assigned = Vec::new();
    for key in 0..keys {
        let wanted = Wanted {
            key: Some(hash(&key.to_le_bytes())),
            ..Wanted::default()
        };
        let at = picker.pick(wanted).expect("there are some");
        assigned.push(Arc::clone(&picker.candidates[at].state));
    }
    assigned
}

#[test]
fn a_server_that_leaves_takes_only_its_own_keys_along() {
    let keys = 20_000;
    let mut picker = picker(Balance::RingHash(HashOn::Path), &[1; 10]);
    let before = assignments(&mut picker, keys);
    let left = Arc::clone(&picker.candidates[4].state);
    let mut others: Vec<_> = std::mem::take(&mut picker.candidates);
    others.remove(4);
    picker.replace(others);
    let after = assignments(&mut picker, keys);
    let moved = |from: &[Arc<TargetState>], to: &[Arc<TargetState>]| {
        let pairs = from.iter().zip(to);
        pairs
            .filter(|(one, other)| !Arc::ptr_eq(one, other))
            .count() as u64
    };
    let had = before.iter().filter(|one| Arc::ptr_eq(one, &left)).count() as u64;
    assert_eq!(
        moved(&before, &after),
        had,
        "only keys of the one that left"
    );
    assert!(had > keys / 13 && had < keys * 13 / 100, "{had}");
}

#[test]
fn keys_follow_the_weights_and_stay() {
    let keys = 40_000;
    let mut picker = picker(Balance::RingHash(HashOn::Path), &[1, 3]);
    let one = assignments(&mut picker, keys);
    let again = assignments(&mut picker, keys);
    assert!(
        one.iter()
            .zip(&again)
            .all(|(one, other)| Arc::ptr_eq(one, other))
    );
    let first = Arc::clone(&picker.candidates[0].state);
    let share = one.iter().filter(|one| Arc::ptr_eq(one, &first)).count();
    assert!((9_600..10_400).contains(&share), "{share}");
}

#[test]
fn a_server_that_was_tried_is_not_tried_again() {
    for balance in [
        Balance::RoundRobin,
        Balance::LeastRequest,
        Balance::P2cEwma,
        Balance::Random,
        Balance::RingHash(HashOn::Path),
    ] {
        let mut picker = picker(balance, &[1, 1, 1]);
        for _ in 0..100 {
            let mut tried = Vec::new();
            while let Some(at) = picker.pick(Wanted {
                key: Some(1),
                tried: &tried,
                token: None,
            }) {
                tried.push(Arc::clone(&picker.candidates[at].state));
                assert!(tried.len() <= 3, "one was tried twice");
            }
            assert_eq!(tried.len(), 3);
        }
    }
}

#[test]
fn a_cookie_wins_unless_its_server_was_tried() {
    let mut picker = picker(Balance::RoundRobin, &[1, 1, 1]);
    for (token, candidate) in (100..).zip(&mut picker.candidates) {
        candidate.token = token;
    }
    let wanted = Wanted {
        token: Some(102),
        ..Wanted::default()
    };
    assert_eq!([picker.pick(wanted), picker.pick(wanted)], [Some(2); 2]);
    let tried = [Arc::clone(&picker.candidates[2].state)];
    let wanted = Wanted {
        tried: &tried,
        ..wanted
    };
    assert_ne!(picker.pick(wanted), Some(2));
}

#[test]
fn who_stands_in_for_another_keeps_its_own_turn() {
    let mut picker = picker(Balance::RoundRobin, &[1, 1]);
    let mut firsts = Vec::new();
    for _ in 0..4 {
        let first = picker.pick(Wanted::default()).expect("there are some");
        let tried = [Arc::clone(&picker.candidates[first].state)];
        let wanted = Wanted {
            tried: &tried,
            ..Wanted::default()
        };
        assert_eq!(picker.pick(wanted), Some(1 - first));
        firsts.push(first);
    }
    assert_eq!(firsts, [0, 1, 0, 1]);
}
