//! Clients' connections: queries are pipelined and answered in any order. RFC 7766.
//!
//! Invariant: a connection holds a bounded number of questions, and what its client does not read stops
//! it from being read; all of it is charged. One that neither asks nor reads is closed.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use steppe_net::{Drain, Listener, PeerAddress, Phase, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::clients::Destination;
use super::connection::{Connection, Stage};
use super::decide::Answered;
use super::state::{Handle, turn};
use crate::client::Client;
use crate::limits::{
    CLIENT_IDLE_TIME, CLIENT_READ_BYTES, CLIENT_WRITE_STALL, CONNECTION_BYTES,
    CONNECTIONS_PER_WORKER_MAX,
};

/// A TCP socket that clients connect to.
#[derive(Debug)]
pub(super) struct StreamListener {
    /// As the configuration has it.
    pub(super) address: SocketAddr,
    pub(super) listener: Listener,
}

/// How long nothing is accepted when there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections, until it is aborted.
pub(super) async fn accept(state: Handle, listener: Rc<StreamListener>, drain: Drain) {
    loop {
        match std::future::poll_fn(|cx| listener.listener.poll_accept(cx)).await {
            Ok((stream, peer)) => admit(&state, stream, &peer, &drain),
            Err(error) => {
                tracing::warn!(%error, address = %listener.address, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Accepts what is queued at a listener that is about to close.
pub(super) fn accept_rest(state: &Handle, listener: &StreamListener, drain: &Drain) {
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok((stream, peer))) = listener.listener.poll_accept(&mut cx) {
        admit(state, stream, &peer, drain);
    }
}

/// Serves a connection, if its client is to be answered and there is room.
fn admit(handle: &Handle, stream: Stream, peer: &PeerAddress, drain: &Drain) {
    let (Stream::Tcp(stream), PeerAddress::Ip(peer)) = (stream, *peer) else {
        return;
    };
    let mut state = handle.borrow_mut();
    let is_admitted = state.current.snapshot.admits(&Client::at(peer.ip()));
    if !is_admitted || state.connections.len() >= CONNECTIONS_PER_WORKER_MAX {
        return;
    }
    let Ok(charge) = state.lease.try_reserve(CONNECTION_BYTES) else {
        return;
    };
    let connection = Rc::new(Connection::new(charge));
    let number = state.next_connection;
    state.next_connection += 1;
    state.connections.insert(number, Rc::clone(&connection));
    let (handle, drain) = (Rc::clone(handle), drain.clone());
    tokio::task::spawn_local(async move {
        let served = serve(&handle, stream, (number, &connection), (peer, &drain)).await;
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a client's connection ended");
        }
        handle.borrow_mut().connections.remove(&number);
    });
}

async fn serve(
    state: &Handle,
    mut stream: TcpStream,
    (number, connection): (u64, &Connection),
    (peer, drain): (SocketAddr, &Drain),
) -> io::Result<()> {
    let (reader, writer) = stream.split();
    let read = async {
        let ended = tokio::select! {
            ended = read(state, reader, (number, connection), peer) => ended,
            () = drain.reached(Phase::Draining) => Ok(()),
        };
        connection.stage.set(Stage::Ends);
        connection.changed.notify_waiters();
        ended
    };
    tokio::try_join!(read, write(writer, connection))?;
    Ok(())
}

/// Reads queries until the client ends, or is to.
async fn read(
    state: &Handle,
    mut reader: ReadHalf<'_>,
    (number, connection): (u64, &Connection),
    peer: SocketAddr,
) -> io::Result<()> {
    let mut bytes = vec![0; CLIENT_READ_BYTES].into_boxed_slice();
    let mut filled = 0;
    loop {
        let message = fill(&mut reader, &mut bytes, &mut filled);
        match timeout(CLIENT_IDLE_TIME, message).await {
            Ok(filled) => match filled? {
                Filled::Message => {}
                Filled::End => return Ok(()),
            },
            // It waits for answers, and may then ask more.
            Err(_) if connection.waiting.get() > 0 => continue,
            Err(_) => return Ok(()),
        }
        connection.until(Connection::can_ask).await;
        let Some(message) = message_in(&bytes[..filled]) else {
            continue;
        };
        let taken = 2 + message.len();
        let destination = Destination::Stream { connection: number };
        connection.waiting.set(connection.waiting.get() + 1);
        let client = Client::at(peer.ip());
        let answered = turn(state, |state, now| {
            let answered = state.query(message, destination, &client, now);
            if let Answered::Now(len) = answered {
                connection.push(&state.reply[..len]);
            }
            answered
        });
        match answered {
            Answered::Now(_) => connection.answered(),
            Answered::Later => {}
            Answered::Never => {
                connection.answered();
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        bytes.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// What a read came to.
enum Filled {
    /// There is a whole message.
    Message,
    /// The client has closed its side.
    End,
}

/// Reads until there is a message.
///
/// # Cancel safety
/// Safe: what was read is in the buffer.
async fn fill(
    reader: &mut ReadHalf<'_>,
    bytes: &mut [u8],
    filled: &mut usize,
) -> io::Result<Filled> {
    while message_in(&bytes[..*filled]).is_none() {
        if *filled == bytes.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match reader.read(&mut bytes[*filled..]).await? {
            0 => return Ok(Filled::End),
            count => *filled += count,
        }
    }
    Ok(Filled::Message)
}

/// The first whole message.
fn message_in(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*len)))
}

/// Writes responses until there will be none any more.
async fn write(mut writer: WriteHalf<'_>, connection: &Connection) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let is_done = |connection: &Connection| {
            let waits = connection.waiting.get() > 0 && connection.stage.get() != Stage::Broken;
            connection.stage.get() != Stage::Open && !waits
        };
        connection
            .until(|connection| !connection.out.borrow().is_empty() || is_done(connection))
            .await;
        if connection.stage.get() == Stage::Broken {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        std::mem::swap(&mut bytes, &mut *connection.out.borrow_mut());
        if bytes.is_empty() {
            return Ok(());
        }
        timeout(CLIENT_WRITE_STALL, writer.write_all(&bytes)).await??;
        connection.charge.borrow_mut().shrink(bytes.len());
        bytes.clear();
        connection.changed.notify_waiters();
    }
}
