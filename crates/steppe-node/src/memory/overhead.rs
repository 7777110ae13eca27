//! Charges the budget with the memory that reservations do not cover.
//!
//! Reservations count requested bytes. The allocator rounds up, retains pages and
//! has fragmentation, and the program has memory of its own; with many connections
//! that was measured to be a quarter of the budget. So the node measures anonymous
//! RSS and reserves what exceeds all other reservations: buffers then get what is
//! really left, and RSS stays near the budget.
//!
//! Invariant: at most one part in [`SHARE_MAX`] of the budget is reserved, and only
//! free bytes, so that a measurement by itself causes no refusal.

use std::time::Duration;

use steppe_mem::{Account, Budget, Reservation};

/// The account's name.
pub const ACCOUNT: &str = "overhead";

/// One part in so many of the budget, at most.
const SHARE_MAX: u64 = 3;

/// Often enough to be ahead of connections that fill the budget.
const EVERY: Duration = Duration::from_millis(100);

/// Interval while less than half of the budget is reserved.
const EVERY_AT_EASE: Duration = Duration::from_secs(1);

/// The reservation for memory that other reservations do not cover.
#[derive(Debug)]
pub struct Overhead {
    root: Account,
    held: Option<Reservation>,
    account: Account,
}

impl Overhead {
    /// No reservation yet, in `budget`.
    #[must_use]
    pub fn new(budget: &Budget) -> Self {
        Self {
            root: budget.root().clone(),
            account: budget.root().child(ACCOUNT, None),
            held: None,
        }
    }

    /// Measures for as long as it is polled.
    pub async fn keep(mut self) {
        loop {
            match anonymous_rss_bytes() {
                Ok(bytes) => self.set(bytes),
                Err(error) => {
                    tracing::warn!(%error, "cannot measure RSS: overhead stays uncharged");
                    return;
                }
            }
            let is_at_ease = self.root.reserved_bytes() < self.root.limit_bytes() / 2;
            tokio::time::sleep(if is_at_ease { EVERY_AT_EASE } else { EVERY }).await;
        }
    }

    /// Reserves what `anonymous_bytes` exceed all other reservations by.
    fn set(&mut self, anonymous_bytes: u64) {
        let held = self.held_bytes();
        let others = self.root.reserved_bytes().saturating_sub(held);
        let wanted = anonymous_bytes
            .saturating_sub(others)
            .min(self.root.limit_bytes() / SHARE_MAX);
        let free = self.root.headroom_bytes();
        let more = wanted.saturating_sub(held).min(free);
        let less = held.saturating_sub(wanted);
        // Within the budget, which is within the address space.
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        match &mut self.held {
            Some(held) if less > 0 => held.shrink(bytes(less)),
            // The bytes may have been reserved meanwhile: the next measurement tries again.
            Some(held) => drop(held.try_grow(bytes(more))),
            None => self.held = self.account.lease().try_reserve(bytes(more)).ok(),
        }
    }

    fn held_bytes(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.bytes() as u64)
    }
}

/// Resident memory that is not backed by a file.
fn anonymous_rss_bytes() -> Result<u64, procfs::ProcError> {
    let pages = procfs::process::Process::myself()?.statm()?;
    Ok(pages.resident.saturating_sub(pages.shared) * procfs::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_nobody_reserved_is_reserved_and_given_back() {
        let budget = Budget::new(64 * MIB);
        let mut overhead = Overhead::new(&budget);
        overhead.set(10 * MIB);
        assert_eq!(overhead.held_bytes(), 10 * MIB);
        let lease = budget.root().child("others", None).lease();
        let others = lease.try_reserve(8 << 20).expect("room");
        overhead.set(15 * MIB);
        assert_eq!(overhead.held_bytes(), 7 * MIB);
        overhead.set(4 * MIB);
        assert_eq!(overhead.held_bytes(), 0);
        overhead.set(1024 * MIB);
        assert_eq!(overhead.held_bytes(), 64 * MIB / SHARE_MAX);
        drop(others);
    }

    #[test]
    fn it_takes_only_what_is_free() {
        let budget = Budget::new(16 * MIB);
        let lease = budget.root().child("others", None).lease();
        let _others = lease.try_reserve(14 << 20).expect("room");
        let mut overhead = Overhead::new(&budget);
        overhead.set(20 * MIB);
        assert!(overhead.held_bytes() <= 2 * MIB);
        assert!(overhead.held_bytes() > MIB);
        assert_eq!(budget.report().refused, 0);
    }

    #[test]
    fn this_process_has_anonymous_memory() {
        let before = anonymous_rss_bytes().expect("/proc");
        let memory = vec![1_u8; 32 << 20];
        let after = anonymous_rss_bytes().expect("/proc");
        assert!(after >= before + 16 * MIB, "{before} then {after}");
        drop(memory);
    }
}
