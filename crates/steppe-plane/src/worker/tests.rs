//! Workers that dial, over real sockets. The peer here accepts, and calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_testkit::Port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::caller::{Ask, Caller};
use crate::connection::Processing;
use crate::frame::{FrameHeader, FrameType, HEADER_BYTES, Hello, flag};
use crate::limits::STANDING_CREDIT_MIN;

const LONG: Duration = Duration::from_secs(60);

/// The peer that a worker dials.
struct Relay {
    listener: TcpListener,
    memory: Arc<Memory>,
}

/// One accepted connection, for calls.
struct Served {
    link: Arc<Link>,
    caller: Caller,
    driver: JoinHandle<Failure>,
}

/// The endpoint of the peer: it offers no service.
struct Nothing;

impl Endpoint for Nothing {
    const CALL_BYTES: usize = 0;

    fn accept(&self, _: Accepted) {}
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(Budget::new(16 << 20).root()))
}

/// A worker with a service that answers at once, and another that answers when `release` has a permit.
fn worker(release: &Arc<Semaphore>) -> Worker {
    let release = Arc::clone(release);
    Worker::builder(&memory())
        .unary("echo", 10, |body| async { Ok(body) })
        .unary("hold", 1, move |body| {
            let release = Arc::clone(&release);
            async move {
                release.acquire().await.expect("never closed").forget();
                Ok(body)
            }
        })
        .build()
}

impl Relay {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self {
            listener,
            memory: memory(),
        }
    }

    fn address(&self) -> std::net::SocketAddr {
        self.listener.local_addr().expect("it listens")
    }

    /// The next worker that dials, once it has registered its services.
    async fn accept(&self) -> Served {
        let (socket, _) = self.listener.accept().await.expect("a worker");
        let now = Instant::now();
        let link = Link::new(Side::Acceptor, &self.memory, now).expect("room");
        let driver = tokio::spawn(Driver::new(Arc::clone(&link), socket.into(), Nothing, now));
        let served = Served {
            caller: Caller::of(Arc::clone(&link)),
            link,
            driver,
        };
        until("its services", || served.link.serves("echo") == Some(true)).await;
        served
    }
}

impl Served {
    async fn echo(&self) -> Result<Bytes, Failure> {
        let body = Bytes::from_static(b"body");
        self.caller.unary(&Ask::new("echo"), body).await
    }

    fn hold(&self) -> JoinHandle<Result<Bytes, Failure>> {
        let caller = self.caller.clone();
        tokio::spawn(async move { caller.unary(&Ask::new("hold"), Bytes::new()).await })
    }
}

/// Waits for a condition, for up to 30 seconds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    assert!(waited.is_ok(), "never: {what}");
}

#[tokio::test]
async fn a_worker_registers_serves_and_comes_back() {
    let relay = Relay::new().await;
    let registered = worker(&Arc::new(Semaphore::new(0))).register(relay.address());
    let registered = registered.expect("valid names");
    assert_eq!(registered.status(), WorkerStatus::Connecting);
    for _ in 0..3 {
        let served = relay.accept().await;
        assert_eq!(served.link.serves("none"), Some(false));
        assert_eq!(served.echo().await.expect("an answer"), "body");
        registered.reaches(WorkerStatus::Serving).await;
        served.driver.abort();
        registered.reaches(WorkerStatus::Connecting).await;
    }
}

/// Calls are refused until the relay, which has sent HELLO, has read SERVICES.
#[tokio::test]
async fn a_worker_serves_once_the_relay_has_read_its_services() {
    let relay = Relay::new().await;
    let registered = worker(&Arc::new(Semaphore::new(0))).register(relay.address());
    let registered = registered.expect("valid names");
    let (mut socket, _) = relay.listener.accept().await.expect("a worker");
    let mut hello = Vec::new();
    HELLO.write(&mut hello);
    socket.write_all(&hello).await.expect("it is read");
    let asked = next(&mut socket, FrameType::PING).await;
    assert!(!asked.has(flag::ACK));
    // The worker has read HELLO when it answers this PING.
    let ping = FrameHeader::new(FrameType::PING, 0);
    socket
        .write_all(&ping.to_bytes())
        .await
        .expect("it is read");
    assert!(next(&mut socket, FrameType::PING).await.has(flag::ACK));
    assert_eq!(registered.status(), WorkerStatus::Connecting);
    let flags = flag::ACK;
    let acknowledged = FrameHeader { flags, ..asked };
    socket
        .write_all(&acknowledged.to_bytes())
        .await
        .expect("it is read");
    registered.reaches(WorkerStatus::Serving).await;
}

const HELLO: Hello = Hello {
    oldest: 1,
    newest: 1,
    streams_max: 1,
    stream_credit: STANDING_CREDIT_MIN,
    connection_credit: 1 << 20,
};

/// The next frame of a type.
async fn next(socket: &mut TcpStream, frame_type: FrameType) -> FrameHeader {
    loop {
        let mut header = [0; HEADER_BYTES];
        socket.read_exact(&mut header).await.expect("a frame");
        let header = FrameHeader::read(&header);
        let mut payload = vec![0; header.len as usize];
        socket.read_exact(&mut payload).await.expect("its payload");
        if header.frame_type == frame_type {
            return header;
        }
    }
}

