//! The header of the PROXY protocol, which comes before everything else on a connection.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::Buffer;
use steppe_net::{Deadline, Transport};

use super::listener::ListenerSettings;
use crate::limits::{FIRST_REQUEST_GRACE, PROXY_V2_BYTES_MAX, REQUEST_READ_BYTES};
use crate::metrics::CloseReason;
use crate::proxy_protocol::{self, ProxyHeader};

/// The header, and what followed it in the same read.
type Introduction = (ProxyHeader, Option<Buffer>);

/// Reads the header, within the time that a request's head may take.
///
/// # Errors
/// Why there is none; `None`: the peer closed.
pub(super) async fn read_header(
    transport: &mut Transport,
    deadline: &Deadline,
    settings: &ListenerSettings,
) -> Result<Introduction, Option<CloseReason>> {
    deadline.set(Instant::now(), settings.timeouts.header);
    let mut pending = None;
    let mut is_hurried = false;
    poll_fn(|cx| {
        if let Poll::Ready(header) = poll_header(cx, transport, settings, &mut pending) {
            return Poll::Ready(header);
        }
        // As for a first request: a drain does not wait for it long.
        if settings.drain.is_draining() && !is_hurried {
            is_hurried = true;
            deadline.set(Instant::now(), FIRST_REQUEST_GRACE);
        }
        ready!(deadline.poll_passed(cx));
        let reason = if transport.is_starved() {
            CloseReason::OverBudget
        } else {
            CloseReason::HeaderTimeout
        };
        Poll::Ready(Err(Some(reason)))
    })
    .await
}

fn poll_header(
    cx: &mut Context<'_>,
    transport: &mut Transport,
    settings: &ListenerSettings,
    pending: &mut Option<Buffer>,
) -> Poll<Result<Introduction, Option<CloseReason>>> {
    loop {
        let Some(filled) = pending else {
            let read = ready!(transport.poll_read(cx, &settings.lease, REQUEST_READ_BYTES));
            match read {
                Ok(buffer) if !buffer.is_empty() => *pending = Some(buffer),
                Ok(_) | Err(_) => return Poll::Ready(Err(None)),
            }
            continue;
        };
        match proxy_protocol::parse(filled.filled()) {
            Ok(Some((header, bytes))) => {
                filled.consume(bytes);
                filled.compact();
                let rest = pending.take().filter(|rest| !rest.is_empty());
                return Poll::Ready(Ok((header, rest)));
            }
            Ok(None) => {}
            Err(_) => return Poll::Ready(Err(Some(CloseReason::ProxyProtocol))),
        }
        let read = ready!(transport.poll_read_more(cx, filled, PROXY_V2_BYTES_MAX));
        if !matches!(read, Ok(1..)) {
            return Poll::Ready(Err(None));
        }
    }
}
