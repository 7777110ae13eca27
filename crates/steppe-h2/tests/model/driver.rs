//! A connection of ours on a transport.

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_h2::{Connection, ConnectionMemory, Event, LocalSettings, Memory, Role};
use steppe_mem::{Budget, Buffer, Chunk};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::lines::Lines;
use super::transport::Split;
use super::wire::Wire;

pub type Ours = Connection<Lines, ()>;

/// The holder of a connection: its part of an exchange.
pub trait Holder {
    /// Takes an event; content is taken off `input`.
    fn take(&mut self, connection: &mut Ours, input: &mut Chunk, event: Event);

    /// Sends what there is to send.
    fn send(&mut self, connection: &mut Ours);

    /// Nothing more is to come.
    fn is_done(&self, connection: &Ours) -> bool;

    /// The other side has left.
    fn end(self, connection: &mut Ours);
}

pub struct Driver {
    io: Split,
    budget: Budget,
    connection: Ours,
    input: Chunk,
    wire: Wire,
    /// The other side takes nothing more. What it sent before may still come.
    is_left: bool,
}

impl Driver {
    pub fn new(role: Role, budget: &Budget, io: Split) -> Self {
        let lease = budget.root().lease();
        let reserve = lease
            .try_reserve(ConnectionMemory::reserved_bytes())
            .expect("room");
        let local = LocalSettings {
            concurrent_streams_max: match role {
                Role::Server => 100,
                Role::Client => 0,
            },
            section_bytes_max: 200_000,
            section_lines_max: 100,
        };
        let memory = Memory {
            lease: lease.clone(),
            reserve,
        };
        let empty = Buffer::take(&lease, 1).expect("room");
        Self {
            io,
            budget: budget.clone(),
            connection: Connection::new(role, local, memory, Instant::now()),
            input: empty.into(),
            wire: Wire::new(role),
            is_left: false,
        }
    }

    /// Runs until the other side has left, or the holder is done.
    pub async fn run(mut self, mut holder: impl Holder) {
        poll_fn(|cx| self.poll(cx, &mut holder)).await;
        assert_eq!(self.connection.error(), None);
        holder.end(&mut self.connection);
        self.check_window();
    }

    fn poll(&mut self, cx: &mut Context<'_>, holder: &mut impl Holder) -> Poll<()> {
        loop {
            self.receive(holder);
            self.poll_send(cx, holder);
            let is_written = self.is_left || self.connection.unwritten_bytes() == 0;
            if is_written && holder.is_done(&self.connection) {
                return Poll::Ready(());
            }
            if !self.input.is_empty() {
                // Answers wait that are to be written before more is received.
                match self.connection.takes_input() {
                    true => continue,
                    false if self.is_left => return Poll::Ready(()),
                    false => return Poll::Pending,
                }
            }
            let mut buffer = Buffer::take(&self.budget.root().lease(), 1000).expect("room");
            let mut room = ReadBuf::new(buffer.spare_mut());
            let polled = Pin::new(&mut self.io).poll_read(cx, &mut room);
            let count = room.filled().len();
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(read) if read.is_err() || count == 0 => return Poll::Ready(()),
                Poll::Ready(_) => {
                    buffer.advance(count);
                    self.wire.receive(buffer.filled());
                    assert!(self.input.is_empty(), "all of it was received");
                    self.input = buffer.into();
                }
            }
        }
    }

    fn receive(&mut self, holder: &mut impl Holder) {
        let now = Instant::now();
        while let Some(event) = self
            .connection
            .receive(Some(&mut self.input), now)
            .expect("the other side is right")
        {
            match event {
                Event::Begins(_) => self.connection.accept(Lines::default()),
                event => holder.take(&mut self.connection, &mut self.input, event),
            }
        }
    }

    /// Sends and writes, until nothing more is to be sent or the other side takes no more.
    fn poll_send(&mut self, cx: &mut Context<'_>, holder: &mut impl Holder) {
        loop {
            holder.send(&mut self.connection);
            // Windows are announced as well.
            let is_idle = self.is_left || self.connection.slices(&mut [IoSlice::new(&[])]) == 0;
            if is_idle || self.poll_write(cx).is_pending() {
                return;
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = self.connection.slices(&mut slices);
            let Some(first) = slices[..count].first() else {
                return Poll::Ready(());
            };
            match ready!(Pin::new(&mut self.io).poll_write(cx, first)) {
                Ok(count) => {
                    self.wire.send(&first[..count]);
                    self.connection.written(count);
                }
                Err(_) => {
                    self.is_left = true;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Once all content is given back, a larger window has exactly its new size.
    fn check_window(mut self) {
        const LARGER: u32 = 1 << 20;
        self.connection.set_windows(None, LARGER);
        loop {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = self.connection.slices(&mut slices);
            let Some(first) = slices[..count].first() else {
                break;
            };
            let bytes = first.len();
            self.wire.send(first);
            self.connection.written(bytes);
        }
        if let Some(window) = self.wire.window() {
            assert_eq!(window, i64::from(LARGER), "windows are given back");
        }
    }
}
