//! The end of a client's connection that the client has not ended.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use steppe_net::{Deadline, Transport};

use crate::limits::{LINGER, LINGER_BYTES_MAX};

/// Ends the sending side, and reads on for a moment so that the client gets to see what it was
/// sent last before the reset that unread bytes would cause.
pub(crate) async fn linger(transport: &mut Transport, deadline: &Deadline, now: Instant) {
    deadline.set(now, LINGER);
    let mut left = LINGER_BYTES_MAX;
    let _ = poll_fn(|cx| transport.poll_shutdown(cx)).await;
    poll_fn(|cx| {
        let mut thrown_away = [0; 4096];
        while let Poll::Ready(read) = transport.poll_read_into(cx, &mut thrown_away) {
            left = left.saturating_sub(read.as_ref().copied().unwrap_or(0));
            if left == 0 || matches!(read, Ok(0) | Err(_)) {
                return Poll::Ready(());
            }
        }
        deadline.poll_passed(cx)
    })
    .await;
}
