//! Streams that the server limits, refuses or resets, and those that expire.

use std::time::Duration;

use steppe_h2::ErrorCode;

use super::super::NotSent;
use super::peer::{
    DATA, END_STREAM, Peer, SETTINGS, frame, goaway, head, reset, response, setting,
};
use super::{STREAMS, asked, content};
use crate::limits::{ATTEMPTS_PER_SOCKET_MAX, HTTPS_STREAMS_FIRST, UPSTREAM_STALL_TIME};

const MAX_CONCURRENT_STREAMS: u16 = 3;

#[test]
fn a_reset_fails_its_query_alone() {
    let mut peer = asked(3);
    let outcomes = peer.receive(&[
        reset(3, ErrorCode::INTERNAL_ERROR),
        head(5),
        reset(5, ErrorCode::CANCEL),
        response(1, &content("ok")),
    ]);
    assert_eq!(
        outcomes,
        "2 failed: the server reset the stream (INTERNAL_ERROR)\n\
         3 failed: the server reset the stream (CANCEL)\n\
         1: ok"
    );
}

#[test]
fn a_goaway_refuses_what_is_above_its_last_stream_and_the_rest_goes_on() {
    let mut peer = asked(3);
    let outcomes = peer.receive(&[goaway(STREAMS[0], ErrorCode::NO_ERROR)]);
    assert_eq!(outcomes, "leaving\n2 refused\n3 refused");
    assert_eq!(peer.client.leaving(), Some(ErrorCode::NO_ERROR));
    assert_eq!(peer.send(4), Err(NotSent::Over));
    assert_eq!(peer.client.queries(), 1);
    assert_eq!(peer.receive(&[response(1, &content("ok"))]), "1: ok");
    assert_eq!(peer.client.queries(), 0);
    // A graceful shutdown names the last stream later.
    let mut peer = asked(2);
    let all = goaway(u32::MAX >> 1, ErrorCode::NO_ERROR);
    assert_eq!(peer.receive(&[all]), "leaving");
    let last = goaway(STREAMS[0], ErrorCode::NO_ERROR);
    assert_eq!(peer.receive(&[last]), "leaving\n2 refused");
}

#[test]
fn the_servers_limit_of_streams_counts_and_may_change() {
    let mut peer = Peer::new();
    peer.receive(&[setting(MAX_CONCURRENT_STREAMS, 0)]);
    assert_eq!(peer.send(1), Err(NotSent::Later));
    peer.receive(&[setting(MAX_CONCURRENT_STREAMS, 2)]);
    assert_eq!(
        [1, 2, 3].map(|id| peer.send(id)),
        [Ok(()), Ok(()), Err(NotSent::Later)]
    );
    peer.receive(&[setting(MAX_CONCURRENT_STREAMS, 1)]);
    assert_eq!(peer.receive(&[response(1, &content("ok"))]), "1: ok");
    assert_eq!(peer.send(3), Err(NotSent::Later), "the limit fell");
    assert_eq!(peer.receive(&[response(3, &content("ok"))]), "2: ok");
    assert_eq!(peer.send(3), Ok(()));
    assert_eq!(peer.sent().len(), 3);
}

#[test]
fn streams_are_bounded_where_the_server_sets_no_limit() {
    let mut peer = Peer::unknown();
    let sent = |peer: &mut Peer| (0..).take_while(|&id| peer.send(id).is_ok()).count();
    let first = std::iter::repeat_with(|| {
        let count = sent(&mut peer);
        peer.frames();
        count
    });
    let first: usize = first.take_while(|&count| count > 0).sum();
    assert_eq!(first, HTTPS_STREAMS_FIRST);
    peer.receive(&[frame(SETTINGS, 0, 0, &[])]);
    let mut all = first;
    loop {
        let count = sent(&mut peer);
        peer.frames();
        all += count;
        if count == 0 {
            break;
        }
    }
    assert_eq!(all, usize::from(ATTEMPTS_PER_SOCKET_MAX));
}

/// A query beyond a limit that was not known yet may be sent again; one that is refused within a known limit may not.
#[test]
fn a_refused_stream_is_sent_again_if_its_limit_was_unknown() {
    let mut peer = Peer::unknown();
    assert_eq!(peer.send(1), Ok(()));
    let outcomes = peer.receive(&[
        setting(MAX_CONCURRENT_STREAMS, 0),
        reset(1, ErrorCode::REFUSED_STREAM),
    ]);
    assert_eq!(outcomes, "1 refused");
    assert_eq!(peer.send(1), Err(NotSent::Later));
    peer.receive(&[setting(MAX_CONCURRENT_STREAMS, 1)]);
    assert_eq!(peer.send(1), Ok(()));
    let outcomes = peer.receive(&[reset(3, ErrorCode::REFUSED_STREAM)]);
    assert_eq!(
        outcomes,
        "1 failed: the server reset the stream (REFUSED_STREAM)"
    );
}

#[test]
fn a_query_without_response_expires_and_what_comes_later_is_discarded() {
    let mut peer = asked(1);
    let begin = peer.now;
    peer.now = begin + Duration::from_secs(1);
    assert_eq!(peer.send(2), Ok(()));
    assert_eq!(peer.client.expires_at(), Some(begin + UPSTREAM_STALL_TIME));
    peer.now = begin + UPSTREAM_STALL_TIME - Duration::from_millis(1);
    assert_eq!(peer.expire(), "");
    peer.receive(&[head(1), frame(DATA, 0, 1, &content("almost"))]);
    peer.now = begin + UPSTREAM_STALL_TIME;
    assert_eq!(peer.expire(), "1 failed: no response in time");
    assert_eq!(peer.receive(&[frame(DATA, END_STREAM, 1, b"!")]), "");
    assert_eq!(peer.receive(&[response(3, &content("ok"))]), "2: ok");
    assert_eq!(peer.client.expires_at(), None);
}
