//! The calls of a run: a number at a time, or a number a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_plane::frame::Queueing;
use steppe_plane::{Ask, Caller, Failure, Status};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::counts::{Answer, Counts};

/// The settings of a run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) service: String,
    pub(super) body: Bytes,
    pub(super) concurrency: u32,
    pub(super) requests: Option<u64>,
    pub(super) duration: Option<Duration>,
    /// Calls a second.
    pub(super) rate: Option<f64>,
    pub(super) deadline: Option<Duration>,
    pub(super) queueing: Queueing,
    pub(super) taking: Taking,
}

/// The form in which answers are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    /// Whole, as one message.
    Whole,
    /// Message by message.
    Messages,
}

/// The calls of a run.
#[derive(Debug)]
pub(super) struct Load {
    plan: Plan,
    start: Instant,
    next: AtomicU64,
    counts: Mutex<Counts>,
}

/// Pause between calls over a lost connection.
const LOST_PAUSE: Duration = Duration::from_millis(100);

impl Load {
    pub(super) fn new(plan: Plan, start: Instant) -> Self {
        Self {
            plan,
            start,
            next: AtomicU64::new(0),
            counts: Mutex::new(Counts::new(start)),
        }
    }

    /// The outcomes of the calls so far.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.lock().clone();
        counts.due = self.plan.rate.map(|rate| self.due(rate, counts.end));
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that were due by `now`, at most those of the run.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a cast of a float saturates"
    )]
    fn due(&self, rate: f64, now: Instant) -> u64 {
        let elapsed = now - self.start;
        let elapsed = self.plan.duration.map_or(elapsed, |most| elapsed.min(most));
        let due = (elapsed.as_secs_f64() * rate).ceil() as u64;
        self.plan.requests.map_or(due, |most| due.min(most))
    }

    /// Takes the next call, and returns its due time; `None`: there is none.
    fn take(&self, now: Instant) -> Option<Instant> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let is_beyond = self.plan.requests.is_some_and(|most| number >= most);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53 calls")]
        let due = match self.plan.rate {
            // A due time beyond the clock's range ends the run.
            Some(rate) => {
                let after = Duration::try_from_secs_f64(number as f64 / rate).ok()?;
                self.start.checked_add(after)?
            }
            None => now,
        };
        let begins = due.max(now);
        let end = self.plan.duration.map(|length| self.start + length);
        let is_late = end.is_some_and(|end| begins >= end);
        (!is_beyond && !is_late).then_some(due)
    }

    async fn call(&self, caller: &Caller) -> Result<Answer, Failure> {
        let plan = &self.plan;
        let ask = Ask {
            deadline: plan.deadline,
            queueing: plan.queueing,
            ..Ask::new(&plan.service)
        };
        match plan.taking {
            Taking::Whole => {
                let answer = caller.unary(&ask, plan.body.clone()).await?;
                Ok(Answer {
                    bytes: answer.len() as u64,
                    messages: 1,
                })
            }
            Taking::Messages => messages(caller, &ask, plan.body.clone()).await,
        }
    }
}

/// Sends the body, and receives all messages of the answer.
async fn messages(caller: &Caller, ask: &Ask<'_>, body: Bytes) -> Result<Answer, Failure> {
    let mut response = caller.stream(ask, body).await?;
    let mut answer = Answer {
        bytes: 0,
        messages: 0,
    };
    while let Some(part) = response.next().await? {
        answer.bytes += part.bytes.len() as u64;
        answer.messages += u64::from(part.rest == 0);
    }
    Ok(answer)
}

/// Makes all calls.
pub(super) async fn run(load: &Arc<Load>, callers: &[Caller]) {
    let mut tasks = JoinSet::new();
    for (caller, _) in callers.iter().cycle().zip(0..load.plan.concurrency) {
        tasks.spawn(one_by_one(Arc::clone(load), caller.clone()));
    }
    while tasks.join_next().await.is_some() {}
}

/// Makes one call after the other.
#[expect(
    clippy::disallowed_methods,
    reason = "a call begins and ends: that is what is measured"
)]
async fn one_by_one(load: Arc<Load>, caller: Caller) {
    while let Some(due) = load.take(Instant::now()) {
        if load.plan.rate.is_some() {
            sleep_until(due.into()).await;
        }
        let outcome = load.call(&caller).await;
        let is_lost = matches!(&outcome, Err(failure) if failure.status == Status::Unavailable);
        let sent = load.plan.body.len();
        load.lock().add((due, Instant::now()), sent, &outcome);
        if is_lost {
            sleep(LOST_PAUSE).await;
        }
    }
}
