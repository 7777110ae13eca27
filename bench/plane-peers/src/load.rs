//! The load: so many calls at a time, each begun when the one before it has ended.
//!
//! No call begins after the time is over, and calls in flight are waited for: the calls counted, their
//! wall time and their CPU time belong together, however long a call is.

use std::future::Future;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::{Buf, Bytes};
use clap::{Args, ValueEnum};
use tokio::task::JoinSet;

/// The load: shape and size of its calls, concurrency and duration.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Shape of a call
    #[arg(long, value_enum, default_value_t = Shape::Unary)]
    pub shape: Shape,
    /// Bytes of a body, or of an item
    #[arg(long)]
    pub bytes: u32,
    /// Calls at a time
    #[arg(long)]
    pub concurrency: usize,
    /// Time in which calls begin, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    pub milliseconds: u64,
}

/// The shape of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// A body that the worker sends back.
    Unary,
    /// A few bytes, answered by a stream of [`ITEMS`] items.
    Stream,
}

/// The request of a stream: the number of its items, and the bytes of each.
#[derive(Debug, Clone, Copy)]
pub struct Items {
    pub count: u32,
    pub bytes: u32,
}

/// Items of a stream.
pub const ITEMS: u32 = 1_000;

/// One caller, with one call at a time.
pub trait Target: Send + 'static {
    /// Sends `body` in a unary call, and returns the body of the answer.
    fn unary(&mut self, body: Bytes) -> impl Future<Output = Result<Bytes>> + Send;

    /// Requests a stream of items, and returns the number of items and bytes received.
    fn items(&mut self, items: Items) -> impl Future<Output = Result<Came>> + Send;
}

/// The items and bytes received on a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Came {
    pub items: u64,
    pub bytes: u64,
}

/// The outcomes of one caller's calls.
#[derive(Debug, Default)]
struct Tally {
    /// Latency of each call that succeeded, from its beginning to its end.
    latencies_us: Vec<u32>,
    failed: u64,
    failure: Option<String>,
}

/// Time before calls are counted, in which connections open and memory warms up.
const WARM_UP: Duration = Duration::from_millis(300);
const WARM_UP_CALLS: usize = 2;

/// Warms up, prints `ready`, waits for a line of standard input, runs the load, and prints its figures.
///
/// # Errors
/// Where the first calls fail.
pub async fn run<T: Target>(targets: Vec<T>, plan: &Plan) -> Result<()> {
    let body = body(plan.bytes as usize);
    let (targets, warm, _) = drive(targets, plan, &body, WARM_UP, WARM_UP_CALLS).await?;
    ensure!(
        warm.failed == 0,
        "cannot call: {}",
        warm.failure.unwrap_or_default()
    );
    drop(warm);
    say("ready");
    wait_for_line();
    let time = Duration::from_millis(plan.milliseconds);
    let (_targets, tally, wall) = drive(targets, plan, &body, time, 1).await?;
    say(&report(tally, plan, wall));
    // The bench reads CPU time and memory of this process, then ends it by closing its input.
    wait_for_line();
    Ok(())
}

/// Has every target call for `time`, and `calls_min` times at least.
async fn drive<T: Target>(
    targets: Vec<T>,
    plan: &Plan,
    body: &Bytes,
    time: Duration,
    calls_min: usize,
) -> Result<(Vec<T>, Tally, Duration)> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for target in targets {
        tasks.spawn(work(
            target,
            plan.clone(),
            body.clone(),
            began + time,
            calls_min,
        ));
    }
    let mut targets = Vec::with_capacity(tasks.len());
    let mut sum = Tally::default();
    while let Some(done) = tasks.join_next().await {
        let (target, mut tally) = done?;
        targets.push(target);
        sum.latencies_us.append(&mut tally.latencies_us);
        sum.failed += tally.failed;
        sum.failure = sum.failure.or(tally.failure);
    }
    Ok((targets, sum, began.elapsed()))
}

