//! Interleavings of the two sides, by table and at random.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use proptest::prelude::*;

use super::fakes::{Event, Pair};
use super::*;
use Event::{Chunk, End, Fail, Head, Starve, Trailers, Wait};

const SECOND: Duration = Duration::from_secs(1);

const TIMEOUTS: Timeouts = Timeouts {
    request_content: Duration::from_secs(10),
    response_content: Duration::from_secs(20),
    first_byte: Duration::from_secs(30),
    upstream_idle: Duration::from_secs(40),
    total_at: None,
};

/// Passes everything, or what it is told of the final head.
#[derive(Debug, Default)]
struct Pass {
    is_endless: bool,
    refuses: Option<GatewayError>,
    replayed: Vec<Part>,
    interims: usize,
}

impl Tap for Pass {
    fn replay(&mut self) -> Option<Polled<Part>> {
        self.replayed.pop().map(Ok)
    }

    fn interim_head(&mut self, _: &mut ResponseHead) {
        self.interims += 1;
    }

    fn response_head(&mut self, _: &mut ResponseHead, _: Instant) -> Polled<Continue> {
        match self.refuses {
            Some(error) => Err(error),
            None if self.is_endless => Ok(Continue::Endless),
            None => Ok(Continue::Bounded),
        }
    }
}

/// An exchange between two fakes, and the time.
struct Played {
    pair: Pair,
    relay: Relay,
    tap: Pass,
    now: Instant,
}

impl Played {
    fn new(request: &[Event], response: &[Event]) -> Self {
        Self::of(Pair::new(request, response), TIMEOUTS)
    }

    fn of(pair: Pair, timeouts: Timeouts) -> Self {
        let now = Instant::now();
        Self {
            pair,
            relay: Relay::new(timeouts, now),
            tap: Pass::default(),
            now,
        }
    }

    fn poll(&mut self) -> Poll<Polled<Relayed>> {
        let mut cx = Context::from_waker(Waker::noop());
        self.relay.poll(&mut RelayEnv {
            cx: &mut cx,
            now: self.now,
            down: &mut self.pair.down,
            up: &mut self.pair.up,
            tap: &mut self.tap,
        })
    }

    /// Why it ends when nothing happens any more.
    fn time_out(&mut self) -> (Duration, CloseReason) {
        assert!(self.poll().is_pending());
        let at = self
            .relay
            .due()
            .map(|due| due.at)
            .expect("somebody is waited for");
        let waited = at - self.now;
        self.now = at - Duration::from_nanos(1);
        assert!(self.poll().is_pending(), "not before its deadline");
        self.now = at;
        match self.poll() {
            Poll::Ready(Err(error)) => (waited, error.reason),
            other => panic!("{other:?} at the deadline"),
        }
    }

    fn is_over(&mut self, end: Relayed) {
        match self.poll() {
            Poll::Ready(Ok(relayed)) => assert_eq!(relayed, end),
            other => panic!("{other:?}, {:?}, {:?}", self.pair.down, self.pair.up),
        }
    }

