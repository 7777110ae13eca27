//! Requests that are due at a constant rate, whatever the node does, and each failure of one.
//!
//! Every connection has its share of the rate; one that is late catches up. wrk tells only how many
//! failed: here it is kept when, and how.
//!
//! Leaves out latencies: no test looks at them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};

use crate::framing::Head;
use crate::peer::{PATIENCE, escape, find};

/// Load under way.
#[derive(Debug)]
pub struct SteadyLoad {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    content: String,
    stop: AtomicBool,
    served: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// Failures that are kept: more say nothing new.
const FAILURES_MAX: usize = 1000;

impl SteadyLoad {
    /// Gets `/` so often a second over so many connections; each answer must be a 200 with
    /// `content`.
    ///
    /// # Panics
    /// When no thread can be had.
    #[must_use]
    pub fn start(address: SocketAddr, rate: f64, connections: u32, content: &str) -> Self {
        let shared = Arc::new(Shared {
            address,
            content: content.to_owned(),
            stop: AtomicBool::new(false),
            served: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let load = Arc::clone(&shared);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let thread = std::thread::spawn(move || {
            runtime.block_on(run(load, rate, connections));
        });
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// How many answers were as they should be so far.
    pub fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }

    /// What went wrong so far.
    pub fn failures(&self) -> Vec<String> {
        let failures = &self.shared.failures;
        failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for SteadyLoad {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn failed(&self, why: String) {
        let failures = self.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX {
            failures.push(why);
        }
    }
}

async fn run(shared: Arc<Shared>, rate: f64, connections: u32) {
    let interval = Duration::from_secs_f64(f64::from(connections) / rate);
    let began_at = Instant::now();
    let clients = (0..connections).map(|number| {
        let due = began_at + interval * number / connections;
        tokio::spawn(client(Arc::clone(&shared), due, interval))
    });
    for client in clients.collect::<Vec<_>>() {
        let _ = client.await;
    }
}

async fn client(shared: Arc<Shared>, mut due: Instant, interval: Duration) {
    let mut kept = None;
    while !shared.stop.load(Ordering::Acquire) {
        if due > Instant::now() {
            sleep_until(due.into()).await;
        }
        due += interval;
        let outcome = timeout(PATIENCE, exchange(&shared, &mut kept)).await;
        match outcome.unwrap_or_else(|_| Err("no answer".to_owned())) {
            Ok(()) => {
                shared.served.fetch_add(1, Ordering::Relaxed);
            }
            Err(why) => {
                kept = None;
                shared.failed(why);
            }
        }
    }
}

async fn exchange(shared: &Shared, kept: &mut Option<TcpStream>) -> Result<(), String> {
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => connect(shared.address)
            .await
            .map_err(|error| format!("no connection: {error}"))?,
    };
    let sent = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    sent.map_err(|error| format!("not sent: {error}"))?;
    let head = response(&mut stream, &shared.content).await?;
    if head.field("connection") != Some("close") {
        *kept = Some(stream);
    }
    Ok(())
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads a 200 with `content`.
async fn response(stream: &mut TcpStream, content: &str) -> Result<Head, String> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        let read = stream.read_buf(&mut bytes).await;
        if let Some(at) = find(&bytes, b"\r\n\r\n") {
            let (head, body) = bytes.split_at(at + 4);
            let head = Head::parse(head);
            if head.status() != 200 || !content.as_bytes().starts_with(body) {
                return Err(escape(&bytes));
            }
            if body.len() == content.len() {
                return Ok(head);
            }
        }
        match read {
            Ok(count) if count > 0 => {}
            end => return Err(format!("it ends with {end:?} after {}", escape(&bytes))),
        }
    }
}
