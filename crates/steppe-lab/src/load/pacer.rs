//! Pacing of a thread's workers: turns and start times of their operations.
//!
//! A worker does one operation at a time. In a closed loop each starts when its last one is over. In an open
//! loop the workers take turns: the one whose turn it is waits until the next arrival is due, hands the turn
//! on and starts. A worker that comes late finds its arrival due already, starts at once, and the delay is
//! part of the response time. So the backlog is a number and not a queue: it takes no memory however far the
//! target falls behind.
//!
//! An arrival is claimed only when it is due; arrivals that are due and unclaimed at a pause are counted as
//! intended and dropped. Everything here belongs to one thread.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, Notify};

use super::schedule::{Schedule, Share};
use super::tally::{self, Failure, Shared};

/// State that the workers of a thread share.
pub(super) struct Pacer {
    place: Place,
    /// `None`: a closed loop.
    rate_per_s: Option<f64>,
    burst: Cell<Option<Stretch>>,
    /// Arrivals of this burst that were started.
    claimed: Cell<u64>,
    in_flight: Cell<usize>,
    /// Notified when a burst begins or ends, and when the last operation is over.
    changed: Notify,
    /// Timer until the next arrival; the worker that holds the lock has the turn.
    timer: Mutex<Timer>,
    tally: Shared,
}

/// Index of a thread in its load, and the size of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) thread: u32,
    pub(super) threads: u32,
    /// Connections of all threads.
    pub(super) connections: u32,
    /// Concurrent operations on each connection.
    pub(super) streams: u32,
}

/// A stretch of load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) start: Instant,
    pub(super) ramp: Duration,
}

/// An operation that was started.
pub(super) struct Ticket {
    intended: Instant,
    started: Instant,
}

impl Pacer {
    /// # Errors
    /// When there is no file descriptor left for a timer.
    pub(super) fn new(place: Place, rate_per_s: Option<f64>, tally: Shared) -> io::Result<Self> {
        Ok(Self {
            place,
            rate_per_s,
            burst: Cell::new(None),
            claimed: Cell::new(0),
            in_flight: Cell::new(0),
            changed: Notify::new(),
            timer: Mutex::new(Timer::new()?),
            tally,
        })
    }

    pub(super) fn resume(&self, burst: Stretch) {
        self.burst.set(Some(burst));
        self.claimed.set(0);
        self.changed.notify_waiters();
    }

    /// Ends the burst: no operation starts anymore. Counts the arrivals that were due, and those never started.
    pub(super) fn pause(&self, now: Instant) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        if let Some(share) = self.share(burst) {
            let claimed = self.claimed.get();
            let elapsed = now.saturating_duration_since(burst.start);
            let is_begun = now >= burst.start;
            let due = if is_begun { share.due_by(elapsed) } else { 0 };
            let mut tally = tally::lock(&self.tally);
            tally.intend(due.max(claimed));
            tally.dropped += due.saturating_sub(claimed);
        }
        self.changed.notify_waiters();
    }

    /// Waits until nothing is in flight, or load runs again.
    pub(super) async fn quiet(&self) {
        while self.in_flight.get() > 0 && self.burst.get().is_none() {
            self.changed.notified().await;
        }
    }

    /// Waits for the start of a worker's next operation; workers are numbered over all threads.
    pub(super) async fn next(&self, worker: u32) -> Ticket {
        let intended = match self.rate_per_s {
            Some(_) => self.arrival().await,
            None => self.vacancy(worker).await,
        };
        self.in_flight.set(self.in_flight.get() + 1);
        let started = Instant::now();
        Ticket {
            intended: intended.unwrap_or(started),
            started,
        }
    }

    /// Counts an operation that is over.
    pub(super) fn finish(&self, ticket: &Ticket, outcome: Result<(), Failure>) {
        let now = Instant::now();
        let mut tally = tally::lock(&self.tally);
        match outcome {
            Ok(()) => tally.succeed(now - ticket.intended, now - ticket.started),
            Err(failure) => tally.fail(failure.kind, 1),
        }
        drop(tally);
        self.in_flight.set(self.in_flight.get() - 1);
        let is_quiet = self.in_flight.get() == 0 && self.burst.get().is_none();
        if is_quiet {
            self.changed.notify_waiters();
        }
    }

    /// Delays the next try of a worker in a closed loop. A pause ends the delay.
    pub(super) async fn back_off(&self, wait: Duration) {
        if self.rate_per_s.is_none() {
            self.sleep(wait).await;
        }
    }

    /// Waits until an arrival is due, and claims it. Returns its intended start.
    async fn arrival(&self) -> Option<Instant> {
        let timer = self.timer.lock().await;
        loop {
            let Some((burst, share)) = self.burst.get().and_then(|b| Some((b, self.share(b)?)))
            else {
                self.changed.notified().await;
                continue;
            };
            let claimed = self.claimed.get();
            let due = burst.start + share.due(claimed);
            let wait = due.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                self.claimed.set(claimed + 1);
                return Some(due);
            }
            tokio::select! {
                () = timer.sleep(wait) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Waits until load runs and the ramp has reached this worker. Always `None`: a closed loop intends no start.
    async fn vacancy(&self, worker: u32) -> Option<Instant> {
        loop {
            let Some(burst) = self.burst.get() else {
                self.changed.notified().await;
                continue;
            };
            let workers = self.place.connections * self.place.streams;
            let turn = burst.start + burst.ramp.mul_f64(f64::from(worker) / f64::from(workers));
            let wait = turn.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return None;
            }
            self.sleep(wait).await;
        }
    }

    async fn sleep(&self, wait: Duration) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.changed.notified() => {}
        }
    }

    fn share(&self, burst: Stretch) -> Option<Share> {
        let schedule = Schedule {
            rate_per_s: self.rate_per_s?,
            ramp: burst.ramp,
        };
        Some(Share {
            schedule,
            thread: self.place.thread,
            threads: self.place.threads,
        })
    }
}

/// A timer of the kernel. Those of the runtime are a millisecond late, which would count as the target's
/// latency in an open loop.
struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    #[expect(
        deprecated,
        reason = "for types whose descriptor may change; an owned one does not, and the replacement \
                  is unsafe"
    )]
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        AsyncFd::with_interest(timer, Interest::READABLE).map(Self)
    }

    /// Sleeps for `wait` or less: the caller checks the clock again.
    ///
    /// Expirations are not read: setting the timer again forgets them.
    async fn sleep(&self, wait: Duration) {
        let setting = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            },
        };
        let is_set = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting).is_ok();
        match self.0.readable().await {
            Ok(mut guard) if is_set => guard.clear_ready(),
            // The timer can't be set or read: a coarse one is better than none.
            _ => tokio::time::sleep(wait).await,
        }
    }
}