    fn fails(&mut self) -> CloseReason {
        match self.poll() {
            Poll::Ready(Err(error)) => error.reason,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn both_directions_go_to_their_ends() {
    let request = [Chunk(b"ab"), Chunk(b"c"), End];
    let response = [Head(103), Head(200), Chunk(b"x"), Chunk(b"yz"), End];
    let mut played = Played::new(&request, &response);
    played.is_over(Relayed::Response);
    assert_eq!(played.pair.up.taken, b"abc");
    assert_eq!(played.pair.up.seen, ["end"]);
    assert_eq!(played.pair.down.taken, b"xyz");
    assert_eq!(played.pair.down.seen, ["103", "200", "end"]);
    assert_eq!(played.tap.interims, 1);
}

#[test]
fn trailers_pass_both_ways() {
    let request = [Chunk(b"a"), Trailers("x-sum")];
    let response = [Head(200), Chunk(b"b"), Trailers("grpc-status")];
    let mut played = Played::new(&request, &response);
    played.is_over(Relayed::Response);
    assert_eq!(played.pair.up.seen, ["end x-sum"]);
    assert_eq!(played.pair.down.seen, ["200", "end grpc-status"]);
}

#[test]
fn a_response_before_the_end_of_its_request_ends_the_exchange() {
    let mut played = Played::new(&[Chunk(b"a"), Wait, End], &[Head(413), Chunk(b"no"), End]);
    played.is_over(Relayed::Response);
    assert_eq!(played.pair.down.taken, b"no");
    assert_eq!(played.pair.up.seen, [""; 0]);
}

#[test]
fn what_a_server_answers_before_it_stops_listening_is_passed_on() {
    let mut played = Played::new(&[Chunk(b"a"), Chunk(b"b"), End], &[Head(401), End]);
    played.pair.up.is_deaf = true;
    played.is_over(Relayed::Response);
    assert_eq!(played.pair.down.seen, ["401", "end"]);
}

#[test]
fn content_that_a_filter_refuses_fails_the_exchange_and_not_the_server() {
    let mut played = Played::new(&[Chunk(b"a"), End], &[Wait]);
    let refused = GatewayError::downstream(CloseReason::BodyTooLarge, 413);
    played.pair.up.flush_error = Some(refused);
    assert_eq!(played.fails(), CloseReason::BodyTooLarge);
}

#[test]
fn a_client_that_leaves_is_missed_after_its_server_stopped_listening_too() {
    let mut played = Played::new(&[Chunk(b"a"), Chunk(b"b"), End], &[Wait]);
    played.pair.up.is_deaf = true;
    assert!(played.poll().is_pending(), "an answer may still come");
    played.pair.down.is_gone = true;
    assert_eq!(played.fails(), CloseReason::ClientGone);
}

#[test]
fn what_an_attempt_before_had_read_goes_first() {
    let mut played = Played::new(&[Chunk(b"c"), End], &[Head(200), End]);
    let lease = played.pair.budget.root().lease();
    let chunk = |bytes: &[u8]| {
        let mut buffer = steppe_mem::Buffer::take(&lease, bytes.len()).expect("room");
        buffer.put(bytes).expect("room");
        Part::Chunk(buffer.into())
    };
    played.tap.replayed = vec![chunk(b"b"), chunk(b"a")];
    played.is_over(Relayed::Response);
    assert_eq!(played.pair.up.taken, b"abc");
}

#[test]
fn a_head_that_is_refused_is_not_put() {
    let mut played = Played::new(&[End], &[Head(503), Chunk(b"x"), End]);
    let error = GatewayError::upstream(CloseReason::UpstreamReset, 503);
    played.tap.refuses = Some(error);
    assert_eq!(played.fails(), CloseReason::UpstreamReset);
    assert!(!played.relay.has_response_begun());
    assert_eq!(played.pair.down.seen, [""; 0]);
}

#[test]
fn a_client_that_leaves_ends_the_exchange_once_its_request_is_whole() {
    let mut played = Played::new(&[Chunk(b"a"), Wait, End], &[Wait]);
    played.pair.down.is_gone = true;
    assert!(played.poll().is_pending(), "content is still to come");
    played.pair.down.proceed();
    assert_eq!(played.fails(), CloseReason::ClientGone);
}

#[test]
fn a_client_that_leaves_is_missed_while_its_content_waits_for_the_server() {
    let mut played = Played::new(&[Chunk(b"a"), Chunk(b"b"), End], &[Wait]);
    played.pair.up.is_stalled = true;
    assert!(played.poll().is_pending());
    played.pair.down.is_gone = true;
    assert_eq!(played.fails(), CloseReason::ClientGone);
}

#[test]
fn a_side_that_fails_ends_the_exchange() {
    let mut played = Played::new(&[Chunk(b"a"), Fail], &[Wait]);
    assert_eq!(played.fails(), CloseReason::UpstreamReset);
    let mut played = Played::new(&[End], &[Head(200), Chunk(b"a"), Fail]);
    assert_eq!(played.fails(), CloseReason::UpstreamReset);
    assert!(played.relay.has_response_begun());
}

/// The side that is waited for determines the deadline, and the reason when it passes.
#[test]
fn each_kind_of_waiting_has_its_deadline() {
    let check = |request: &[Event], response: &[Event], seconds, reason| {
        let mut played = Played::new(request, response);
        let wanted = (seconds * SECOND, reason);
        assert_eq!(played.time_out(), wanted, "{request:?} {response:?}");
    };
    check(&[Wait], &[Wait], 10, CloseReason::BodyTimeout);
    check(&[End], &[Wait], 30, CloseReason::FirstByteTimeout);
    check(
        &[End],
        &[Head(200), Wait],
        40,
        CloseReason::UpstreamIdleTimeout,
    );
    check(&[Starve], &[Wait], 10, CloseReason::OverBudget);
    check(&[End], &[Starve], 30, CloseReason::OverBudget);
    check(&[End], &[Head(200), Starve], 40, CloseReason::OverBudget);
    check(
        &[End],
        &[Head(101), Wait],
        40,
        CloseReason::TunnelIdleTimeout,
    );
}

#[test]
fn a_peer_that_takes_nothing_stalls() {
    let mut played = Played::new(&[End], &[Head(200), Chunk(b"a"), End]);
    played.pair.down.is_stalled = true;
    let wanted = (20 * SECOND, CloseReason::WriteStall);
    assert_eq!(played.time_out(), wanted);
    let mut played = Played::new(&[Chunk(b"a"), Chunk(b"b"), End], &[Wait]);
    played.pair.up.is_stalled = true;
    let wanted = (40 * SECOND, CloseReason::UpstreamIdleTimeout);
    assert_eq!(played.time_out(), wanted);
}

#[test]
fn whatever_moves_puts_its_deadline_off() {
    let mut played = Played::new(&[Wait, Chunk(b"a"), Wait, End], &[Wait, Head(200), End]);
    for _ in 0..2 {
        assert!(played.poll().is_pending());
        played.now += 9 * SECOND;
        played.pair.down.proceed();
    }
    assert!(played.poll().is_pending(), "the request is out");
    let wanted = played.now + TIMEOUTS.first_byte;
    assert_eq!(played.relay.due().map(|due| due.at), Some(wanted));
    played.pair.up.proceed();
    played.is_over(Relayed::Response);
}

#[test]
fn an_interim_response_starts_the_time_for_the_next_head_again() {
    let mut played = Played::new(&[End], &[Wait, Head(103), Wait]);
    assert!(played.poll().is_pending());
    played.now += 29 * SECOND;
    played.pair.up.proceed();
    let wanted = (30 * SECOND, CloseReason::FirstByteTimeout);
    assert_eq!(played.time_out(), wanted);
}

#[test]
fn an_exchange_has_a_time_of_its_own_unless_it_is_an_event_stream() {
    let total_at = |played: &Played| Some(played.now + 5 * SECOND);
    let mut played = Played::new(&[End], &[Wait]);
    played.relay.timeouts.total_at = total_at(&played);
    let wanted = (5 * SECOND, CloseReason::TotalTimeout);
    assert_eq!(played.time_out(), wanted);
    for head in [200, 101] {
        let mut played = Played::new(&[End], &[Head(head), Wait]);
        played.relay.timeouts.total_at = total_at(&played);
        played.tap.is_endless = true;
        let (waited, _) = played.time_out();
        assert_eq!(waited, 40 * SECOND, "{head}");
    }
}

#[test]
fn each_end_of_a_tunnel_closes_by_itself() {
    let request = [End, Chunk(b"a"), End];
    let mut played = Played::new(&request, &[Head(101), Chunk(b"b"), Wait, Chunk(b"c"), End]);
    assert!(played.poll().is_pending(), "the server has more to say");
    assert_eq!(played.pair.up.taken, b"a");
    assert_eq!(played.pair.up.seen, ["end", "tunnel", "end"]);
    assert_eq!(played.pair.down.taken, b"b");
    played.pair.up.proceed();
    played.is_over(Relayed::Tunnel);
    assert_eq!(played.pair.down.taken, b"bc");
}

#[test]
fn an_exchange_that_is_dropped_anywhere_gives_its_memory_back() {
    let request = [Chunk(b"ab"), Chunk(b"c"), Trailers("x")];
    let response = [Head(103), Head(200), Chunk(b"x"), Trailers("y")];
    for polls in 0..40 {
        let coins: VecDeque<bool> = (0..polls * 3).map(|coin| coin % 3 == 2).collect();
        let readiness = Some(Rc::new(RefCell::new(coins)));
        let pair = Pair::with_readiness(&request, &response, readiness);
        let budget = pair.budget.clone();
        let mut played = Played::of(pair, TIMEOUTS);
        for _ in 0..polls {
            if played.poll().is_ready() {
                break;
            }
        }
        drop(played);
        assert_eq!(budget.root().reserved_bytes(), 0, "after {polls} polls");
    }
}

fn contents() -> impl Strategy<Value = Vec<&'static [u8]>> {
    const PIECES: [&[u8]; 4] = [b"a", b"bc", b"def", b"0123456789"];
    proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..8)
}

proptest! {
    /// With either side ready at any time, both contents arrive whole and in order, with at most one part
    /// a direction in flight, which the fakes assert.
    #[test]
    fn contents_arrive_whole_whoever_is_ready_when(
        request in contents(),
        response in contents(),
        interim in 0..3_usize,
        coins in proptest::collection::vec(any::<bool>(), 0..200),
    ) {
        let chunks = |pieces: &[&'static [u8]]| {
            pieces.iter().map(|piece| Chunk(piece)).collect::<Vec<_>>()
        };
        let mut client = chunks(&request);
        client.push(End);
        let mut server = vec![Head(103); interim];
        server.push(Head(200));
        server.extend(chunks(&response));
        server.push(End);
        let polls_max = coins.len() + 1;
        let readiness = Some(Rc::new(RefCell::new(VecDeque::from(coins))));
        let mut played = Played::of(Pair::with_readiness(&client, &server, readiness), TIMEOUTS);
        let mut polls = 0;
        while played.poll().is_pending() {
            polls += 1;
            // Every pending poll has met at least one coin.
            prop_assert!(polls <= polls_max, "it does not end");
        }
        prop_assert_eq!(&played.pair.down.taken, &response.concat());
        let whole = played.pair.up.taken == request.concat();
        // A response that is whole first ends the exchange.
        let is_prefix = request.concat().starts_with(&played.pair.up.taken);
        prop_assert!(whole || is_prefix);
        let budget = played.pair.budget.clone();
        drop(played);
        prop_assert_eq!(budget.root().reserved_bytes(), 0);
    }
}
