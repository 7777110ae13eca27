//! Connections to servers: one a server, on which queries are pipelined. RFC 7766.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::asking::NotSent;
use super::carriers::{Carrier, Means, Stage, StreamQueue};
use super::state::{WorkerState, turn};
use super::upstream::Server;
use crate::config::Transport;
use crate::limits::{
    ATTEMPTS_PER_SOCKET_MAX, MESSAGE_BYTES_MAX, UPSTREAM_CONNECT_TIME_MAX, UPSTREAM_IDLE_TIME,
};

impl StreamQueue {
    /// Adds a message, its length before it. RFC 1035 §4.2.2.
    pub(super) fn push(&self, message: &[u8]) {
        let mut bytes = self.bytes.borrow_mut();
        let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(message);
        self.filled.notify_one();
    }
}

impl WorkerState {
    /// The connection to a server; it is opened where there is none.
    pub(super) fn stream_to(&mut self, server: &Rc<Server>, now: Instant) -> Result<u32, NotSent> {
        if let Some(number) = server.stream.get()
            && self.attempts.attempts_on(number) < ATTEMPTS_PER_SOCKET_MAX
            && let Some(carrier) = self.carriers.get(number)
            && carrier.stage == Stage::InUse
        {
            return Ok(number);
        }
        let queue = Rc::new(StreamQueue::default());
        let carrier = Carrier::new(Rc::clone(server), Means::Stream(Rc::clone(&queue)), now);
        let number = self.carriers.insert(carrier).ok_or(NotSent)?;
        self.attempts.renew_socket(number);
        if let Some(full) = server.stream.replace(Some(number)) {
            self.retire(full);
        }
        let run = run(self.me.clone(), server.config.address, queue, number);
        let task = tokio::task::spawn_local(run);
        self.carriers.set_reader(number, task.abort_handle());
        Ok(number)
    }
}

/// Connects, and carries queries and responses until the connection ends or idles.
async fn run(
    state: Weak<RefCell<WorkerState>>,
    server: SocketAddr,
    queue: Rc<StreamQueue>,
    number: u32,
) {
    let connected = timeout(UPSTREAM_CONNECT_TIME_MAX, TcpStream::connect(server)).await;
    let ended = match connected {
        Ok(Ok(stream)) => carry(&state, stream, &queue, number).await,
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Err(error) = ended {
        tracing::debug!(%server, %error, "a connection to a DNS server ended");
    }
    if let Some(state) = state.upgrade() {
        turn(&state, |state, now| state.carrier_failed(number, now));
    }
}

async fn carry(
    state: &Weak<RefCell<WorkerState>>,
    mut stream: TcpStream,
    queue: &StreamQueue,
    number: u32,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.split();
    let write = async {
        loop {
            let bytes = std::mem::take(&mut *queue.bytes.borrow_mut());
            if bytes.is_empty() {
                queue.filled.notified().await;
            } else {
                writer.write_all(&bytes).await?;
            }
        }
    };
    let read = async {
        let mut message = Vec::new();
        loop {
            let len = timeout(UPSTREAM_IDLE_TIME, reader.read_u16()).await??;
            message.resize(usize::from(len).min(MESSAGE_BYTES_MAX), 0);
            timeout(UPSTREAM_IDLE_TIME, reader.read_exact(&mut message)).await??;
            let Some(state) = state.upgrade() else {
                return Ok(());
            };
            turn(&state, |state, now| {
                state.message((number, Transport::Tcp), &message, now);
            });
        }
    };
    tokio::select! {
        ended = write => ended,
        ended = read => ended,
    }
}
