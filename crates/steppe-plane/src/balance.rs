//! Calls over several workers or relays: choice of a peer, and retries at another.
//!
//! Invariant: a call is sent again only if the first peer did not process it, or if its idempotency key permits
//! another run; and never after its response was passed on.

mod retries;
mod seat;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout_at};

use crate::caller::{Ask, Call, Caller};
use crate::connection::Processing;
use crate::dial::{Backoff, Target};
use crate::frame::Payment;
use crate::io::{Failure, Kept as _, Memory, Receiver, Way};
use crate::limits::{CALL_TRIES_MAX, CONNECT_TIMEOUT};
use crate::random::{Random, mix};
use crate::status::Status;
use retries::Retries;
use seat::{Seat, Taken};

/// Calls over several workers or relays, with a connection to each. Clones share the connections.
#[derive(Debug, Clone)]
pub struct Balancer(Arc<Shared>);

/// The policy that selects one of the connected peers that offer the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<'a> {
    /// Of two at random, the one with fewer bytes in flight (Mitzenmacher, "The power of two choices in
    /// randomized load balancing", 2001).
    Least,
    /// The same peer for the same key, as long as it is connected (rendezvous hashing, Thaler and Ravishankar,
    /// 1998).
    Key(&'a [u8]),
}

#[derive(Debug)]
struct Shared {
    memory: Arc<Memory>,
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Notified whenever a peer has connected.
    changed: Arc<Notify>,
    random: Random,
    retries: Retries,
}

