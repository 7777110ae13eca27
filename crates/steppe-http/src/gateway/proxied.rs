//! The header of the PROXY protocol, which comes before everything else on a connection.

use std::future::poll_fn;
use std::task::{Poll, ready};

use steppe_mem::Buffer;
use steppe_net::proxy_protocol::{NoHeader, ProxyHeader, poll_header};
use steppe_net::{Deadline, Transport, clock};

use super::listener::ListenerSettings;
use crate::limits::{FIRST_REQUEST_GRACE, REQUEST_READ_BYTES};
use crate::metrics::CloseReason;

/// The header, and what followed it in the same read.
type Introduction = (ProxyHeader, Option<Buffer>);

/// Reads the header, within the time that a request's head may take.
///
/// # Errors
/// Why there is none; `None`: the peer closed.
#[expect(
    clippy::disallowed_methods,
    reason = "the deadline of a PROXY header begins with the connection"
)]
pub(super) async fn read_header(
    transport: &mut Transport,
    deadline: &Deadline,
    settings: &ListenerSettings,
) -> Result<Introduction, Option<CloseReason>> {
    deadline.set(clock::now(), settings.timeouts.header);
    let mut pending = None;
    let mut is_hurried = false;
    let header = poll_fn(|cx| {
        let room = (&settings.lease, REQUEST_READ_BYTES);
        if let Poll::Ready(header) = poll_header(cx, transport, room, &mut pending) {
            return Poll::Ready(header.map_err(|error| match error {
                NoHeader::Closed => None,
                NoHeader::Malformed(_) => Some(CloseReason::ProxyProtocol),
            }));
        }
        // As for a first request: a drain does not wait for it long.
        if settings.drain.is_draining() && !is_hurried {
            is_hurried = true;
            deadline.set(clock::now(), FIRST_REQUEST_GRACE);
        }
        ready!(deadline.poll_passed(cx));
        let reason = if transport.is_starved() {
            CloseReason::OverBudget
        } else {
            CloseReason::HeaderTimeout
        };
        Poll::Ready(Err(Some(reason)))
    });
    Ok((header.await?, pending))
}
