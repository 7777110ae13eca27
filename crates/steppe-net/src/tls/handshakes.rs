//! Handshakes with clients on one worker: their limit, and the order of their steps.
//!
//! Invariants: a handshake that has to wait is begun later rather than refused; one source has at most half of the
//! handshakes in progress, so that a crowd from one address keeps no other out; and a turn of the event loop
//! has one step of one handshake at most, so that connections which are established are served between any two.

mod crowd;
mod turnover;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;

pub use crowd::HandshakeLimits;
use crowd::{Crowd, HandshakeEntry, Turn};

use crate::clock;

/// Interval of looks for those that have stalled, while others wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The handshakes of one listener on one worker.
#[derive(Debug, Clone)]
pub struct Handshakes(Rc<WorkerHandshakes>);

#[derive(Debug)]
struct WorkerHandshakes {
    crowd: RefCell<Crowd>,
    /// A task looks for those that have stalled.
    is_looked_after: Cell<bool>,
    scheduler: Rc<HandshakeScheduler>,
}

/// Schedules the steps of all handshakes of a worker, one after the other.
#[derive(Debug)]
pub struct HandshakeScheduler(Semaphore);

/// A handshake, in progress or waiting for others to end.
#[derive(Debug)]
pub struct InProgress {
    entry: Rc<HandshakeEntry>,
    handshakes: Handshakes,
}

impl Default for HandshakeScheduler {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Handshakes {
    /// No handshakes yet, of those that `scheduler` schedules.
    #[must_use]
    pub fn new(scheduler: Rc<HandshakeScheduler>) -> Self {
        Self(Rc::new(WorkerHandshakes {
            crowd: RefCell::new(Crowd::new()),
            is_looked_after: Cell::new(false),
            scheduler,
        }))
    }

    /// Handshakes in progress.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.crowd.borrow().in_progress()
    }

    /// Begins one of `client`, or has it wait where there are as many as `limits` allow:
    /// [`InProgress::begun`] is next.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "its age counts from here")]
    pub fn begin(&self, limits: HandshakeLimits, client: IpAddr) -> InProgress {
        let mut crowd = self.0.crowd.borrow_mut();
        let entry = crowd.add(source(client), limits, clock::now());
        drop(crowd);
        InProgress {
            entry,
            handshakes: self.clone(),
        }
    }

    /// Ready when a connection may be accepted: those that wait are fewer than
    /// [`HANDSHAKES_WAITING_MAX`](crate::limits::HANDSHAKES_WAITING_MAX), or do not move.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        self.0.crowd.borrow_mut().poll_room(cx)
    }

    /// Evicts those that have stalled, until none waits.
    #[expect(
        clippy::disallowed_methods,
        reason = "it looks for those that take long"
    )]
    async fn look_after(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let mut crowd = self.0.crowd.borrow_mut();
            crowd.give_way(clock::now());
            if crowd.waiting() == 0 {
                self.0.is_looked_after.set(false);
                return;
            }
        }
    }
}

/// The source of a client: its IPv4 address, or the network of 64 bits of its IPv6 address.
fn source(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl InProgress {
    /// Waits until it is in progress. Ready with an error where it was evicted, or once `poll_given_up` is ready.
    ///
    /// # Errors
    /// [`NotBegun`].
    ///
    /// # Cancel safety
    /// Safe: it waits on, until it is dropped.
    pub async fn begun(
        &self,
        mut poll_given_up: impl FnMut(&mut Context<'_>) -> Poll<NotBegun>,
    ) -> Result<(), NotBegun> {
        if self.handshakes.0.crowd.borrow().waiting() > 0
            && !self.handshakes.0.is_looked_after.replace(true)
        {
            tokio::task::spawn_local(self.handshakes.clone().look_after());
        }
        poll_fn(|cx| {
            if self.entry.poll_begun(cx).is_ready() {
                return Poll::Ready(match self.entry.is_evicted() {
                    true => Err(NotBegun::Evicted),
                    false => Ok(()),
                });
            }
            poll_given_up(cx).map(Err)
        })
        .await
    }

    /// Notes that client and server agree.
    pub fn complete(&self) {
        self.entry.complete();
    }

    /// Ready once it is evicted.
    pub fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.entry.poll_evicted(cx)
    }

    /// Does a step that takes long, when it is this handshake's turn.
    ///
    /// # Errors
    /// The handshake was evicted meanwhile, and the step was not done.
    ///
    /// # Cancel safety
    /// The turn passes on.
    #[expect(clippy::disallowed_methods, reason = "a step is progress")]
    pub async fn step<T>(&self, step: impl FnOnce() -> T) -> Result<T, Evicted> {
        let waiting = WaitingForTurn::new(self);
        let mut turn = pin!(self.handshakes.0.scheduler.0.acquire());
        let turn = self.unless_evicted(|cx| turn.as_mut().poll(cx)).await?;
        drop(waiting);
        if self.entry.is_evicted() {
            return Err(Evicted);
        }
        let done = step();
        self.entry.note_progress(clock::now());
        // All tasks that are ready run before the next handshake's turn.
        tokio::task::yield_now().await;
        drop(turn);
        Ok(done)
    }

    /// Waits for `ready`, unless it is evicted before.
    ///
    /// # Errors
    /// The handshake was evicted.
    pub async fn unless_evicted<T>(
        &self,
        mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Evicted> {
        poll_fn(|cx| match ready(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => self.poll_evicted(cx).map(|()| Err(Evicted)),
        })
        .await
    }
}

/// Notes for a handshake that it waits for its turn.
struct WaitingForTurn<'a>(&'a InProgress);

impl<'a> WaitingForTurn<'a> {
    fn new(handshake: &'a InProgress) -> Self {
        handshake.entry.set_waits_for_turn(Turn::Awaited);
        Self(handshake)
    }
}

impl Drop for WaitingForTurn<'_> {
    fn drop(&mut self) {
        self.0.entry.set_waits_for_turn(Turn::Over);
    }
}

/// A reason why a handshake never began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBegun {
    /// Evicted, for others.
    Evicted,
    /// The client closed the connection.
    Left,
    /// The deadline passed.
    Late,
}

/// A handshake was evicted, for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted;

impl Drop for InProgress {
    #[expect(clippy::disallowed_methods, reason = "another begins in its place")]
    fn drop(&mut self) {
        let mut crowd = self.handshakes.0.crowd.borrow_mut();
        crowd.remove(&self.entry, clock::now());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const LIMITS: HandshakeLimits = HandshakeLimits {
        count_max: 100,
        age_max: Duration::MAX,
    };

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let address = |text: &str| source(text.parse().expect("an address"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:2"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }

    #[test]
    fn between_two_steps_everybody_else_runs() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let local = tokio::task::LocalSet::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        local.block_on(&runtime.expect("a runtime"), async {
            let handshakes = Handshakes::new(Rc::default());
            let mut tasks = Vec::new();
            for _ in 0..8 {
                let (log, slot) = (Rc::clone(&log), handshakes.begin(LIMITS, CLIENT));
                tasks.push(tokio::task::spawn_local(async move {
                    let done = slot.step(|| log.borrow_mut().push('h')).await;
                    done.expect("there is room");
                }));
            }
            let log = Rc::clone(&log);
            tasks.push(tokio::task::spawn_local(async move {
                for _ in 0..8 {
                    log.borrow_mut().push('e');
                    tokio::task::yield_now().await;
                }
            }));
            for task in tasks {
                task.await.expect("it ends");
            }
        });
        let log: String = log.borrow().iter().collect();
        assert!(!log.contains("hh"), "{log}");
    }
}
