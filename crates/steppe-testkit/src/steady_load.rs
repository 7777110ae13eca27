//! Requests that are due at a constant rate, however slow the node is, and each failure of one.
//!
//! Every connection has its share of the rate; one that is late catches up. wrk reports only the number
//! of failures: here the time and the kind of each are kept.
//!
//! Leaves out latencies: no test looks at them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep_until, timeout};

use crate::duplex::{Duplex, connect};
use crate::framing::Head;
use crate::peer::{PATIENCE, escape, find};
use crate::tls_client::TlsClient;

/// Load under way.
#[derive(Debug)]
pub struct SteadyLoad {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A share of a load's connections: their protocol, and the path they ask for.
#[derive(Debug, Clone)]
pub struct SteadyClient {
    /// Where they connect.
    pub address: SocketAddr,
    /// The protocol they speak.
    pub protocol: SteadyProtocol,
    /// `None`: over TCP.
    pub tls: Option<TlsClient>,
    /// The path they get.
    pub path: &'static str,
}

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteadyProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, of whose availability the client knows before or learns by ALPN.
    Http2,
}

#[derive(Debug)]
struct Shared {
    content: String,
    stop: AtomicBool,
    served: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// A load that has ended.
#[derive(Debug)]
pub struct SteadyOutcome {
    /// Answers that were as they should be.
    pub served: u64,
    /// The errors of the others.
    pub failures: Vec<String>,
}

/// Failures that are kept: more say nothing new.
const FAILURES_MAX: usize = 1000;

impl SteadyLoad {
    /// Asks so often a second over so many connections, which the clients share alike; each answer
    /// must be a 200 with `content`.
    ///
    /// # Panics
    /// When no thread can be had.
    #[must_use]
    pub fn start(clients: &[SteadyClient], rate: f64, connections: u32, content: &str) -> Self {
        let shared = Arc::new(Shared {
            content: content.to_owned(),
            stop: AtomicBool::new(false),
            served: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let load = Arc::clone(&shared);
        let clients = clients.to_vec();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let thread = std::thread::spawn(move || {
            runtime.block_on(run(&load, &clients, rate, connections));
        });
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Ends it, once requests under way are answered.
    #[must_use]
    pub fn stop(mut self) -> SteadyOutcome {
        self.end();
        SteadyOutcome {
            served: self.served(),
            failures: self.failures(),
        }
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// The number of answers so far that were as they should be.
    pub fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }

    /// The errors so far.
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
        self.end();
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

async fn run(shared: &Arc<Shared>, clients: &[SteadyClient], rate: f64, connections: u32) {
    let interval = Duration::from_secs_f64(f64::from(connections) / rate);
    let began_at = Instant::now();
    let tasks = (0..connections)
        .zip(clients.iter().cycle())
        .map(|(number, client)| {
            let due = began_at + interval * number / connections;
            let client = client.clone();
            tokio::spawn(ask(Arc::clone(shared), client, due, interval))
        });
    for task in tasks.collect::<Vec<_>>() {
        let _ = task.await;
    }
}

/// A connection from one request to the next.
enum Kept {
    None,
    Http1(Box<dyn Duplex>),
    Http2(SendRequest<Bytes>),
}

async fn ask(shared: Arc<Shared>, client: SteadyClient, mut due: Instant, interval: Duration) {
    let mut kept = Kept::None;
    while !shared.stop.load(Ordering::Acquire) {
        if due > Instant::now() {
            sleep_until(due.into()).await;
        }
        due += interval;
        let outcome = timeout(PATIENCE, client.exchange(&shared.content, &mut kept)).await;
        match outcome.unwrap_or_else(|_| Err("no answer".to_owned())) {
            Ok(()) => {
                shared.served.fetch_add(1, Ordering::Relaxed);
            }
            Err(why) => {
                kept = Kept::None;
                let SteadyClient { protocol, path, .. } = client;
                shared.failed(format!("{protocol:?} {path}: {why}"));
            }
        }
    }
}

impl SteadyClient {
    async fn exchange(&self, content: &str, kept: &mut Kept) -> Result<(), String> {
        match self.protocol {
            SteadyProtocol::Http1 => self.exchange_http1(content, kept).await,
            SteadyProtocol::Http2 => self.exchange_http2(content, kept).await,
        }
    }

    async fn connect(&self, protocol: &str) -> Result<Box<dyn Duplex>, String> {
        let tls = self.tls.clone().map(|tls| tls.alpn(&[protocol]));
        let connected = connect(self.address, None, tls).await;
        connected.map_err(|error| format!("no connection: {error}"))
    }

    async fn exchange_http1(&self, content: &str, kept: &mut Kept) -> Result<(), String> {
        let mut stream = match std::mem::replace(kept, Kept::None) {
            Kept::Http1(stream) => stream,
            _ => self.connect("http/1.1").await?,
        };
        let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", self.path);
        let sent = stream.write_all(request.as_bytes()).await;
        sent.map_err(|error| format!("not sent: {error}"))?;
        let head = response(&mut stream, content).await?;
        if head.field("connection") != Some("close") {
            *kept = Kept::Http1(stream);
        }
        Ok(())
    }

    async fn exchange_http2(&self, content: &str, kept: &mut Kept) -> Result<(), String> {
        // One that takes no further request is replaced, as any client does.
        let ready = match std::mem::replace(kept, Kept::None) {
            Kept::Http2(requests) => requests.ready().await.ok(),
            _ => None,
        };
        let mut requests = match ready {
            Some(requests) => requests,
            None => {
                let stream = self.connect("h2").await?;
                let made = h2::client::handshake(stream).await;
                let (requests, connection) = made.map_err(|error| format!("no HTTP/2: {error}"))?;
                // Why it ended is said by its streams.
                tokio::spawn(async move { drop(connection.await) });
                requests
            }
        };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let request = http::Request::get(format!("{scheme}://localhost{}", self.path));
        let request = request.body(()).expect("it is a request");
        let said = |error: h2::Error| error.to_string();
        let (answer, _) = requests.send_request(request, true).map_err(said)?;
        let (head, mut body) = answer.await.map_err(said)?.into_parts();
        let mut bytes = Vec::new();
        while let Some(part) = body.data().await {
            let part = part.map_err(|error| format!("{} after {}", error, escape(&bytes)))?;
            bytes.extend_from_slice(&part);
            let _ = body.flow_control().release_capacity(part.len());
        }
        if head.status != 200 || bytes != content.as_bytes() {
            return Err(format!("{} {}", head.status, escape(&bytes)));
        }
        *kept = Kept::Http2(requests);
        Ok(())
    }
}

/// Reads a 200 with `content`.
async fn response(stream: &mut Box<dyn Duplex>, content: &str) -> Result<Head, String> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        let read = stream.read_buf(&mut bytes).await;
        if let Some(at) = find(&bytes, b"\r\n\r\n") {
            let (head, body) = bytes.split_at(at + 4);
            let head = Head::parse(head);
            if head.status() != 200 || !content.as_bytes().starts_with(body) {
                return Err(escape(&bytes));
            }
            // A response that declares more is incomplete, even with all of `content`.
            let declared = head.field("content-length").map(str::parse);
            let is_declared = declared.is_none_or(|length| length == Ok(content.len()));
            if body.len() == content.len() && is_declared {
                return Ok(head);
            }
        }
        match read {
            Ok(count) if count > 0 => {}
            end => return Err(format!("it ends with {end:?} after {}", escape(&bytes))),
        }
    }
}
