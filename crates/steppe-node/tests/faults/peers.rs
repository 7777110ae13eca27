//! Servers that break the protocol, among real ones: what no honest server can be made to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use steppe_testkit::{OriginPeer, RawOrigin, heavy};

use crate::bench::{Bench, good, retries};

/// What a [`moody`] server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mood {
    Well,
    /// Resets the connection.
    Reset,
    /// Answers what is no HTTP.
    Garbage,
    /// Ends the connection in an orderly way, without a byte.
    Leave,
}

/// A server that changes its mood when it is told to.
pub struct Moody {
    pub origin: RawOrigin,
    mood: Arc<AtomicU8>,
}

impl Moody {
    pub fn start() -> Self {
        let mood = Arc::new(AtomicU8::new(Mood::Well as u8));
        let read = Arc::clone(&mood);
        let origin = RawOrigin::start(move |peer| serve(peer, &read));
        Self { origin, mood }
    }

    pub fn be(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::Release);
    }
}

fn serve(peer: &mut OriginPeer, mood: &AtomicU8) {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    const GARBAGE: &[u8] = b"\x16\x03\x01 +OK ready <1896@example>\r\n\r\n";
    while let Ok(Some(_)) = peer.try_head() {
        let mood = mood.load(Ordering::Acquire);
        let answer = if mood == Mood::Well as u8 {
            OK
        } else if mood == Mood::Garbage as u8 {
            GARBAGE
        } else {
            if mood == Mood::Reset as u8 {
                peer.reset_at_end();
            }
            return;
        };
        if peer.try_send(answer).is_err() {
            return;
        }
    }
}

/// One of three servers is in a bad mood for a while.
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
    survives(Mood::Garbage, "unreadable response");
}

#[test]
fn a_server_leaves_without_a_word() {
    survives(Mood::Leave, "ended early");
}