impl Balancer {
    /// Dials `targets`, and dials each again with a back-off when its connection is lost.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(memory: &Arc<Memory>, targets: impl IntoIterator<Item = Target>) -> Self {
        let balancer = Self(Arc::new(Shared {
            memory: Arc::clone(memory),
            seats: Mutex::default(),
            changed: Arc::new(Notify::new()),
            random: Random::new(),
            retries: Retries::new(),
        }));
        balancer.set_targets(targets);
        balancer
    }

    /// Replaces the targets: dials new ones, and closes connections to removed ones once their open calls
    /// have ended.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn set_targets(&self, targets: impl IntoIterator<Item = Target>) {
        let mut seats = self.seats();
        let mut wanted: Vec<Arc<Seat>> = Vec::new();
        for target in targets {
            let is_it = |seat: &&Arc<Seat>| seat.address() == target.address();
            if wanted.iter().any(|seat| is_it(&seat)) {
                continue;
            }
            let seat = seats.iter().find(is_it).cloned();
            wanted.push(seat.unwrap_or_else(|| Seat::new(target, &self.0.memory, &self.0.changed)));
        }
        *seats = wanted;
    }

    /// The number of peers that are connected now.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.seats()
            .iter()
            .filter(|seat| seat.caller().is_some())
            .count()
    }

    /// Sends a request of one message and receives one message. While no peer is connected, the call waits until
    /// its deadline, or for [`CONNECT_TIMEOUT`] if it has none.
    ///
    /// A failed call is sent to another peer, [`CALL_TRIES_MAX`] times in all: any request that was not
    /// processed; another request only with an idempotency key, which permits another run and
    /// does not deduplicate. `body` is charged to the memory until the call has ended.
    ///
    /// # Errors
    /// The [`Failure`] of the last try.
    ///
    /// # Cancel safety
    /// A future that is dropped cancels the call on both sides.
    #[expect(
        clippy::disallowed_methods,
        reason = "the deadline of all tries begins"
    )]
    pub async fn unary(
        &self,
        ask: &Ask<'_>,
        choice: Choice<'_>,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let until = ask.deadline.map(|deadline| Instant::now() + deadline);
        let room = self
            .0
            .memory
            .reserve_for(Way::Request, body.len(), ask.queueing);
        let _kept = before(until, room).await??;
        let mut tried: Vec<Arc<Seat>> = Vec::new();
        let mut backoff = Backoff::new();
        loop {
            let (seat, caller) = self.choose(ask.service, choice, &tried, until).await?;
            let ask = Ask {
                deadline: until.map(left),
                ..*ask
            };
            let taken = seat.take(body.len());
            let failure = match caller.unary(&ask, body.clone()).await {
                Ok(answer) => {
                    self.0.retries.earn();
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if failure.status == Status::Overloaded {
                taken.refused();
            }
            drop(taken);
            let is_other = self.has_other(ask.service, &tried, &seat);
            tried.push(seat);
            let may_try = tried.len() < CALL_TRIES_MAX && may_retry(&failure, &ask, is_other);
            if !may_try || !self.0.retries.spend() {
                return Err(failure);
            }
            if !is_other {
                before(until, sleep(backoff.next())).await?;
            }
        }
    }

    /// Begins a call whose messages are sent and received one by one, as [`Caller::call`] does. If a peer can't
    /// open it, another one is tried; messages are sent once only.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Cancel safety
    /// A future that is dropped has opened nothing. A [`Call`] that is dropped is cancelled.
    pub async fn call(
        &self,
        ask: &Ask<'_>,
        choice: Choice<'_>,
        payment: Payment,
    ) -> Result<Call, Failure> {
        let call = self.begin(ask, choice, async |caller, ask| {
            caller.call(ask, payment).await
        });
        let (call, taken) = call.await?;
        call.response.keep(Box::new(taken));
        Ok(call)
    }

    /// Sends a request of one message and receives the response message by message, as [`Caller::stream`] does.
    /// If a peer can't open the call, another one is tried.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Cancel safety
    /// A future that is dropped has opened nothing. A [`Receiver`] that is dropped cancels the call.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn stream(
        &self,
        ask: &Ask<'_>,
        choice: Choice<'_>,
        body: Bytes,
    ) -> Result<Receiver, Failure> {
        let begin = async |caller: Caller, ask: &Ask<'_>| caller.stream(ask, body.clone()).await;
        let (response, taken) = self.begin(ask, choice, begin).await?;
        response.keep(Box::new(taken));
        Ok(response)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the deadline of all tries begins"
    )]
    async fn begin<T>(
        &self,
        ask: &Ask<'_>,
        choice: Choice<'_>,
        begin: impl AsyncFn(Caller, &Ask<'_>) -> Result<T, Failure>,
    ) -> Result<(T, Taken), Failure> {
        let until = ask.deadline.map(|deadline| Instant::now() + deadline);
        let mut tried = Vec::new();
        loop {
            let (seat, caller) = self.choose(ask.service, choice, &tried, until).await?;
            let ask = Ask {
                deadline: until.map(left),
                ..*ask
            };
            let taken = seat.take(0);
            match before(until, begin(caller, &ask)).await? {
                Ok(call) => return Ok((call, taken)),
                Err(failure) => {
                    let is_other = self.has_other(ask.service, &tried, &seat);
                    tried.push(seat);
                    let may_try = tried.len() < CALL_TRIES_MAX && is_other;
                    if !may_try || !may_retry(&failure, &ask, is_other) {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Waits until a connected peer offers `service`, and chooses one.
    #[expect(
        clippy::disallowed_methods,
        reason = "whoever waits for a connection does so for a while"
    )]
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    async fn choose(
        &self,
        service: &str,
        choice: Choice<'_>,
        tried: &[Arc<Seat>],
        until: Option<Instant>,
    ) -> Result<(Arc<Seat>, Caller), Failure> {
        let patience = until.unwrap_or_else(|| Instant::now() + CONNECT_TIMEOUT);
        loop {
            // Created before the check, so that a peer that connects in between wakes this wait.
            let changed = self.0.changed.notified();
            if until.is_some_and(|until| left(until).is_zero()) {
                return Err(Failure::unprocessed(Status::DeadlineExceeded, ""));
            }
            if let Some(chosen) = self.pick(service, choice, tried) {
                return Ok(chosen);
            }
            if timeout_at(patience.into(), changed).await.is_err() {
                let detail = "no connected worker offers this service";
                return Err(Failure::unprocessed(Status::Unavailable, detail));
            }
        }
    }

    fn pick(
        &self,
        service: &str,
        choice: Choice<'_>,
        tried: &[Arc<Seat>],
    ) -> Option<(Arc<Seat>, Caller)> {
        let mut there = self.who_serves(service);
        let was_tried = |seat: &Arc<Seat>| tried.iter().any(|it| Arc::ptr_eq(it, seat));
        if there.iter().any(|(seat, _)| !was_tried(seat)) {
            there.retain(|(seat, _)| !was_tried(seat));
        }
        if choice == Choice::Least && there.iter().any(|(seat, _)| !seat.rests()) {
            there.retain(|(seat, _)| !seat.rests());
        }
        let at = match choice {
            Choice::Key(key) => {
                let key = seat::hash(key);
                (0..there.len()).max_by_key(|&at| mix(key ^ there[at].0.hash()))?
            }
            Choice::Least => {
                let count = there.len();
                let first = self.random_below(count)?;
                // A peer other than the first, if there are two.
                let step = self.random_below(count - 1).map_or(0, |step| step + 1);
                let second = (first + step) % count;
                match there[second].0.load() < there[first].0.load() {
                    true => second,
                    false => first,
                }
            }
        };
        Some(there.swap_remove(at))
    }

    /// The connected peers that offer `service`, or whose services are unknown.
    fn who_serves(&self, service: &str) -> Vec<(Arc<Seat>, Caller)> {
        let seats = self.seats();
        let there = seats.iter().filter_map(|seat| {
            let caller = seat.caller()?;
            // A relay sends no SERVICES.
            let may_serve = caller.serves(service).unwrap_or(true);
            may_serve.then(|| (Arc::clone(seat), caller))
        });
        there.collect()
    }

    fn has_other(&self, service: &str, tried: &[Arc<Seat>], last: &Arc<Seat>) -> bool {
        let there = self.who_serves(service);
        let mut there = there.iter().map(|(seat, _)| seat);
        there.any(|seat| {
            let was_tried = tried.iter().any(|it| Arc::ptr_eq(it, seat));
            !was_tried && !Arc::ptr_eq(last, seat)
        })
    }

    fn random_below(&self, count: usize) -> Option<usize> {
        let bound = u64::try_from(count).ok().filter(|&count| count > 0)?;
        usize::try_from(self.0.random.below(bound)).ok()
    }

    fn seats(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Seat>>> {
        self.0.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if a failed call may be tried again: for some failures only when another peer is there.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn may_retry(failure: &Failure, ask: &Ask<'_>, is_other: bool) -> bool {
    match (failure.status, failure.processing) {
        (Status::Unavailable | Status::Draining, Processing::None) => true,
        (Status::Unavailable | Status::Draining, Processing::Begun) => {
            ask.idempotency_key.is_some()
        }
        // Another peer may have room; a retry at the same one is left to the caller.
        (Status::Overloaded | Status::TooLarge, Processing::None) => is_other,
        _ => false,
    }
}

/// Runs `work` until the deadline; fails as deadline exceeded after it.
async fn before<T>(until: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Failure> {
    match until {
        None => Ok(work.await),
        Some(until) => timeout_at(until.into(), work)
            .await
            .map_err(|_| Failure::unprocessed(Status::DeadlineExceeded, "")),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is left of a deadline is sent with each try"
)]
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
