//! Encoders that exist, in use or idle: charged to the budget, bounded, and used again.
//!
//! Invariant: whatever an encoder may take is reserved before it is made, and all of a filter's encoders take no
//! more than its share of the budget. Who finds no room sends what it has as it is. Each thread has idle
//! encoders of its own; the lock around them is for threads that end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use steppe_mem::{Account, Lease, Reservation};

use super::encoder::{Broken, Encoded, Encoder, Operation, Shape};
use crate::limits::{ENCODERS_LEAVE, ENCODERS_SHARE, IDLE_ENCODERS_MAX};

/// The encoders of one filter.
#[derive(Debug)]
pub(super) struct Contexts {
    account: Account,
    shelves: Box<[Shelf]>,
}

/// Encoders that wait for the next response of their thread.
#[derive(Debug)]
#[repr(align(128))]
struct Shelf {
    lease: Lease,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    shape: Shape,
    encoder: Encoder,
    _charge: Reservation,
}

/// An encoder in use; it waits for the next response when it is dropped.
#[derive(Debug)]
pub(super) struct Context {
    /// `None` once it is of no further use.
    idle: Option<Idle>,
    home: Arc<Contexts>,
}

impl Contexts {
    /// None yet; what there will be is charged to `account`, under `name`.
    pub(super) fn new(name: &str, account: &Account) -> Self {
        let limit = account.limit_bytes() / ENCODERS_SHARE;
        let account = account.child(format!("compress {name}"), Some(limit));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let shelf = || Shelf {
            lease: account.lease(),
            idle: Mutex::default(),
        };
        Self {
            shelves: std::iter::repeat_with(shelf).take(threads).collect(),
            account,
        }
    }

    /// An encoder at its beginning; `None` where the budget has no room for one.
    pub(super) fn take(self: &Arc<Self>, shape: Shape) -> Option<Context> {
        let idle = self.reuse(shape).or_else(|| self.make(shape))?;
        Some(Context {
            idle: Some(idle),
            home: Arc::clone(self),
        })
    }

    fn reuse(&self, shape: Shape) -> Option<Idle> {
        let mut idle = self
            .shelf()
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().position(|idle| idle.shape == shape)?;
        let mut found = idle.swap_remove(at);
        found.encoder.reset().is_ok().then_some(found)
    }

    fn make(&self, shape: Shape) -> Option<Idle> {
        let bytes = shape.state_bytes();
        let shelf = self.shelf();
        let root = shelf.lease.root();
        let leaves = root.limit_bytes() / ENCODERS_LEAVE;
        // What clients and servers sent comes first, and who waits for memory.
        if root.headroom_bytes() < bytes as u64 + leaves || root.waiting() > 0 {
            return None;
        }
        if self.account.headroom_bytes() < bytes as u64 {
            shelf.clear();
        }
        if self.account.headroom_bytes() < bytes as u64 {
            return None;
        }
        let charge = shelf.lease.try_reserve(bytes).ok()?;
        Some(Idle {
            shape,
            encoder: Encoder::new(shape).ok()?,
            _charge: charge,
        })
    }

    fn put_back(&self, returned: Idle) {
        let shelf = self.shelf();
        if shelf.lease.root().waiting() > 0 {
            return shelf.clear();
        }
        let mut idle = shelf.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_ENCODERS_MAX {
            idle.push(returned);
        }
    }

    /// That of the calling thread.
    fn shelf(&self) -> &Shelf {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let thread = THREAD.try_with(|thread| *thread).unwrap_or(0);
        &self.shelves[thread % self.shelves.len()]
    }
}

impl Shelf {
    fn clear(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.clear();
    }
}

impl Context {
    /// Takes some of `input`, and fills some of `room`.
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        room: &mut [u8],
        operation: Operation,
    ) -> Result<Encoded, Broken> {
        let idle = self.idle.as_mut().ok_or(Broken)?;
        let encoded = idle.encoder.encode(input, room, operation);
        if encoded.is_err() {
            self.idle = None;
        }
        encoded
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(idle) = self.idle.take().filter(|idle| idle.shape.is_reusable()) {
            self.home.put_back(idle);
        }
    }
}
