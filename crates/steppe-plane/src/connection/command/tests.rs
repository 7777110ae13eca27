//! The last number of a stream.

use std::time::Duration;

use super::*;
use crate::connection::{Config, Side};
use crate::frame::Hello;

/// A connection that has received HELLO, and whose next stream is `next_id`.
fn connection(next_id: u32, now: Instant) -> Connection {
    let config = Config {
        side: Side::Dialer,
        streams_max: 10,
        stream_credit: 128 << 10,
        connection_credit: 128 << 10,
        quiet: Duration::from_secs(5),
        patience: Duration::from_secs(5),
    };
    let mut connection = Connection::new(config, now);
    connection.peer = Some(Hello {
        oldest: 1,
        newest: 1,
        streams_max: 10,
        stream_credit: 128 << 10,
        connection_credit: 128 << 10,
    });
    connection.next_id = next_id;
    connection
}

#[test]
fn a_connection_drains_with_its_last_number() {
    let now = Instant::now();
    let mut connection = connection(STREAM_ID_MAX - 2, now);
    let head = Head::request("echo");
    for id in [STREAM_ID_MAX - 2, STREAM_ID_MAX] {
        assert_eq!(connection.leaving, Leaving::No);
        assert_eq!(connection.open(&head, now), Ok(StreamId(id)));
    }
    assert_eq!(connection.leaving, Leaving::Draining, "the peer is told");
    assert_eq!(connection.open(&head, now), Err(OpenError::GoingAway));
    for id in [STREAM_ID_MAX - 2, STREAM_ID_MAX] {
        connection.reset(StreamId(id), &Status::Cancelled.into(), Processing::Begun);
    }
    assert_eq!(connection.leaving, Leaving::Drained);
}
