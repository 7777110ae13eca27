//! A limit that nodes share, in Valkey or Redis.
//!
//! A thread of its own asks: a worker hands a question over and waits for the answer as for any other, or decides
//! by itself where there is no store, or too much is being asked already. A question is one script, which is one
//! round trip, and counts by the store's clock.
//!
//! Invariant: a worker never waits for a socket, and never longer than [`STORE_TIMEOUT`]; what is asked at a time is
//! bounded by [`STORE_IN_FLIGHT_MAX`], whatever the store does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, Script};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::spawn_local;

use super::counts::Counts;
use crate::config::{Rate, RateStore};
use crate::limits::{STORE_IN_FLIGHT_MAX, STORE_PAUSE, STORE_TIMEOUT};

/// The time limit of the store. In unit tests it is always there, and late where others use the
/// machine.
const RESPONSE_TIMEOUT: Duration = if cfg!(test) {
    Duration::from_secs(20)
} else {
    STORE_TIMEOUT
};

/// The generic cell rate algorithm in microseconds; how long the request must wait, 0: it passes.
/// `TIME` has one clock for all nodes. Numbers are written to 17 digits: Lua would cut them.
const SCRIPT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local full_at = tonumber(redis.call('GET', KEYS[1]) or 0)
local next = math.max(full_at, now) + interval
local beyond = next - now - capacity
if beyond > 0.5 then return math.ceil(beyond) end
redis.call('SET', KEYS[1], string.format('%.17g', next), 'PX', math.ceil((next - now) / 1000) + 1)
return 0
";

/// The way to the store.
pub(super) struct Store {
    to_thread: mpsc::Sender<StoreQuestion>,
    counts: Arc<Counts>,
}

/// The store's answer for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreAnswer {
    /// The request passes.
    Pass,
    /// The request must wait for so many nanoseconds.
    Wait(u64),
    /// Nothing: it can't be asked.
    Away,
}

struct StoreQuestion {
    key: String,
    answer: oneshot::Sender<StoreAnswer>,
}

impl Store {
    /// Starts the thread that asks `store`; without one it is away for ever.
    pub(super) fn start(store: &RateStore, rate: &Rate, counts: Arc<Counts>) -> Self {
        let (to_thread, questions) = mpsc::channel(STORE_IN_FLIGHT_MAX);
        let line = Line::new(store.client().clone(), rate, Arc::clone(&counts));
        let thread = std::thread::Builder::new().name("limit-store".to_owned());
        let started = thread.spawn(move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default());
            match runtime {
                Ok(runtime) => runtime.block_on(line.serve(questions)),
                Err(error) => {
                    tracing::error!(%error, "cannot start the runtime of the rate limit store")
                }
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "cannot start the thread of the rate limit store");
        }
        Self { to_thread, counts }
    }

    /// Asks about a request of `key`. `None`: it can't be asked.
    pub(super) fn ask(&self, key: String) -> Option<oneshot::Receiver<StoreAnswer>> {
        if !self.counts.is_store_there.load(Ordering::Relaxed) {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let asked = self.to_thread.try_send(StoreQuestion { key, answer });
        asked.is_ok().then_some(answered)
    }
}

/// The thread's side.
struct Line {
    client: Client,
    script: Script,
    /// Microseconds in which one token comes, and in which a bucket fills.
    interval: f64,
    capacity: f64,
    counts: Arc<Counts>,
}

/// The connection that is used, and its number.
#[derive(Default)]
struct StoreConnection {
    connection: RefCell<Option<MultiplexedConnection>>,
    number: Cell<u64>,
    is_lost: Notify,
}

impl StoreConnection {
    fn begin(&self, connection: MultiplexedConnection) {
        self.connection.replace(Some(connection));
        self.number.set(self.number.get() + 1);
    }
}

impl Line {
    fn new(client: Client, rate: &Rate, counts: Arc<Counts>) -> Self {
        let interval = rate.per.as_secs_f64() * 1e6 / f64::from(rate.requests.max(1));
        Self {
            client,
            script: Script::new(SCRIPT),
            interval,
            capacity: interval * f64::from(rate.burst.max(1)),
            counts,
        }
    }

    async fn serve(self, mut questions: mpsc::Receiver<StoreQuestion>) {
        let this = Rc::new(self);
        let connected = Rc::<StoreConnection>::default();
        let keeping = spawn_local(Rc::clone(&this).keep_connected(Rc::clone(&connected)));
        let room = Rc::new(Semaphore::new(STORE_IN_FLIGHT_MAX));
        while let Some(question) = questions.recv().await {
            let permit = Rc::clone(&room);
            let (this, connected) = (Rc::clone(&this), Rc::clone(&connected));
            // Whoever asks further waits in the channel, which is bounded.
            let _ = room
                .acquire()
                .await
                .map(tokio::sync::SemaphorePermit::forget);
            spawn_local(async move {
                let answer = this.answer(&connected, &question.key).await;
                // Who asked may have left.
                let _ = question.answer.send(answer);
                permit.add_permits(1);
            });
        }
        keeping.abort();
    }

    /// Connects, and again whenever the connection is lost.
    async fn keep_connected(self: Rc<Self>, connected: Rc<StoreConnection>) {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let mut is_known = false;
        loop {
            let client = &self.client;
            match client
                .get_multiplexed_async_connection_with_config(&config)
                .await
            {
                Ok(connection) => {
                    connected.begin(connection);
                    self.counts.is_store_there.store(true, Ordering::Relaxed);
                    tracing::info!("rate limit store connected: limits are shared");
                    is_known = false;
                    connected.is_lost.notified().await;
                }
                // Once, until it is there again.
                Err(error) if !std::mem::replace(&mut is_known, true) => {
                    tracing::warn!(%error, "rate limit store unreachable: limits are local to this node");
                }
                Err(_) => {}
            }
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    async fn answer(&self, connected: &StoreConnection, key: &str) -> StoreAnswer {
        let number = connected.number.get();
        let connection = connected.connection.borrow().clone();
        let Some(mut connection) = connection else {
            return StoreAnswer::Away;
        };
        let mut call = self.script.prepare_invoke();
        call.key(key).arg(self.interval).arg(self.capacity);
        let answered: Result<u64, RedisError> = call.invoke_async(&mut connection).await;
        match answered {
            Ok(0) => StoreAnswer::Pass,
            Ok(micros) => StoreAnswer::Wait(micros.saturating_mul(1000)),
            Err(error) => {
                // What was asked on it before says nothing about the next one.
                let is_current = number == connected.number.get();
                if is_current && connected.connection.borrow_mut().take().is_some() {
                    self.counts.is_store_there.store(false, Ordering::Relaxed);
                    tracing::warn!(%error, "rate limit store unreachable: limits are local to this node");
                    connected.is_lost.notify_one();
                }
                StoreAnswer::Away
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
