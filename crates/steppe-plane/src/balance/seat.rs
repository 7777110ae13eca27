//! One peer of a balancer: its connection and its calls in flight.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::caller::Caller;
use crate::dial::{Backoff, Target};
use crate::io::{Kept, Memory};
use crate::random::mix;
use crate::rest::{Refusal, Rest};

/// One peer of a balancer.
#[derive(Debug)]
pub(super) struct Seat {
    target: Target,
    hash: u64,
    /// `None` while the peer is not connected.
    caller: Mutex<Option<Caller>>,
    bytes: AtomicU64,
    calls: AtomicU32,
    rest: Rest,
    keeper: Mutex<Option<AbortHandle>>,
}

/// An open call, counted at its peer until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    seat: Arc<Seat>,
    bytes: u64,
    refusal: Refusal,
}

impl Seat {
    /// Dials `target`, again after each loss, until the seat is dropped. `changed` is notified of each connection.
    pub(super) fn new(target: Target, memory: &Arc<Memory>, changed: &Arc<Notify>) -> Arc<Self> {
        let seat = Arc::new(Self {
            hash: hash(target.address().as_bytes()),
            target: target.clone(),
            caller: Mutex::default(),
            bytes: AtomicU64::new(0),
            calls: AtomicU32::new(0),
            rest: Rest::default(),
            keeper: Mutex::default(),
        });
        let keeper = keep(
            Arc::downgrade(&seat),
            target,
            Arc::clone(memory),
            Arc::clone(changed),
        );
        let keeper = tokio::spawn(keeper).abort_handle();
        *lock(&seat.keeper) = Some(keeper);
        seat
    }

    pub(super) fn address(&self) -> &str {
        self.target.address()
    }

    /// Hash of the target's address.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// The connection; `None` while the peer is not connected.
    pub(super) fn caller(&self) -> Option<Caller> {
        lock(&self.caller).clone()
    }

    /// True while the peer rests, after it refused a call as overloaded.
    pub(super) fn rests(&self) -> bool {
        self.rest.is_on()
    }

    /// The load of the peer: bytes in flight first, then open calls.
    pub(super) fn load(&self) -> (u64, u32) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        (bytes, self.calls.load(Ordering::Relaxed))
    }

    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Taken {
        let bytes = bytes as u64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
        Taken {
            seat: Arc::clone(self),
            bytes,
            refusal: Refusal::default(),
        }
    }
}

/// Keeps the connection of a seat: dials, waits for its loss, and dials again with a back-off.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a connection lasts decides when it is dialed again"
)]
async fn keep(seat: Weak<Seat>, target: Target, memory: Arc<Memory>, changed: Arc<Notify>) {
    let set = |caller| {
        if let Some(seat) = seat.upgrade() {
            *lock(&seat.caller) = caller;
        }
    };
    let mut backoff = Backoff::new();
    loop {
        let began = Instant::now();
        if let Ok(caller) = Caller::connect(target.clone(), &memory).await
            && caller.connected().await.is_ok()
        {
            set(Some(caller.clone()));
            changed.notify_waiters();
            caller.lost().await;
            set(None);
        }
        backoff.lasted(began.elapsed());
        sleep(backoff.next()).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(keeper) = lock(&self.keeper).take() {
            keeper.abort();
        }
    }
}

impl Kept for Taken {
    fn refused(&self) {
        self.refusal.begin(&self.seat.rest);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.refusal.end(&self.seat.rest);
        self.seat.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.seat.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Hash of bytes, equal in every process: callers that share no memory choose the same peer.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u64, |hash, word| mix(hash ^ word))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
