//! The rest of a worker that has just refused a call as overloaded: others are asked while it lasts.
//!
//! A worker that refuses has few calls open, so a choice by load alone sends it every call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::limits::REFUSAL_REST;

/// When the rest of a worker ends.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// In milliseconds of [`now_ms`]; 0: it takes calls.
    until_ms: AtomicU64,
}

impl Rest {
    /// The worker has refused a call.
    fn begin(&self) {
        let rest_ms = u64::try_from(REFUSAL_REST.as_millis()).unwrap_or(u64::MAX);
        self.until_ms.store(now_ms() + rest_ms, Ordering::Relaxed);
    }

    /// A call of the worker has ended, which may have made room.
    fn end(&self) {
        // Read first: a worker that refuses nothing has nothing written here.
        if self.until_ms.load(Ordering::Relaxed) != 0 {
            self.until_ms.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && now_ms() < until_ms
    }
}

/// The part of one call in the rest of its worker.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    was_refused: AtomicBool,
}

impl Refusal {
    /// The worker has refused the call.
    pub(crate) fn begin(&self, rest: &Rest) {
        self.was_refused.store(true, Ordering::Relaxed);
        rest.begin();
    }

    /// The call has ended: that makes room, unless it was refused.
    pub(crate) fn end(&mut self, rest: &Rest) {
        if !*self.was_refused.get_mut() {
            rest.end();
        }
    }
}

/// Milliseconds since the first call of this.
#[expect(
    clippy::disallowed_methods,
    reason = "read only while a worker refuses calls"
)]
fn now_ms() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let elapsed = EPOCH.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}
