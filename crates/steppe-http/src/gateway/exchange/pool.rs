//! Exchanges that wait for their thread's next request.

use std::cell::RefCell;
use std::time::Instant;

use steppe_mem::Lease;

use super::stages::Exchange;
use crate::limits::{EXCHANGE_BYTES, IDLE_EXCHANGES_MAX};

thread_local! {
    #[expect(clippy::vec_box, reason = "an exchange stays where it is")]
    static IDLE: RefCell<Vec<Box<Exchange>>> = const { RefCell::new(Vec::new()) };
}

/// An exchange for a request that began at `now`. Its memory is charged to `lease` for as
/// long as it is there, used or not. `None`: the budget has no room for one.
pub(super) fn take(lease: &Lease, now: Instant) -> Option<Box<Exchange>> {
    let mut exchange = match IDLE.with_borrow_mut(Vec::pop) {
        Some(exchange) => exchange,
        None => Box::new(Exchange::new(lease.try_reserve(EXCHANGE_BYTES).ok()?, now)),
    };
    exchange.journal.began_at = now;
    Some(exchange)
}

/// Keeps the memory of an exchange that is over.
pub(super) fn put_back(mut exchange: Box<Exchange>) {
    exchange.reset();
    // The thread may be ending: then the exchange goes with it.
    let _ = IDLE.try_with(|idle| {
        let mut idle = idle.borrow_mut();
        if idle.len() < IDLE_EXCHANGES_MAX {
            idle.push(exchange);
        }
    });
}

// It is charged with what it takes, and a tenth more at most.
const _: () = assert!(size_of::<Exchange>() <= EXCHANGE_BYTES);
const _: () = assert!(size_of::<Exchange>() > EXCHANGE_BYTES / 10 * 9);
