//! Many clients that wait for memory: they cost no processor time, and their memory is freed.

use std::time::{Duration, Instant};

use steppe_testkit::{NodeConfig, PATIENCE, WorkerTime, heavy, raise_file_limit, skip};

use super::*;

/// True if enough files can be opened for `connections`, at both ends.
fn has_files(test: &str, connections: u64) -> bool {
    let files = raise_file_limit();
    let is_enough = files > 2 * connections;
    if !is_enough {
        skip(test, &format!("{files} open files are too few"));
    }
    is_enough
}

/// The time that the worker's thread takes in a window.
fn worker_time_of(node: &Steppe, window: Duration) -> WorkerTime {
    let before = WorkerTime::now(node.id());
    std::thread::sleep(window);
    WorkerTime::now(node.id()) - before
}

/// Opens connections until one is refused for lack of memory.
fn fill_with_idle(node: &Steppe, most: usize) -> Vec<Peer> {
    let mut idle = Vec::new();
    loop {
        assert!(idle.len() < most, "the budget is never used up");
        let mut peer = node.connect();
        peer.patience(Duration::from_millis(1));
        // An accepted connection gets no answer, so each look costs its whole patience: one
        // connection in 512 is looked at.
        let is_refused = idle.len() % 512 == 0 && {
            peer.patience(Duration::from_millis(200));
            peer.try_head().is_ok()
        };
        peer.patience(PATIENCE);
        if is_refused {
            return idle;
        }
        idle.push(peer);
    }
}

/// A client that waits for budget costs no processor time until some is freed.
#[test]
fn measured_one_byte_of_each_of_a_crowd_costs_nothing_while_the_budget_is_full() {
    const TEST: &str =
        "measured_one_byte_of_each_of_a_crowd_costs_nothing_while_the_budget_is_full";
    const CROWD: usize = 300;
    let _alone = heavy();
    if !has_files(TEST, 7_000) {
        return;
    }
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().memory_budget("16MiB").listener(|l| {
        l.set("limits.connections", 7000)
            .set("timeouts.header", "60s")
            .set("timeouts.idle", "600s")
    });
    let node = start(origin.address(), &config);
    let window = Duration::from_secs(2);
    let alone = worker_time_of(&node, window);
    let mut idle = fill_with_idle(&node, 7_000);
    for peer in &mut idle[..CROWD] {
        peer.send("G");
    }
    eventually("the crowd's bytes are seen", || {
        waits_calmly(&worker_time_of(&node, Duration::from_millis(200)))
    });
    let crowded = worker_time_of(&node, window);
    println!(
        "{} connections: alone {alone:?}, crowded {crowded:?}",
        idle.len()
    );
    assert!(
        crowded.cpu <= alone.cpu + window / 20,
        "alone {alone:?}, crowded {crowded:?}"
    );
    assert!(
        crowded.switches < alone.switches + CROWD as u64,
        "alone {alone:?}, crowded {crowded:?}"
    );
    // The requests are served as soon as there is memory.
    idle.truncate(CROWD);
    for peer in &mut idle {
        assert_eq!(peer.send(&GET[1..]).response().status(), 200);
    }
}

/// True if the worker was on a processor for less than a fifth of a window of 200 ms.
fn waits_calmly(time: &WorkerTime) -> bool {
    time.cpu < Duration::from_millis(40)
}

/// Heads that hold memory and need more must not wait for each other for ever.
#[test]
fn memory_of_half_heads_comes_back_when_their_clients_leave() {
    const TEST: &str = "memory_of_half_heads_comes_back_when_their_clients_leave";
    const CROWD: usize = 2_400;
    let _alone = heavy();
    if !has_files(TEST, CROWD as u64 + 100) {
        return;
    }
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().memory_budget("16MiB").listener(|l| {
        l.set("limits.connections", 7000)
            .set("limits.header_bytes", "16KiB")
            .set("timeouts.header", "120s")
            .set("timeouts.idle", "120s")
    });
    // One address stands for many clients.
    let config = config.set("node.client_share", "off");
    let node = start(origin.address(), &config);
    let half = half_head(5 << 10);
    let mut crowd: Vec<Peer> = (0..CROWD)
        .filter_map(|_| {
            let mut peer = node.connect();
            peer.try_send(&half).is_ok().then_some(peer)
        })
        .collect();
    eventually("it is refused or waits", || {
        waits_calmly(&worker_time_of(&node, Duration::from_millis(200)))
    });
    for peer in &mut crowd {
        let _ = peer.try_send(b"\r\n\r\n");
    }
    let (mut served, mut refused, mut cut, mut hung) = (0, 0, 0, 0);
    for peer in &mut crowd {
        match peer.try_head() {
            Ok(Some(head)) if head.status() == 200 => served += 1,
            Ok(Some(head)) => {
                assert_eq!(head.status(), 503);
                refused += 1;
            }
            // A reset that overtook the refusal.
            Ok(None) => cut += 1,
            Err(why) => {
                println!("{why}");
                hung += 1;
            }
        }
    }
    println!("{served} served, {refused} refused, {cut} cut, {hung} hung of {CROWD}");
    assert!(served > 0, "nobody is let finish");
    assert_eq!(hung, 0, "each is told what became of it");
    drop(crowd);
    leave(&node, &half, CROWD);
}

/// Sends as many half heads again, whose clients leave before they are answered.
fn leave(node: &Steppe, half: &[u8], crowd: usize) {
    eventually("the memory is back", || open_connections(node) == 0.0);
    let mut crowd: Vec<Peer> = (0..crowd)
        .filter_map(|_| {
            let mut peer = node.connect();
            peer.try_send(half).is_ok().then_some(peer)
        })
        .collect();
    eventually("it is refused or waits", || {
        waits_calmly(&worker_time_of(node, Duration::from_millis(200)))
    });
    let held = reserved_bytes(node, &listener_account(node));
    for (index, peer) in crowd.iter_mut().enumerate() {
        if index % 2 == 0 {
            peer.reset_at_end();
        }
    }
    drop(crowd);
    let left_at = Instant::now();
    eventually("all connections are gone", || open_connections(node) == 0.0);
    println!("{held} bytes held, back after {:?}", left_at.elapsed());
    for _ in 0..20 {
        assert_eq!(node.exchange(GET).status(), 200);
    }
    eventually("the memory is back", || {
        reserved_bytes(node, &listener_account(node)) == 0
    });
}

/// The first `bytes` of a request's head.
fn half_head(bytes: usize) -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ".to_vec();
    head.resize(bytes, b'a');
    head
}
