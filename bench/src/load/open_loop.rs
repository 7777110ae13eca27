//! An open-loop client: requests are due at a constant rate, however slow the proxy is.
//!
//! Invariant: a latency runs from the instant when its request was due, so a stall is felt by every
//! request that was due meanwhile (no coordinated omission). The instants come from one periodic
//! timerfd, since the runtime's own timer is good to a millisecond only. A request that is due takes
//! the connection that has been idle longest; without one it waits for the first that becomes idle.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::{JoinSet, LocalSet};

use super::client::{self, Decoder};

/// One run at a constant rate of arrivals.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// Requests due each second.
    pub rate: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    /// Requests that failed or had no response in time.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<String>,
}

/// Sends GETs of `path` at `rate` a second over `connections` connections for `duration`.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub async fn run(
    address: SocketAddr,
    path: &str,
    rate: f64,
    connections: usize,
    duration: Duration,
) -> Result<Latencies> {
    ensure!(
        rate.is_finite() && rate >= 1.0,
        "a rate of {rate} requests a second"
    );
    let interval = Duration::from_secs_f64(1.0 / rate);
    let pool = Rc::new(RefCell::new(Pool::new(client::get(address, path))));
    let local = LocalSet::new();
    let mut readers = JoinSet::new();
    local
        .run_until(async {
            for connection in 0..connections {
                let reader = pool.connect(address).await?;
                let pool = Rc::clone(&pool);
                readers.spawn_local(async move {
                    if let Err(error) = read_responses(reader, connection, &pool).await {
                        pool.borrow_mut().fail(&error);
                        pool.borrow_mut().open -= 1;
                    }
                });
            }
            let due = arrivals(&pool, interval, duration).await?;
            settle(&pool, due).await;
            readers.shutdown().await;
            Ok(pool.borrow().latencies(1.0 / interval.as_secs_f64(), due))
        })
        .await
}

/// The connections of a run, and their latencies and failures.
struct Pool {
    request: Vec<u8>,
    writers: Vec<OwnedWriteHalf>,
    /// When the request in flight on each connection was due.
    due: Vec<Instant>,
    idle: VecDeque<usize>,
    /// Requests that are due and have no connection yet.
    waiting: VecDeque<Instant>,
    histogram: Histogram<u64>,
    failed: u64,
    first_error: Option<String>,
    /// Connections that can still bring a response.
    open: usize,
}

trait Connect {
    async fn connect(&self, address: SocketAddr) -> Result<OwnedReadHalf>;
}

impl Connect for Rc<RefCell<Pool>> {
    async fn connect(&self, address: SocketAddr) -> Result<OwnedReadHalf> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        // Readiness is learned once: later writes then go straight to the socket.
        stream.ready(Interest::WRITABLE).await?;
        let (reader, writer) = stream.into_split();
        let mut pool = self.borrow_mut();
        let connection = pool.writers.len();
        pool.writers.push(writer);
        pool.due.push(Instant::now());
        pool.idle.push_back(connection);
        pool.open += 1;
        Ok(reader)
    }
}

impl Pool {
    fn new(request: Vec<u8>) -> Self {
        // Nanoseconds up to a minute, three digits: about 200 KiB.
        let histogram = Histogram::new_with_max(LATENCY_MAX_NS, 3).expect("valid bounds");
        Self {
            request,
            writers: Vec::new(),
            due: Vec::new(),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            histogram,
            failed: 0,
            first_error: None,
            open: 0,
        }
    }

    fn arrive(&mut self, due: Instant) {
        match self.idle.pop_front() {
            Some(connection) => self.send(connection, due),
            None => self.waiting.push_back(due),
        }
    }

    fn send(&mut self, connection: usize, due: Instant) {
        self.due[connection] = due;
        // The request is smaller than any send buffer, and nothing else is in flight.
        match self.writers[connection].try_write(&self.request) {
            Ok(sent) if sent == self.request.len() => {}
            Ok(sent) => self.fail(&anyhow::anyhow!(
                "only {sent} bytes of a request were taken"
            )),
            Err(error) => self.fail(&error.into()),
        }
    }

    fn complete(&mut self, connection: usize) {
        let latency = self.due[connection].elapsed();
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NS);
        self.histogram.saturating_record(nanoseconds.max(1));
        match self.waiting.pop_front() {
            Some(due) => self.send(connection, due),
            None => self.idle.push_back(connection),
        }
    }

    /// Counts a failed request. Its connection is not used again.
    fn fail(&mut self, error: &anyhow::Error) {
        self.failed += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }

    fn latencies(&self, rate: f64, due: u64) -> Latencies {
        let microseconds = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Latencies {
            rate,
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            p999_us: microseconds(0.999),
            errors: due - self.histogram.len().min(due),
            first_error: self.first_error.clone(),
        }
    }
}

