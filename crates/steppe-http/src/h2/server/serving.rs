//! A stream's exchange, from its request to its end.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use steppe_h2::StreamId;
use steppe_mem::Reservation;
use steppe_net::Deadline;

use super::head::ReceivedRequest;
use super::stream::ServerStream;
use crate::gateway::{self, ClientContext, Completed, End, Rejected, Request};
use crate::h2::link::OpenStream;
use crate::h2::websocket;
use crate::limits::LINGER;

/// A request whose exchange begins.
pub(super) struct BegunStream {
    pub(super) client: Rc<ClientContext>,
    pub(super) open: OpenStream,
    pub(super) id: StreamId,
    /// Held until the exchange has taken what it begins with, lest other streams begin on it.
    pub(super) room: Reservation,
    pub(super) received: ReceivedRequest,
    pub(super) began_at: Instant,
}

/// Serves a request to its end.
pub(super) async fn serve_stream(stream: BegunStream, deadline: &Deadline) {
    let BegunStream {
        client,
        open,
        id,
        room,
        received,
        began_at,
    } = stream;
    let settings = client.settings();
    let priority = received.priority();
    let is_to_head = received.is_to_head();
    let read = received.into_head(&settings);
    let mut stream = ServerStream::new((open, id), priority, settings);
    if is_to_head {
        stream.answer_to_head();
    }
    if let Ok(read) = &read
        && read.asks_for_tunnel()
    {
        let key = websocket::key_of(read).filter(|_| !read.is_connect());
        stream.ask_for_tunnel(key.map(<[u8]>::to_vec));
    }
    let completed = match read {
        Ok(head) => {
            let request = Request { head, began_at };
            let exchange = gateway::run(&client, deadline, &mut stream, request);
            begin_with(room, exchange).await
        }
        Err(rejection) => {
            let rejected = Rejected {
                error: rejection.error,
                began_at,
                request: rejection.view(),
            };
            let exchange = gateway::reject(&client, deadline, &mut stream, rejected);
            begin_with(room, exchange).await
        }
    };
    if completed.end == End::Aborted {
        return stream.abort();
    }
    // What the client sends yet would be answered by a reset, and some discard the response then.
    deadline.set(completed.at, LINGER);
    poll_fn(|cx| match stream.poll_drain(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => deadline.poll_passed(cx),
    })
    .await;
}

/// Holds `room` while `exchange` begins.
async fn begin_with(room: Reservation, exchange: impl Future<Output = Completed>) -> Completed {
    let mut exchange = pin!(exchange);
    let mut room = Some(room);
    poll_fn(|cx| {
        let polled = exchange.as_mut().poll(cx);
        room = None;
        polled
    })
    .await
}
