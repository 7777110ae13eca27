//! Faces a client: a task for the connection, and one for each of its open streams.
//!
//! Without room in the budget
//! - a new stream waits undecoded, for at most `timeouts.header`, or [`ROOM_PATIENCE`](crate::limits::ROOM_PATIENCE)
//!   where more has come behind it: a client's RST_STREAM and WINDOW_UPDATE may be what gives memory back. Then it is
//!   refused with REFUSED_STREAM; trailers, with ENHANCE_YOUR_CALM (`endpoint.rs`, `decide`);
//! - content that comes has the charge of its window (`windows.rs`);
//! - small heads, headers of DATA frames and control frames are written into memory of the connection's reservation;
//!   larger heads wait (`send_head.rs`). Over TLS their records wait for memory of the budget.

mod connection;
mod head;
mod serving;
mod stream;
mod tasks;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use steppe_h2::{Connection, ConnectionMemory, LocalSettings, Memory, Role};
use steppe_mem::{LeavingRoom, Reservation, Waiter};
use steppe_net::{Deadline, Transport, clock};

use self::connection::{ConnectionEnd, ServerConnection};
use self::tasks::StreamTasks;
use super::Http2;
use super::endpoint::EndpointParts;
use super::head::{FIELD_OVERHEAD, PSEUDO_MAX};
use super::link::Link;
use super::reading::{ConnectionInput, SCARCE_READ_BYTES};
use super::windows::Windows;
use crate::codec::DownstreamCodec;
use crate::gateway::{Accepted, ListenerSettings};
use crate::limits::{
    CONNECTION_STREAMS_PART, CONNECTIONS_LEAVE, H2_STREAM_ROOM_BYTES, H2_UNSENT_BYTES,
};
use crate::linger::linger;
use crate::message::TO_PLAIN_HTTP;
use crate::metrics::CloseReason;

impl DownstreamCodec for Http2 {
    fn serve(&self, connection: Accepted) {
        let client = Rc::clone(&connection.client);
        client.spawn(serve(connection));
    }

    fn no_room(&self) -> &'static [u8] {
        NO_ROOM
    }

    fn to_plain_http(&self) -> &'static [u8] {
        TO_PLAIN_HTTP
    }

    fn preface(&self) -> &'static [u8] {
        steppe_h2::frame::PREFACE
    }

    fn alpn(&self) -> &'static [u8] {
        b"h2"
    }
}

/// Empty SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM for no stream (RFC 9113 §6.5, §6.8).
const NO_ROOM: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";

/// Bytes of a connection beside its streams: its state, its task, and what is kept for a budget without room.
const CONNECTION_BYTES: usize = size_of::<Link>()
    + size_of::<StreamTasks>()
    + size_of::<ServerConnection<'_>>()
    + ConnectionMemory::reserved_bytes()
    + SCARCE_READ_BYTES;

#[expect(
    clippy::disallowed_methods,
    reason = "a connection begins, and the deadline of its preface; and it ends"
)]
async fn serve(accepted: Accepted) {
    let Accepted {
        mut transport,
        pending,
        client,
        deadline,
        traffic,
    } = accepted;
    let settings = client.settings();
    let reserved = reserve(&settings, &mut transport, &deadline, clock::now()).await;
    let mut charge = match reserved {
        Ok(charge) => charge,
        Err(None) => return,
        Err(Some(reason)) => {
            client.count_closed(reason);
            return transport.end_now(NO_ROOM);
        }
    };
    if let Err(error) = transport.limit_unsent_bytes(H2_UNSENT_BYTES) {
        tracing::debug!(%error, "cannot limit the unsent bytes of a socket");
    }
    let now = clock::now();
    let lease = settings.lease.clone();
    let reserve = charge.split(ConnectionMemory::reserved_bytes());
    let local = local_settings(&settings);
    let memory = Memory {
        lease: lease.clone(),
        reserve,
    };
    let connection = Connection::new(Role::Server, local, memory, now);
    let windows = Windows::new(lease.clone(), local.concurrent_streams_max as usize);
    let parts = EndpointParts {
        transport,
        reading: ConnectionInput::new(pending, lease, charge.split(SCARCE_READ_BYTES)),
        link: Rc::new(Link::new(connection, windows, traffic)),
        charge,
        has_tables: false,
    };
    let mut connection = ServerConnection::new(parts, Rc::clone(&client), &deadline, now);
    let ended = poll_fn(|cx| connection.poll(cx)).await;
    if !matches!(ended, Err(None)) {
        connection.write_goaway().await;
    }
    connection.cut_streams();
    match ended {
        Err(Some(reason)) => client.count_closed(reason),
        // It is to reach the client.
        Ok(()) => linger(connection.transport(), &deadline, clock::now()).await,
        Err(None) => {}
    }
}

/// The memory of a connection.
///
/// # Errors
/// There is none in time, or before the node drains; `None`: its client has left.
async fn reserve(
    settings: &ListenerSettings,
    transport: &mut Transport,
    deadline: &Deadline,
    now: Instant,
) -> Result<Reservation, ConnectionEnd> {
    let lease = &settings.lease;
    let room = LeavingRoom {
        bytes: CONNECTION_BYTES,
        leaving: lease.account().limit_bytes() / CONNECTIONS_LEAVE,
    };
    let mut waiter = Waiter::default();
    deadline.set(now, settings.timeouts.header);
    poll_fn(|cx| {
        let charge = lease.poll_reserve_leaving(cx, room, &mut waiter);
        if let Poll::Ready(charge) = charge {
            return Poll::Ready(Ok(charge));
        }
        if transport.poll_closed(cx).is_ready() {
            return Poll::Ready(Err(None));
        }
        let is_over = deadline.poll_passed(cx).is_ready() || settings.drain.is_draining();
        if is_over {
            return Poll::Ready(Err(Some(CloseReason::OverBudget)));
        }
        Poll::Pending
    })
    .await
}

fn local_settings(settings: &ListenerSettings) -> LocalSettings {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    // RFC 9113 §6.5.2 counts 32 octets a field line more than we do.
    let limits = &settings.limits;
    let section_bytes = limits.header_bytes + FIELD_OVERHEAD * limits.header_count;
    LocalSettings {
        concurrent_streams_max: small(streams_max(settings)),
        section_bytes_max: small(section_bytes),
        section_lines_max: small(limits.header_count + PSEUDO_MAX),
    }
}

/// Streams that a client may have at once: those of one connection begin with a small part of the budget.
fn streams_max(settings: &ListenerSettings) -> usize {
    let part = settings.lease.account().limit_bytes() / CONNECTION_STREAMS_PART;
    let streams = usize::try_from(part).unwrap_or(usize::MAX) / H2_STREAM_ROOM_BYTES;
    settings.limits.streams.min(streams.max(1))
}