async fn work<T: Target>(
    mut target: T,
    plan: Plan,
    body: Bytes,
    until: Instant,
    calls_min: usize,
) -> (T, Tally) {
    let mut tally = Tally::default();
    let mut began = Instant::now();
    for calls in 0.. {
        if calls >= calls_min && began >= until {
            break;
        }
        let outcome = call(&mut target, &plan, &body).await;
        let now = Instant::now();
        match outcome {
            Ok(()) => {
                let micros = (now - began).as_micros();
                let micros = u32::try_from(micros).unwrap_or(u32::MAX);
                tally.latencies_us.push(micros);
            }
            Err(error) => {
                tally.failed += 1;
                tally.failure.get_or_insert(format!("{error:#}"));
                if tally.failed > FAILURES_MAX {
                    break;
                }
            }
        }
        began = now;
    }
    (target, tally)
}

/// Failed calls after which a caller gives up: later calls would fail too.
const FAILURES_MAX: u64 = 100;

async fn call<T: Target>(target: &mut T, plan: &Plan, body: &Bytes) -> Result<()> {
    match plan.shape {
        Shape::Unary => {
            let answer = target.unary(body.clone()).await?;
            let is_same = answer.len() == body.len() && ends(&answer) == ends(body);
            ensure!(is_same, "{} bytes, not those that were sent", answer.len());
        }
        Shape::Stream => {
            let items = Items {
                count: ITEMS,
                bytes: plan.bytes,
            };
            let came = target.items(items).await?;
            let expected = Came {
                items: u64::from(ITEMS),
                bytes: u64::from(ITEMS) * u64::from(plan.bytes),
            };
            ensure!(came == expected, "{came:?}, not {expected:?}");
        }
    }
    Ok(())
}

/// The first and the last 8 bytes of a body: comparing whole answers would be a large part of the
/// measured cost.
fn ends(body: &[u8]) -> (&[u8], &[u8]) {
    let count = body.len().min(8);
    (&body[..count], &body[body.len() - count..])
}

/// A body that differs from place to place.
fn body(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

/// One line of figures. An operation is a call, or an item of a stream.
fn report(mut tally: Tally, plan: &Plan, wall: Duration) -> String {
    let latencies = &mut tally.latencies_us;
    latencies.sort_unstable();
    let quantile = |permille: usize| {
        let at = (latencies.len() * permille / 1_000).min(latencies.len().saturating_sub(1));
        latencies.get(at).copied().unwrap_or(0)
    };
    let per_call = match plan.shape {
        Shape::Unary => 1,
        Shape::Stream => u64::from(ITEMS),
    };
    let failure = tally.failure.unwrap_or_default();
    format!(
        "operations={} failed={} wall_us={} p50_us={} p99_us={} p999_us={} failure={}",
        latencies.len() as u64 * per_call,
        tally.failed,
        wall.as_micros(),
        quantile(500),
        quantile(990),
        quantile(999),
        failure.replace('\n', " "),
    )
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // If the reader is gone, standard input is closed too, which ends this process.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Blocks until standard input has a line or ends. The process costs no CPU time meanwhile.
fn wait_for_line() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

impl Items {
    pub fn encode(self) -> Bytes {
        let (count, bytes) = (self.count.to_be_bytes(), self.bytes.to_be_bytes());
        [count, bytes].concat().into()
    }

    /// # Errors
    /// If the bytes are not 8, the length that [`Items::encode`] produces.
    pub fn decode(mut bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.len() == 8, "{} bytes ask for no items", bytes.len());
        Ok(Self {
            count: bytes.get_u32(),
            bytes: bytes.get_u32(),
        })
    }

    /// One of the items.
    pub fn item(self) -> Bytes {
        body(self.bytes as usize)
    }
}

impl Came {
    pub fn add(&mut self, item: &[u8]) {
        self.items += 1;
        self.bytes += item.len() as u64;
    }
}
