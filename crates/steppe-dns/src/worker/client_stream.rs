//! The task of a client's connection: queries are pipelined and answered in any order. RFC 7766.
//!
//! Invariant: a connection holds a bounded number of questions, and is not read while its client leaves too
//! many responses unread; all of it is charged. A connection whose client neither asks nor reads is closed, and
//! one that waits for a question holds no buffer. A client that closes its side has left: responses that are
//! ready are still written, others are not waited for.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::{Buffer, Lease};
use steppe_net::{Deadline, Drain, Phase, ReadRoom, Transport};
use tokio::time::timeout;

use super::charged;
use super::clients::Destination;
use super::connection::{Connection, Stage};
use super::decide::Answered;
use super::state::{Handle, turn};
use crate::limits::{CLIENT_IDLE_TIME, CLIENT_READ_BYTES, CLIENT_WRITE_STALL};
use crate::wire::first_message;

/// A connection that is served.
pub(super) struct ClientStream {
    pub(super) state: Handle,
    pub(super) number: u64,
    pub(super) connection: Rc<Connection>,
    pub(super) deadline: Deadline,
    /// Lease that bytes are charged to when they are read.
    pub(super) lease: Lease,
}

/// The result of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// There is a whole message.
    Message,
    /// The client has closed its side.
    End,
    /// No whole message came in time.
    Idle,
}

impl ClientStream {
    /// Serves until the client or the node ends. `pending` was read already.
    pub(super) async fn serve(
        &self,
        transport: Transport,
        pending: Option<Buffer>,
        drain: &Drain,
    ) -> io::Result<()> {
        let (connection, transport) = (&*self.connection, RefCell::new(transport));
        let read = async {
            let ended = tokio::select! {
                biased;
                // A query that is read after the connection was closed to make room would have no answer.
                () = connection.until(|connection| connection.stage.get() != Stage::Open) => Ok(()),
                ended = self.read(&transport, pending) => ended,
                () = drain.reached(Phase::Draining) => Ok(()),
            };
            if connection.stage.get() == Stage::Open {
                connection.stage.set(Stage::Ends);
            }
            connection.changed.notify_waiters();
            ended
        };
        tokio::try_join!(read, self.write(&transport)).inspect_err(|error| self.note(error))?;
        // Over TLS, an end without `close_notify` looks like a truncation.
        let end = poll_fn(|cx| transport.borrow_mut().poll_shutdown(cx));
        timeout(CLIENT_WRITE_STALL, end).await?
    }

    /// Reads queries until the client closes its side, or has been idle for too long.
    #[expect(
        clippy::disallowed_methods,
        reason = "a connection begins to idle, and idles on while it waits for answers"
    )]
    async fn read(
        &self,
        transport: &RefCell<Transport>,
        mut bytes: Option<Buffer>,
    ) -> io::Result<()> {
        let connection = &*self.connection;
        self.deadline.set(Instant::now(), CLIENT_IDLE_TIME);
        loop {
            let filled =
                poll_fn(|cx| self.poll_message(cx, &mut transport.borrow_mut(), &mut bytes));
            match filled.await? {
                Filled::Message => {}
                Filled::End => return self.left(),
                // The client waits for answers, and may then ask more.
                Filled::Idle if connection.waiting.get() > 0 => {
                    self.deadline.set(Instant::now(), CLIENT_IDLE_TIME);
                    continue;
                }
                Filled::Idle => return Ok(()),
            }
            if !connection.can_ask() {
                // Nothing is read meanwhile, and the client's end may be behind bytes that were not read.
                let closed = poll_fn(|cx| transport.borrow_mut().poll_closed(cx));
                tokio::select! {
                    biased;
                    () = connection.until(Connection::can_ask) => {}
                    () = closed => return self.left(),
                }
            }
            let Some(read) = &mut bytes else { continue };
            let taken = match first_message(read.filled()) {
                Some(message) => {
                    self.answer(message)?;
                    2 + message.len()
                }
                None => continue,
            };
            read.consume(taken);
            if read.is_empty() {
                bytes = None;
            }
        }
    }

    /// Ends reading: the client has closed its side, or reset the connection.
    ///
    /// # Errors
    /// The client waited for answers.
    fn left(&self) -> io::Result<()> {
        match self.connection.waiting.get() {
            0 => Ok(()),
            _ => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Counts a client that has left while it waited for answers.
    fn note(&self, error: &io::Error) {
        let has_left = matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        );
        if has_left && self.connection.waiting.get() > 0 {
            self.state.borrow().metrics.connections_left.increment();
        }
    }

    /// Answers a query, or lets it wait.
    fn answer(&self, message: &[u8]) -> io::Result<()> {
        let connection = &*self.connection;
        let destination = Destination::Stream {
            connection: self.number,
            protocol: connection.peer.protocol,
        };
        connection.begin_question();
        let (answered, now) = turn(&self.state, |state, now| {
            let answered = state.query(message, destination, &connection.peer.client, now);
            if let Answered::Now(len) = answered {
                connection.push(&state.reply[..len]);
            }
            (answered, now)
        });
        self.deadline.set(now, CLIENT_IDLE_TIME);
        match answered {
            Answered::Now(_) => connection.answered(),
            Answered::Later => {}
            Answered::Never => {
                connection.answered();
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    /// Reads until there is a whole message.
    fn poll_message(
        &self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        bytes: &mut Option<Buffer>,
    ) -> Poll<io::Result<Filled>> {
        loop {
            let read = bytes.as_ref().map_or(&[][..], |bytes| bytes.filled());
            if first_message(read).is_some() {
                return Poll::Ready(Ok(Filled::Message));
            }
            let len = read.first_chunk().map_or(0, |len| u16::from_be_bytes(*len));
            if 2 + usize::from(len) > CLIENT_READ_BYTES {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            let room = ReadRoom {
                lease: &self.lease,
                first_bytes: CLIENT_READ_BYTES,
                bytes_max: CLIENT_READ_BYTES,
            };
            match transport.poll_fill(cx, room, bytes) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Filled::End)),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(self.deadline.poll_passed(cx));
                    return Poll::Ready(Ok(Filled::Idle));
                }
            }
        }
    }

    /// Writes responses until no more can come.
    async fn write(&self, transport: &RefCell<Transport>) -> io::Result<()> {
        let connection = &*self.connection;
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
            let mut rest = &bytes[..];
            // A client that takes a little at a time has not stalled.
            while !rest.is_empty() {
                let write =
                    poll_fn(|cx| transport.borrow_mut().poll_write(cx, &[IoSlice::new(rest)]));
                match timeout(CLIENT_WRITE_STALL, write).await?? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => rest = &rest[written..],
                }
            }
            let flush = poll_fn(|cx| transport.borrow_mut().poll_flush(cx));
            timeout(CLIENT_WRITE_STALL, flush).await??;
            // The buffer that is kept for the next response is part of every connection's charge.
            charged::clear(&mut bytes, &mut connection.charge.borrow_mut());
            connection.changed.notify_waiters();
        }
    }
}
