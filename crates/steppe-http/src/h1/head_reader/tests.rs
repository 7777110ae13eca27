//! Requests that come in one piece or several, late, or not at all, of a gateway with one worker, in virtual time.

#[path = "../../../tests/virtual_time/memory.rs"]
mod memory;
#[expect(dead_code, reason = "servers are a part of it too")]
#[path = "../../../tests/virtual_time/site.rs"]
mod site;

use std::time::Duration;

use steppe_net::Phase;
use steppe_testkit::virtual_time::{pass, run, settle};

use super::*;
use crate::config::ListenerTimeouts;
use site::{Client, Origin, Plan, Site, saying};

const HEADER_BYTES: usize = 1024;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);
/// Upper bound of the delay with which a deadline is found.
const LATE: Duration = Duration::from_millis(70);

/// A gateway whose server answers everything with 204.
struct Running(Site);

impl Running {
    fn start() -> Self {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.listener.limits.header_bytes = HEADER_BYTES;
        plan.listener.timeouts = ListenerTimeouts {
            header: HEADER_TIMEOUT,
            idle: IDLE,
            ..ListenerTimeouts::default()
        };
        let answer = saying("HTTP/1.1 204 No Content\r\n\r\n");
        Self(Site::start(plan, [(origin, answer)]))
    }

    /// The statuses of all answers to what is sent in these pieces, until the connection ends.
    async fn statuses(&mut self, pieces: &[&str]) -> Vec<u16> {
        let client = self.sent(pieces).await;
        statuses_of(client).await
    }

    /// A connection that sent these pieces, each of which was read before the next one came.
    async fn sent(&mut self, pieces: &[&str]) -> Client {
        let mut client = self.0.connect().await;
        for piece in pieces {
            client.send(piece).await;
            settle().await;
        }
        client
    }
}

async fn statuses_of(mut client: Client) -> Vec<u16> {
    let said = client.rest().await;
    let answers = said.split("HTTP/1.1 ").skip(1);
    let status = |answer: &str| answer[..3].parse().expect("a status");
    answers.map(status).collect()
}

const LAST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const NEXT: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn heads_are_read_however_they_come() {
    run(async {
        let mut running = Running::start();
        assert_eq!(running.statuses(&[LAST]).await, [204]);
        let pieces = [&LAST[..9], &LAST[9..40], &LAST[40..]];
        assert_eq!(running.statuses(&pieces).await, [204]);
        // Several at once, and the next one in part.
        let several = format!("{NEXT}{NEXT}{}", &LAST[..20]);
        let statuses = running.statuses(&[&several, &LAST[20..]]).await;
        assert_eq!(statuses, [204, 204, 204]);
        // An empty line before it is skipped, in pieces too.
        let after_line = format!("\r\n{LAST}");
        assert_eq!(running.statuses(&[&after_line]).await, [204]);
        assert_eq!(running.statuses(&["\r\n", LAST]).await, [204]);
        assert_eq!(running.statuses(&["\r", "\n", LAST]).await, [204]);
        let after_line = format!("{NEXT}\r\n");
        assert_eq!(running.statuses(&[&after_line, LAST]).await, [204, 204]);
    });
}

#[test]
fn a_head_that_can_not_be_one_is_refused_before_its_end() {
    run(async {
        let mut running = Running::start();
        assert_eq!(running.statuses(&["GET  "]).await, [400]);
        assert_eq!(running.statuses(&["GET / HTTP/2.0"]).await, [505]);
        let long = format!("A: {}", "a".repeat(HEADER_BYTES));
        let statuses = running.statuses(&["GET / HTTP/1.1\r\n", &long]).await;
        assert_eq!(statuses, [431]);
    });
}

#[test]
fn a_head_that_does_not_end_is_waited_for_in_vain() {
    run(async {
        let mut running = Running::start();
        let first = running.sent(&["GET / HT"]).await;
        let next = running.sent(&[NEXT, "GET / HT"]).await;
        pass(HEADER_TIMEOUT - LATE).await;
        assert!(first.is_waiting() && !next.has_ended());
        pass(2 * LATE).await;
        assert_eq!(statuses_of(first).await, [408]);
        assert_eq!(statuses_of(next).await, [204, 408]);
    });
}

#[test]
fn half_an_empty_line_is_no_request_and_told_nothing() {
    run(async {
        let mut running = Running::start();
        let after_line = format!("{NEXT}\r\n");
        for (said, expected) in [("", 0), ("\r\n", 0), ("\r", 0), (&after_line, 1)] {
            let client = running.sent(&[said]).await;
            pass(IDLE - LATE).await;
            assert!(!client.has_ended(), "{said:?}");
            pass(2 * LATE).await;
            let answered = statuses_of(client).await;
            assert_eq!(answered, vec![204; expected], "{said:?}");
        }
    });
}

#[test]
fn a_drain_ends_connections_that_were_served_and_lets_new_ones_ask() {
    run(async {
        let mut running = Running::start();
        let (mut served, mut new) = (running.sent(&[]).await, running.sent(&[]).await);
        for _ in 0..2 {
            served.send(NEXT).await;
            assert!(served.response().await.starts_with("HTTP/1.1 204"));
            // It is kept though nothing comes for a while.
            pass(Duration::from_secs(1)).await;
            assert!(served.is_waiting());
        }
        running.0.drain.enter(Phase::Draining);
        assert_eq!(served.rest().await, "");
        new.send(NEXT).await;
        let said = new.response().await;
        assert!(said.contains("\r\nconnection: close\r\n"), "{said}");
    });
}

#[test]
fn so_many_starved_heads_wait_and_who_leaves_makes_room() {
    let places = Rc::default();
    let mut waiting: Vec<_> = (0..STARVED_HEADS_MAX)
        .map(|_| StarvedHead::new(&places).expect("room"))
        .collect();
    assert!(StarvedHead::new(&places).is_none());
    waiting.pop();
    assert!(StarvedHead::new(&places).is_some());
    drop(waiting);
    assert_eq!(places.get(), 0);
}
