//! The origin's side of a flow: reads uploads from one token bucket, writes downloads at will.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use super::Pattern;
use crate::framing::{BodyDecoder, Head};
use crate::peer::find;

/// An origin in a thread of its own.
#[derive(Debug)]
pub struct FlowOrigin {
    address: SocketAddr,
    uploaded: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The token bucket and the counter of all connections.
#[derive(Clone)]
struct Shared {
    bucket: Arc<Semaphore>,
    uploaded: Arc<AtomicU64>,
}

/// Bytes read at once from one connection, and so also the bucket's grain.
const GRAIN: usize = 4 << 10;

impl FlowOrigin {
    /// Starts an origin that reads `bytes_per_second` of all uploads together.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start(bytes_per_second: u64) -> Self {
        let (ready, address) = std::sync::mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let bucket = Arc::new(Semaphore::new(0));
        let shared = Shared {
            bucket,
            uploaded: Arc::default(),
        };
        let uploaded = Arc::clone(&shared.uploaded);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be made");
            runtime.block_on(async {
                let listener = listen().expect("some port is free");
                let address = listener
                    .local_addr()
                    .expect("a bound socket has an address");
                let _ = ready.send(address);
                let fill = fill(Arc::clone(&shared.bucket), bytes_per_second);
                tokio::select! {
                    () = accept(listener, shared) => {}
                    () = fill => {}
                    _ = stopped => {}
                }
            });
        });
        let address = address.recv().expect("the origin starts");
        Self {
            address,
            uploaded,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The address that the origin listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts uploaded content.
    pub(super) fn uploaded(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.uploaded)
    }
}

impl Drop for FlowOrigin {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A listener with small socket buffers: bytes that the kernel receives ahead of the bucket are not paced.
fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(16 << 10)?;
    socket.set_send_buffer_size(64 << 10)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(4096)
}

async fn fill(bucket: Arc<Semaphore>, bytes_per_second: u64) {
    let burst = usize::try_from(bytes_per_second / 5)
        .unwrap_or(usize::MAX >> 4)
        .max(GRAIN);
    let started = Instant::now();
    let mut given = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let due = started.elapsed().as_micros() * u128::from(bytes_per_second) / 1_000_000;
        let add = usize::try_from(due - given).unwrap_or(0);
        given = due;
        let room = burst.saturating_sub(bucket.available_permits());
        bucket.add_permits(add.min(room));
    }
}

async fn accept(listener: TcpListener, shared: Shared) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let _ = serve(stream, shared).await;
        });
    }
}

async fn serve(mut stream: TcpStream, shared: Shared) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(GRAIN);
    loop {
        let Some(at) = find(&buffer, b"\r\n\r\n") else {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let head = Head::parse(&buffer.drain(..at + 4).collect::<Vec<u8>>());
        let path: Vec<&str> = head.target().split('/').collect();
        let number = |index: usize| {
            path.get(index)
                .and_then(|part| part.parse().ok())
                .unwrap_or(0)
        };
        match path.get(1) {
            Some(&"upload") => take(&mut stream, &head, number(2), &mut buffer, &shared).await?,
            _ => give(&mut stream, number(2), number(3)).await?,
        }
    }
}

/// Reads one upload at the bucket's pace and answers how much was right.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
async fn take(
    stream: &mut TcpStream,
    head: &Head,
    id: u64,
    buffer: &mut Vec<u8>,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut decoder = BodyDecoder::new(head.request_framing());
    let (mut got, mut right) = (0_u64, true);
    loop {
        let taken = decoder.feed(buffer, &mut |part| {
            right &= Pattern::new(id).matches(got, part);
            got += part.len() as u64;
            shared
                .uploaded
                .fetch_add(part.len() as u64, Ordering::Relaxed);
        });
        buffer.drain(..taken);
        if decoder.is_done() {
            break;
        }
        if read_slowly(stream, buffer, &shared.bucket).await? == 0 {
            return Ok(());
        }
    }
    let body = format!("{got} {}", if right { "right" } else { "wrong" });
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await
}

/// Reads at the bucket's pace: takes a grain only once there is something to read, and returns the unused rest.
async fn read_slowly(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
    bucket: &Semaphore,
) -> std::io::Result<usize> {
    loop {
        stream.readable().await?;
        let Ok(grain) = bucket.acquire_many(u32::try_from(GRAIN).unwrap_or(1)).await else {
            return Ok(0);
        };
        grain.forget();
        let mut part = [0; GRAIN];
        match stream.try_read(&mut part) {
            Ok(count) => {
                bucket.add_permits(GRAIN - count);
                buffer.extend_from_slice(&part[..count]);
                return Ok(count);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                bucket.add_permits(GRAIN);
            }
            Err(error) => return Err(error),
        }
    }
}

async fn give(stream: &mut TcpStream, id: u64, length: u64) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut buffer = vec![0; 16 << 10];
    let mut sent = 0;
    while sent < length {
        let count = (buffer.len() as u64).min(length - sent);
        let part = &mut buffer[..usize::try_from(count).unwrap_or(0)];
        Pattern::new(id).fill(sent, part);
        stream.write_all(part).await?;
        sent += count;
    }
    Ok(())
}
