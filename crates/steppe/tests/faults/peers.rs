//! Servers that break the protocol, among real ones: faults that no correct server can be made to show.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use steppe_testkit::{H2Frame, H2Server, OriginPeer, RawOrigin, Steppe, Wrk, eventually, heavy};

use crate::bench::{Bench, good, retries, settings};

/// The behavior of a [`Moody`] server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mood {
    Well,
    /// Resets the connection.
    Reset,
    /// Answers with bytes that are no HTTP.
    Garbage,
    /// Ends the connection in an orderly way, without a byte.
    Leave,
    /// Ends the connection in the middle of the content, when the client has its first bytes.
    Cut,
    /// Refuses each stream of HTTP/2.
    Refuse,
    /// Announces by GOAWAY that it has processed none of the open streams, and ends the connection.
    GoAway,
}

/// A server that changes its mood on demand.
pub struct Moody {
    pub origin: RawOrigin,
    mood: Arc<AtomicU8>,
}

impl Moody {
    pub fn start() -> Self {
        let mood = Arc::new(AtomicU8::new(Mood::Well as u8));
        let read = Arc::clone(&mood);
        // The other servers are nginx over TCP without TLS.
        let origin = RawOrigin::start_plain(move |peer| serve(peer, &read));
        Self { origin, mood }
    }

    /// Starts a server of HTTP/2.
    pub fn start_h2c() -> Self {
        let mood = Arc::new(AtomicU8::new(Mood::Well as u8));
        let read = Arc::clone(&mood);
        let origin = RawOrigin::start_plain(move |peer| serve_streams(peer, &read));
        Self { origin, mood }
    }

    pub fn be(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::Release);
    }
}

fn serve(peer: &mut OriginPeer, mood: &AtomicU8) {
    while let Ok(Some(_)) = peer.try_head() {
        let mood = mood.load(Ordering::Acquire);
        let is = |of: Mood| mood == of as u8;
        if is(Mood::Reset) {
            peer.reset_at_end();
        }
        let answer: &[u8] = match mood {
            _ if is(Mood::Well) => b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            _ if is(Mood::Garbage) => b"\x16\x03\x01 +OK ready <1896@example>\r\n\r\n",
            _ if is(Mood::Cut) => b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
            _ => return,
        };
        if peer.try_send(answer).is_err() {
            return;
        }
        if is(Mood::Cut) {
            // Waits until the client has the bytes: unread bytes could be taken back by a reset. Only the client knows,
            // and any of the load's connections may be it.
            std::thread::sleep(Duration::from_secs(1));
            return;
        }
    }
}

/// RFC 7541, Appendix A: `:status: 200` is the eighth, `content-length` the 28th, here "5".
const OK: [u8; 5] = [0x88, 0x0f, 13, 1, b'5'];

fn serve_streams(peer: &mut OriginPeer, mood: &AtomicU8) {
    let Some(mut server) = H2Server::begin(peer, &[]) else {
        return;
    };
    let mut answered = 0;
    while let Some(stream) = server.request() {
        let mood = mood.load(Ordering::Acquire);
        let is = |of: Mood| mood == of as u8;
        match mood {
            _ if is(Mood::Well) => {
                let head = H2Frame::new(H2Frame::HEADERS, H2Frame::END_HEADERS, stream, OK);
                server.send(&[head, H2Frame::last_data(stream, *b"hello")]);
                answered = stream;
            }
            _ if is(Mood::Refuse) => server.send(&[H2Frame::refused(stream)]),
            _ if is(Mood::GoAway) => return server.send(&[H2Frame::goaway(answered)]),
            _ if is(Mood::Reset) => {
                peer.reset_at_end();
                return;
            }
            _ if is(Mood::Garbage) => {
                let _ = peer.try_send(b"+OK ready <1896@example>\r\n\r\n");
                return;
            }
            _ => return,
        }
    }
}

/// Puts one of three servers into a bad mood for a while; no client may see an error.
fn survives(mood: Mood, reason: &str) {
    let _alone = heavy();
    let (nginx, moody) = ([good(), good()], Moody::start());
    let [one, other] = nginx.each_ref().map(|each| each.address().to_string());
    let bench = Bench::start(&[one, moody.origin.address().to_string(), other]);
    moody.be(mood);
    bench.wait_until_ejected(1, reason);
    moody.be(Mood::Well);
    bench.wait_until_back(1);
    let node = bench.end_without_error();
    assert!(retries(&node, "tried") >= 3.0, "it was missed");
}

#[test]
fn a_server_resets_connections() {
    survives(Mood::Reset, "ended early");
}

#[test]
fn a_server_answers_garbage() {
    survives(Mood::Garbage, "malformed response");
}

#[test]
fn a_server_leaves_without_a_word() {
    survives(Mood::Leave, "ended early");
}

/// Clients do see errors here: they had the first bytes when the server left.
#[test]
fn a_server_leaves_within_the_content() {
    let _alone = heavy();
    let (nginx, moody) = ([good(), good()], Moody::start());
    let [one, other] = nginx.each_ref().map(|each| each.address().to_string());
    let servers = [one, moody.origin.address().to_string(), other];
    let bench = Bench::load(Steppe::builder(), &servers, |u| {
        settings(u).set("outlier.ejection", "1h")
    });
    bench.wait_until_busy();
    moody.be(Mood::Cut);
    bench.wait_until_ejected(1, "ended early");
    bench.wait_until("what it had is over", |servers| servers[1]["active"] == 0);
    let failures = bench.servers()[1]["failures"].clone();
    let (node, errors) = bench.end();
    let is_cut = |error: &String| error.contains("it ends with") && error.contains("hello");
    assert!(errors.iter().all(is_cut), "{errors:#?}");
    assert!(errors.len() >= 3, "{errors:#?}");
    assert_eq!(retries(&node, "tried"), 0.0, "it is never sent again");
    // Each error is counted by its kind, and against the server.
    assert_eq!(failures, errors.len());
    assert_eq!(closed(&node, "upstream_reset"), errors.len() as f64);
    let again = Wrk::new(&node.url("/"), 32, 1).run();
    assert_eq!((again.refused, again.errors), (0, 0), "{again:?}");
}

#[test]
fn content_that_is_cut_is_not_padded() {
    let moody = Moody::start();
    moody.be(Mood::Cut);
    let node = Steppe::in_front_of(moody.origin.address());
    let answer = node
        .connect()
        .send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .rest();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("content-length: 9"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    eventually("it is counted", || closed(&node, "upstream_reset") == 1.0);
}

fn closed(node: &Steppe, reason: &str) -> f64 {
    let metrics = node.metrics();
    metrics.sum("steppe_http_closed_total", &[("reason", reason)])
}