#[tokio::test]
async fn a_worker_finds_a_relay_that_starts_later() {
    let address = steppe_testkit::Port::free().keep();
    let registered = worker(&Arc::new(Semaphore::new(0))).register(address);
    let registered = registered.expect("valid names");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(registered.status(), WorkerStatus::Connecting);
    let listener = TcpListener::bind(address).await.expect("it is free");
    let relay = Relay {
        listener,
        memory: memory(),
    };
    let served = relay.accept().await;
    assert_eq!(served.echo().await.expect("an answer"), "body");
    registered.reaches(WorkerStatus::Serving).await;
}

#[tokio::test]
async fn a_drain_takes_the_services_back_and_finishes_what_is_open() {
    let (relay, release) = (Relay::new().await, Arc::new(Semaphore::new(0)));
    let registered = worker(&release).register(relay.address());
    let registered = Arc::new(registered.expect("valid names"));
    let served = relay.accept().await;
    let held = served.hold();
    until("it runs", || served.link.serves("hold") == Some(true)).await;
    assert_eq!(served.echo().await.expect("an answer"), "body");
    let drain = {
        let registered = Arc::clone(&registered);
        tokio::spawn(async move { registered.drain(LONG).await })
    };
    until("its services are taken back", || {
        served.link.serves("echo") == Some(false)
    })
    .await;
    registered.reaches(WorkerStatus::Draining).await;
    let refused = served.echo().await.expect_err("it takes no calls");
    assert_eq!(refused.processing, Processing::None);
    assert!(!registered.status().is_safe_to_stop());
    release.add_permits(1);
    assert!(held.await.expect("no panic").is_ok(), "it was finished");
    assert!(drain.await.expect("no panic"));
    assert!(registered.status().is_safe_to_stop());
    // A second drain returns the same result.
    assert!(registered.drain(LONG).await);
    registered.resume();
    let served = relay.accept().await;
    assert_eq!(served.echo().await.expect("an answer"), "body");
    registered.reaches(WorkerStatus::Serving).await;
}

#[tokio::test]
async fn when_the_time_to_drain_is_over_the_rest_is_reset_and_what_did_not_run_may_run_elsewhere() {
    let (relay, release) = (Relay::new().await, Arc::new(Semaphore::new(0)));
    let registered = worker(&release).register(relay.address());
    let registered = registered.expect("valid names");
    let served = relay.accept().await;
    // The service runs one call at a time: the second waits, and never runs.
    let running = served.hold();
    let body = Bytes::from_static(b"behind the first on the same connection");
    let first = served.caller.unary(&Ask::new("echo"), body).await;
    first.expect("what came before it has begun");
    let waiting = served.hold();
    assert_eq!(served.echo().await.expect("an answer"), "body");
    assert!(!registered.drain(Duration::ZERO).await);
    assert!(registered.status().is_safe_to_stop());
    let cut = running.await.expect("no panic").expect_err("it was cut");
    assert_eq!(
        (cut.status, cut.processing),
        (Status::Draining, Processing::Begun)
    );
    let cut = waiting.await.expect("no panic").expect_err("it was cut");
    assert_eq!(
        (cut.status, cut.processing),
        (Status::Draining, Processing::None)
    );
}

#[tokio::test]
async fn a_drain_that_is_taken_back_finishes_on_the_old_connection() {
    let (relay, release) = (Relay::new().await, Arc::new(Semaphore::new(0)));
    let registered = worker(&release).register(relay.address());
    let registered = Arc::new(registered.expect("valid names"));
    let before = relay.accept().await;
    let held = before.hold();
    assert_eq!(before.echo().await.expect("an answer"), "body");
    let drain = {
        let registered = Arc::clone(&registered);
        tokio::spawn(async move { registered.drain(LONG).await })
    };
    registered.reaches(WorkerStatus::Draining).await;
    registered.resume();
    let after = relay.accept().await;
    assert!(!drain.await.expect("no panic"), "it serves again");
    assert_eq!(after.echo().await.expect("an answer"), "body");
    release.add_permits(1);
    assert!(held.await.expect("no panic").is_ok(), "it was finished");
    until("the old connection is closed", || {
        before.driver.is_finished()
    })
    .await;
}

/// A connection that is drained twice stays drained: each worker of a node drains all connections.
#[tokio::test]
async fn a_connection_that_was_drained_stays_so() {
    let (relay, release) = (Relay::new().await, Arc::new(Semaphore::new(0)));
    let _registered = worker(&release).register(relay.address());
    let accepted = relay.accept().await;
    for _ in 0..2 {
        accepted.link.drain();
        let drained = tokio::time::timeout(LONG, accepted.link.drained());
        drained.await.expect("no call is open");
    }
}

#[tokio::test]
async fn a_listener_that_drains_accepts_nobody() {
    let release = Arc::new(Semaphore::new(0));
    let port = Port::free();
    let address = port.address();
    let server = worker(&release).listen(address).await;
    let server = server.expect("it is free");
    let caller = Caller::connect(address, &memory()).await;
    let caller = caller.expect("it listens");
    let held = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.unary(&Ask::new("hold"), Bytes::new()).await })
    };
    let echo = caller.unary(&Ask::new("echo"), Bytes::new()).await;
    echo.expect("an answer");
    let drain = tokio::spawn(server.drain(LONG));
    // Refused in the end; or reset, if the connection was in the accept queue.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    release.add_permits(1);
    assert!(held.await.expect("no panic").is_ok(), "it was finished");
    assert!(drain.await.expect("no panic"));
}

#[test]
fn services_that_can_not_be_named_are_refused_early() {
    for name in ["", "a b", &"x".repeat(129)] {
        let worker = Worker::builder(&memory());
        let worker = worker.unary(name, 1, |body| async { Ok(body) }).build();
        let refused = worker.register("127.0.0.1:1").expect_err("no name");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
