//! The system calls of a request on a kept-alive connection.
//!
//! Two receives and two sends are the minimum for a proxy that waits for readiness; each wait is shared by the
//! connections that are ready together. Any other call would be a defect.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use steppe_testkit::{Nginx, NodeConfig, Peer, Steppe, Strace, heavy, skip};

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 60;
const REQUESTS: u64 = (CONNECTIONS * ROUNDS) as u64;

#[test]
fn a_request_costs_two_receives_two_sends_and_a_share_of_a_wait() {
    counts_are_the_least(&NodeConfig::plain());
}

/// Lines are passed on in whole buffers, and written by a thread of their own.
#[test]
fn the_access_log_adds_none() {
    let config = NodeConfig::plain()
        .set("log.access.file", "{scratch}/access.log")
        .set("log.access.format", "json");
    counts_are_the_least(&config);
}

fn counts_are_the_least(config: &NodeConfig) {
    let _alone = heavy();
    let nginx = Nginx::start("location / { return 200 0123456789; }");
    let node = Steppe::builder()
        .with("origin", nginx.address())
        .start(config);
    let mut peers: Vec<Peer> = (0..CONNECTIONS).map(|_| node.connect()).collect();
    // Connections at both sides are established, and buffers have their final size, before calls are counted.
    rounds(&mut peers, 5);
    // On a busy machine requests take longer, so periodic work is a larger share, and more connections to the server
    // are opened: calls that one of three runs does without are not part of a request.
    let mut wrong = String::new();
    for _ in 0..3 {
        let strace = match Strace::attach(node.id()) {
            Ok(strace) => strace,
            Err(reason) => return skip("syscalls", &reason),
        };
        let start = Instant::now();
        rounds(&mut peers, ROUNDS);
        let counts = strace.finish();
        match judge(&counts, start.elapsed()) {
            Ok(()) => return,
            Err(counts) => wrong = counts,
        }
    }
    panic!("three times, at last: {wrong}");
}

/// Checks that these calls are the fewest that the requests need, in the time that they took; an error lists the kind
/// with too many.
fn judge(counts: &BTreeMap<String, u64>, took: Duration) -> Result<(), String> {
    // The slack covers a node's periodic work, whatever the load, and the calls of the access log's thread, which takes a
    // buffer of many lines at a time; one more call per request is at least four times the slack.
    let seconds = took.as_secs().min(10);
    let slack = REQUESTS / 20 + REQUESTS / 50 * seconds;
    // With fewer than two receives or sends, strace would have lost the worker.
    let kinds = [(RECEIVES, 2 * REQUESTS), (SENDS, 2 * REQUESTS), (WAITS, 0)];
    let mut others: BTreeMap<_, _> = counts.iter().collect();
    for (names, least) in kinds {
        let these: BTreeMap<_, _> = others
            .extract_if(.., |name, _| names.contains(&name.as_str()))
            .collect();
        if !(least..=2 * REQUESTS + slack).contains(&these.values().copied().sum::<u64>()) {
            return Err(format!("{these:?}"));
        }
    }
    match others.values().copied().sum::<u64>() <= slack {
        true => Ok(()),
        false => Err(format!("{others:?}")),
    }
}

const RECEIVES: &[&str] = &["recvfrom", "recvmsg", "read", "readv"];
const SENDS: &[&str] = &["sendto", "sendmsg", "write", "writev"];
const WAITS: &[&str] = &["epoll_wait", "epoll_pwait", "epoll_pwait2"];

/// Sends one request on every connection before it reads the first response, so that many are ready together.
fn rounds(peers: &mut [Peer], count: usize) {
    for _ in 0..count {
        for peer in &mut *peers {
            peer.send("GET / HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n");
        }
        for peer in &mut *peers {
            assert_eq!(peer.response().text(), "0123456789");
        }
    }
}
