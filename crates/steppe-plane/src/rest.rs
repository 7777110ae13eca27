//! The rest of a worker after it has refused a call as overloaded: other workers get the calls meanwhile.
//!
//! A worker that refuses has few open calls, so a choice by load alone would send it every call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::limits::REFUSAL_REST;

/// The end of a worker's rest.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Time in milliseconds of [`now_ms`]; 0: the worker takes calls.
    until_ms: AtomicU64,
}

impl Rest {
    /// Begins the rest, since the worker has refused a call.
    fn begin(&self) {
        let rest_ms = u64::try_from(REFUSAL_REST.as_millis()).unwrap_or(u64::MAX);
        self.until_ms.store(now_ms() + rest_ms, Ordering::Relaxed);
    }

    /// Ends the rest, since a call of the worker has ended, which may have made room.
    fn end(&self) {
        // Checked first: the line of a worker that refuses nothing is not written to.
        if self.until_ms.load(Ordering::Relaxed) != 0 {
            self.until_ms.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && now_ms() < until_ms
    }
}

/// The state of one call, for the rest of its worker.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    was_refused: AtomicBool,
}

impl Refusal {
    /// Notes that the worker has refused the call.
    pub(crate) fn begin(&self, rest: &Rest) {
        self.was_refused.store(true, Ordering::Relaxed);
        rest.begin();
    }

    /// Notes that the call has ended, which makes room unless it was refused.
    pub(crate) fn end(&mut self, rest: &Rest) {
        if !*self.was_refused.get_mut() {
            rest.end();
        }
    }
}

/// Milliseconds since the first call of this function.
#[expect(
    clippy::disallowed_methods,
    reason = "read only while a worker refuses calls"
)]
fn now_ms() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let elapsed = EPOCH.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}