const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// Time in which responses may still come after the last request was due.
const SETTLE: Duration = Duration::from_secs(3);

/// Lets requests arrive for `duration`; returns their number.
async fn arrivals(pool: &RefCell<Pool>, interval: Duration, duration: Duration) -> Result<u64> {
    let total = duration.as_nanos() / interval.as_nanos().max(1);
    let total = u64::try_from(total).context("too many requests")?;
    let timer = timerfd_create(
        TimerfdClockId::Monotonic,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )?;
    let period = timespec(interval)?;
    let start = Instant::now();
    let schedule = Itimerspec {
        it_interval: period,
        it_value: period,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &schedule)?;
    #[expect(
        deprecated,
        reason = "unsound for types that misreport their file: not an OwnedFd"
    )]
    let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
    let mut arrived = 0;
    while arrived < total {
        let expired = expirations(&timer).await?.min(total - arrived);
        for _ in 0..expired {
            arrived += 1;
            pool.borrow_mut().arrive(due(start, interval, arrived));
        }
    }
    Ok(total)
}

/// The instant at which request `number` is due, the first being 1.
fn due(start: Instant, interval: Duration, number: u64) -> Instant {
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    start + Duration::from_nanos(interval.saturating_mul(number))
}

/// Waits for the timer; returns its expirations since the last call, at least 1.
async fn expirations(timer: &AsyncFd<OwnedFd>) -> Result<u64> {
    loop {
        let mut ready = timer.readable().await?;
        let mut count = [0; 8];
        match ready.try_io(|timer| Ok(rustix::io::read(timer, &mut count)?)) {
            Ok(Ok(8)) => return Ok(u64::from_ne_bytes(count)),
            Ok(Ok(bytes)) => bail!("a timer gave {bytes} bytes instead of 8"),
            Ok(Err(error)) => return Err(error.into()),
            Err(_would_block) => {}
        }
    }
}

fn timespec(duration: Duration) -> Result<Timespec> {
    let seconds = i64::try_from(duration.as_secs()).context("an interval too long")?;
    Ok(Timespec {
        tv_sec: seconds,
        tv_nsec: duration.subsec_nanos().into(),
    })
}

/// Waits until each of the `due` requests has its response, or failed, or time is up.
async fn settle(pool: &RefCell<Pool>, due: u64) {
    let deadline = Instant::now() + SETTLE;
    let outstanding = || {
        let pool = pool.borrow();
        pool.open > 0 && pool.histogram.len() + pool.failed < due
    };
    while outstanding() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn read_responses(
    mut reader: OwnedReadHalf,
    connection: usize,
    pool: &RefCell<Pool>,
) -> Result<()> {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = reader.read(&mut buffer).await?;
        ensure!(count > 0, "a kept-alive connection was closed");
        if decoder.receive(&buffer[..count])?.is_some() {
            pool.borrow_mut().complete(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    /// Answers each connection's requests, the first of each after `pause`.
    async fn origin(pause: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut pause = Some(pause);
                    let mut buffer = [0; 1024];
                    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                        tokio::time::sleep(pause.take().unwrap_or_default()).await;
                        if stream.write_all(RESPONSE).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    fn requests_are_due_at_a_constant_rate() {
        let start = Instant::now();
        let third = due(start, Duration::from_micros(50), 3);
        assert_eq!(third - start, Duration::from_micros(150));
    }

    #[tokio::test]
    async fn every_request_that_was_due_is_answered() {
        let address = origin(Duration::ZERO).await;
        let run = run(address, "/", 500.0, 4, Duration::from_millis(400))
            .await
            .expect("it runs");
        assert_eq!((run.errors, run.first_error), (0, None));
        assert!(run.p50_us > 0.0 && run.p50_us <= run.p99_us && run.p99_us <= run.p999_us);
    }

    #[tokio::test]
    async fn a_stall_is_felt_by_all_that_were_due_meanwhile() {
        // One connection stalls for the first 300 ms of 400: three quarters of the requests wait,
        // 150 ms on average. A closed loop would have seen one slow request of very many.
        let address = origin(Duration::from_millis(300)).await;
        let run = run(address, "/", 500.0, 1, Duration::from_millis(400))
            .await
            .expect("it runs");
        assert_eq!(run.errors, 0);
        assert!(
            run.p50_us > 50_000.0,
            "half of the requests waited: {} µs",
            run.p50_us
        );
    }

    #[tokio::test]
    async fn a_closed_connection_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let accepted = tokio::spawn(async move { listener.accept().await.map(drop) });
        let run = run(address, "/", 100.0, 1, Duration::from_millis(50))
            .await
            .expect("it runs");
        accepted.await.expect("no panic").expect("accepted");
        assert_eq!(run.errors, 5);
        assert!(run.first_error.is_some());
    }
}
