//! Connections in memory: a driver on the gateway's side, and a peer of the test on the other.
//!
//! Sockets only bring both sides together: a codec throws the socket of a connection away and goes on with a
//! pipe, whose other end the peer finds. So a test decides how much a connection takes, and nothing that
//! happens between two steps of the clock depends on the kernel.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use steppe_http::codec::DownstreamCodec;
use steppe_http::gateway::Accepted;
use steppe_http::h1::Http1;
use steppe_http::upstream::channel::{Channel, Established, UpstreamCodec};
use steppe_net::{Driver, Transport};
use tokio::sync::{Notify, mpsc};

/// Bytes that a pipe holds in one direction before its writer waits.
pub const PIPE_BYTES: usize = 16 << 10;

/// One end of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct End {
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// Its writer has no more to say.
    is_finished: bool,
    /// Its writer is gone.
    is_closed: bool,
    /// Its reader is gone.
    is_unread: bool,
    /// Of the reader, of the writer, and of the reader that waits for the end.
    wakers: [Option<Waker>; 3],
}

const READER: usize = 0;
const WRITER: usize = 1;
const CLOSER: usize = 2;

impl Pipe {
    fn wait(&mut self, whose: usize, cx: &Context<'_>) {
        self.wakers[whose] = Some(cx.waker().clone());
    }

    fn wake_all(&mut self) {
        self.wakers
            .iter_mut()
            .filter_map(Option::take)
            .for_each(Waker::wake);
    }
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().expect("no test panicked with it")
}

impl End {
    /// Both ends of a connection.
    pub fn pair() -> (Self, Self) {
        let pipes = [(); 2].map(|()| Arc::<Mutex<Pipe>>::default());
        let near = Self {
            incoming: Arc::clone(&pipes[0]),
            outgoing: Arc::clone(&pipes[1]),
        };
        let [outgoing, incoming] = pipes;
        (near, Self { incoming, outgoing })
    }

    /// Some bytes; none at the end.
    pub async fn read(&mut self) -> Vec<u8> {
        let mut room = [0; 4096];
        let read = poll_fn(|cx| self.poll_read(cx, &mut room)).await;
        room[..read.expect("a pipe does not fail")].to_vec()
    }

    /// Writes as fast as the other side reads.
    ///
    /// # Errors
    /// The other side is gone.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.poll_write(cx, &[IoSlice::new(bytes)])).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// True if the other side sends no more.
    pub fn has_ended(&self) -> bool {
        let pipe = lock(&self.incoming);
        pipe.is_finished || pipe.is_closed
    }

    /// Number of bytes that wait to be read.
    pub fn unread_bytes(&self) -> usize {
        lock(&self.incoming).bytes.len()
    }
}

impl Driver for End {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = lock(&self.incoming);
        if !pipe.bytes.is_empty() || pipe.is_finished || pipe.is_closed {
            return Poll::Ready(Ok(()));
        }
        pipe.wait(READER, cx);
        Poll::Pending
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_readable(cx))?;
        let mut pipe = lock(&self.incoming);
        let count = room.len().min(pipe.bytes.len());
        room.iter_mut()
            .zip(pipe.bytes.drain(..count))
            .for_each(|(to, byte)| *to = byte);
        if let Some(writer) = pipe.wakers[WRITER].take() {
            writer.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = lock(&self.outgoing);
        if pipe.is_unread {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = PIPE_BYTES - pipe.bytes.len();
        if room == 0 {
            pipe.wait(WRITER, cx);
            return Poll::Pending;
        }
        let before = pipe.bytes.len();
        let bytes = slices.iter().flat_map(|slice| slice.iter());
        pipe.bytes.extend(bytes.take(room));
        let written = pipe.bytes.len() - before;
        if let Some(reader) = pipe.wakers[READER].take() {
            reader.wake();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = lock(&self.outgoing);
        pipe.is_finished = true;
        pipe.wake_all();
        Poll::Ready(Ok(()))
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut pipe = lock(&self.incoming);
        if pipe.is_finished || pipe.is_closed {
            return Poll::Ready(());
        }
        pipe.wait(CLOSER, cx);
        Poll::Pending
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for (pipe, is_writer) in [(&self.outgoing, true), (&self.incoming, false)] {
            // A test that panics with a pipe has failed already.
            let Ok(mut pipe) = pipe.lock() else { return };
            match is_writer {
                true => pipe.is_closed = true,
                false => pipe.is_unread = true,
            }
            pipe.wake_all();
        }
    }
}

/// HTTP/1 over pipes, on both sides of a gateway.
#[derive(Debug, Clone)]
pub struct Piped {
    clients: mpsc::Sender<End>,
    servers: Arc<Connected>,
}

/// The servers' ends of connections that the gateway made, by its own address.
#[derive(Debug, Default)]
pub struct Connected {
    ends: Mutex<HashMap<SocketAddr, End>>,
    is_new: Notify,
}

impl Piped {
    /// `clients` gets the clients' ends, in the order in which they connected.
    pub fn new(clients: mpsc::Sender<End>) -> Self {
        Self {
            clients,
            servers: Arc::default(),
        }
    }

    pub fn servers(&self) -> &Arc<Connected> {
        &self.servers
    }
}

impl Connected {
    /// The server's end of the connection that comes from `address`.
    pub async fn take(&self, address: SocketAddr) -> End {
        loop {
            let is_new = self.is_new.notified();
            let end = self.ends.lock().expect("no panic").remove(&address);
            if let Some(end) = end {
                return end;
            }
            is_new.await;
        }
    }
}

impl DownstreamCodec for Piped {
    fn serve(&self, accepted: Accepted) {
        let (near, far) = End::pair();
        self.clients.try_send(far).expect("few connect at a time");
        Http1.serve(Accepted {
            transport: Transport::with_driver(Box::new(near)),
            ..accepted
        });
    }

    fn no_room(&self) -> &'static [u8] {
        b""
    }
}

impl UpstreamCodec for Piped {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        let address = connection.transport.local_address();
        let (near, far) = End::pair();
        let mut ends = self.servers.ends.lock().expect("no panic");
        ends.insert(address.expect("it is TCP"), far);
        self.servers.is_new.notify_waiters();
        Http1.open(Established {
            transport: Transport::with_driver(Box::new(near)),
            ..connection
        })
    }
}
