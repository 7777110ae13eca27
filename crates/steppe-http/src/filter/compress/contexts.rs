//! Encoders that exist, in use or idle: charged to the budget, bounded, and used again.
//!
//! Invariant: whatever an encoder may take is reserved before it is made, and all of a filter's encoders take no
//! more than its share of the budget. Who finds no room sends what it has as it is. Each thread has idle
//! encoders of its own, and one of whole content, which its responses use in turn; the locks are for threads that end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steppe_mem::{Account, Lease, Reservation};

use super::encoder::{Broken, ContentEncoder, Encoded, Operation, Shape, WholeEncoder};
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
    stock: Mutex<IdleEncoders>,
}

#[derive(Debug, Default)]
struct IdleEncoders {
    idle: Vec<Idle>,
    /// The encoder of whole content, at the one level that the filter has.
    whole: Option<Arc<Mutex<Charged>>>,
}

#[derive(Debug)]
struct Idle {
    shape: Shape,
    encoder: ContentEncoder,
    /// The encoder was fed: it has to be reset before other content.
    is_begun: bool,
    _charge: Reservation,
}

#[derive(Debug)]
struct Charged {
    encoder: WholeEncoder,
    _charge: Reservation,
}

/// An encoder in use; it waits for the next response when it is dropped.
#[derive(Debug)]
pub(super) struct EncoderContext {
    /// `None` once it is of no further use.
    idle: Option<Idle>,
    home: Arc<Contexts>,
}

/// The thread's encoder of whole content, kept for who has some to come.
#[derive(Debug)]
pub(super) struct Whole {
    encoder: Arc<Mutex<Charged>>,
    /// The shape of the encoder that streams the same content.
    shape: Shape,
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
            stock: Mutex::default(),
        };
        Self {
            shelves: std::iter::repeat_with(shelf).take(threads).collect(),
            account,
        }
    }

    /// An encoder at its beginning; `None` where the budget has no room for one.
    pub(super) fn take(self: &Arc<Self>, shape: Shape) -> Option<EncoderContext> {
        let idle = self.reuse(shape).or_else(|| self.make(shape))?;
        Some(EncoderContext {
            idle: Some(idle),
            home: Arc::clone(self),
        })
    }

    /// The encoder of whole content that `shape` would stream; `None` where the budget has no room for it.
    pub(super) fn whole(self: &Arc<Self>, shape: Shape) -> Option<Whole> {
        let there = self.shelf().stock().whole.clone();
        let encoder = there.or_else(|| self.make_whole(shape.level))?;
        Some(Whole {
            encoder,
            shape,
            home: Arc::clone(self),
        })
    }

    fn make_whole(&self, level: u8) -> Option<Arc<Mutex<Charged>>> {
        let charge = self.charge(WholeEncoder::state_bytes(level))?;
        let made = Arc::new(Mutex::new(Charged {
            encoder: WholeEncoder::new(level),
            _charge: charge,
        }));
        self.shelf().stock().whole = Some(Arc::clone(&made));
        Some(made)
    }

    fn reuse(&self, shape: Shape) -> Option<Idle> {
        let mut stock = self.shelf().stock();
        let at = stock.idle.iter().position(|idle| idle.shape == shape)?;
        let mut found = stock.idle.swap_remove(at);
        if found.is_begun {
            found.encoder.reset().ok()?;
            found.is_begun = false;
        }
        Some(found)
    }

    fn make(&self, shape: Shape) -> Option<Idle> {
        let charge = self.charge(shape.state_bytes())?;
        Some(Idle {
            shape,
            encoder: ContentEncoder::new(shape).ok()?,
            is_begun: false,
            _charge: charge,
        })
    }

    /// For an encoder that takes `bytes`.
    fn charge(&self, bytes: usize) -> Option<Reservation> {
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
        shelf.lease.try_reserve(bytes).ok()
    }

    fn put_back(&self, returned: Idle) {
        let shelf = self.shelf();
        if shelf.lease.root().waiting() > 0 {
            return shelf.clear();
        }
        let mut stock = shelf.stock();
        if stock.idle.len() < IDLE_ENCODERS_MAX {
            stock.idle.push(returned);
        }
    }

    /// The shelf of the calling thread.
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
    fn stock(&self) -> MutexGuard<'_, IdleEncoders> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self) {
        *self.stock() = IdleEncoders::default();
    }
}

impl EncoderContext {
    /// Takes some of `input`, and fills some of `room`.
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        room: &mut [u8],
        operation: Operation,
    ) -> Result<Encoded, Broken> {
        let idle = self.idle.as_mut().ok_or(Broken)?;
        idle.is_begun = true;
        let encoded = idle.encoder.encode(input, room, operation);
        if encoded.is_err() {
            self.idle = None;
        }
        encoded
    }
}

impl Whole {
    /// The longest result for content of so many bytes.
    pub(super) fn bytes_max(&self, bytes: usize) -> usize {
        self.encoder().encoder.bytes_max(bytes)
    }

    /// Fills some of `room`, which is [`Whole::bytes_max`] at least; says how much.
    pub(super) fn encode(&self, content: &[u8], room: &mut [u8]) -> usize {
        self.encoder().encoder.encode(content, room)
    }

    /// An encoder that streams the same content; `None` where the budget has no room for it.
    pub(super) fn stream(&self) -> Option<EncoderContext> {
        self.home.take(self.shape)
    }

    fn encoder(&self) -> MutexGuard<'_, Charged> {
        self.encoder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let shelf = self.home.shelf();
        if shelf.lease.root().waiting() > 0 {
            shelf.clear();
        }
    }
}

impl Drop for EncoderContext {
    fn drop(&mut self) {
        if let Some(idle) = self.idle.take().filter(|idle| idle.shape.is_reusable()) {
            self.home.put_back(idle);
        }
    }
}
