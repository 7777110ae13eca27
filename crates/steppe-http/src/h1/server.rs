//! Faces a client: requests read, responses written, one after the other.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use steppe_net::clock;

use super::Http1;
use super::head_reader::{NextRequest, RequestReader};
use super::server_side::{NO_ROOM, ServerSide};
use crate::codec::DownstreamCodec;
use crate::gateway::{self, Accepted, End, Rejected};
use crate::limits::CONNECTION_BYTES;
use crate::linger::linger;
use crate::message::TO_PLAIN_HTTP;
use crate::metrics::CloseReason;

impl DownstreamCodec for Http1 {
    fn serve(&self, connection: Accepted) {
        let client = Rc::clone(&connection.client);
        let mut connection = RequestReader::new(connection);
        let task = async move { serve(&mut connection).await };
        debug_assert!(
            size_of_val(&task) <= CONNECTION_BYTES,
            "it is charged with less than it takes"
        );
        client.spawn(task);
    }

    fn no_room(&self) -> &'static [u8] {
        NO_ROOM
    }

    fn to_plain_http(&self) -> &'static [u8] {
        TO_PLAIN_HTTP
    }

    fn alpn(&self) -> &'static [u8] {
        b"http/1.1"
    }
}

/// Serves one request after the other.
async fn serve(connection: &mut RequestReader) {
    let mut now = connection.side.began_at();
    loop {
        let completed = match connection.next_request(now).await {
            NextRequest::Closed(reason) => {
                reason.inspect(|&reason| connection.client.count_closed(reason));
                return close_idle(&mut connection.side, reason).await;
            }
            NextRequest::Request(request) => {
                gateway::run(
                    &connection.client,
                    &connection.deadline,
                    &mut connection.side,
                    request,
                )
                .await
            }
            NextRequest::Rejected(error, request) => {
                let request = request.as_ref();
                let rejected = Rejected {
                    error,
                    began_at: connection.side.began_at(),
                    request: request.map(|(line, fields)| line.view(fields)),
                };
                // After it there is no telling where another request begins.
                connection.side.end_requests();
                gateway::reject(
                    &connection.client,
                    &connection.deadline,
                    &mut connection.side,
                    rejected,
                )
                .await
            }
        };
        now = completed.at;
        match completed.end {
            End::Response if connection.side.is_reusable() => {}
            End::Response => return linger_on(connection).await,
            End::Tunnel | End::Aborted => return,
        }
    }
}

/// Ends a connection between two requests. A client that is still there is told, as far as
/// that goes at once: over TLS an end that is not told is a cut. There even one that ended
/// first is told in turn (RFC 8446 §6.1), since it may wait for that.
async fn close_idle(side: &mut ServerSide, reason: Option<CloseReason>) {
    let is_ours = reason.is_some() || side.settings.drain.is_draining();
    let transport = &mut side.wire.transport;
    if is_ours || transport.has_farewell() {
        poll_fn(|cx| {
            let _ = transport.poll_shutdown(cx);
            Poll::Ready(())
        })
        .await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a deadline after the last exchange"
)]
async fn linger_on(connection: &mut RequestReader) {
    connection.side.wire.pending = None;
    linger(
        &mut connection.side.wire.transport,
        &connection.deadline,
        clock::now(),
    )
    .await;
}
