//! The charge for reading files, and for their contents.

use steppe_mem::{Lease, OverBudget, Reservation};

/// Bytes of something that grows, charged to an account.
#[derive(Debug)]
pub(super) struct Charge {
    lease: Lease,
    held: Vec<Reservation>,
    bytes: usize,
    peak: usize,
}

/// Bytes that are reserved at once.
const STEP_BYTES: usize = 256 << 10;

impl Charge {
    /// An empty charge to the account of `lease`.
    pub(super) fn new(lease: &Lease) -> Self {
        Self {
            // The holder of `lease` goes on using it.
            lease: lease.account().lease(),
            held: Vec::new(),
            bytes: 0,
            peak: 0,
        }
    }

    /// Reserves more, until at least `bytes` are charged.
    pub(super) fn cover(&mut self, bytes: usize) -> Result<(), OverBudget> {
        while self.bytes < bytes {
            let step = (bytes - self.bytes).clamp(1, STEP_BYTES);
            self.held.push(self.lease.try_reserve(step)?);
            self.bytes += step;
        }
        self.peak = self.peak.max(self.bytes);
        Ok(())
    }

    /// The most bytes that were charged at a time.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    /// Releases reservations that are not needed to cover `bytes`; up to a step more stays charged.
    pub(super) fn shrink(&mut self, bytes: usize) {
        while let Some(last) = self.held.last()
            && self.bytes - last.bytes() >= bytes
        {
            self.bytes -= last.bytes();
            self.held.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    #[test]
    fn what_grows_is_charged_and_what_shrinks_is_given_back() {
        let budget = Budget::new(1 << 20);
        let account = budget.root().child("files", None);
        let mut charge = Charge::new(&account.lease());
        charge.cover(600 << 10).expect("room");
        assert_eq!(account.reserved_bytes(), 600 << 10);
        charge.cover(1 << 10).expect("it is covered");
        assert_eq!(account.reserved_bytes(), 600 << 10);
        charge.cover(2 << 20).expect_err("more than there is");
        charge.shrink(300 << 10);
        let left = account.reserved_bytes();
        assert!(
            ((300 << 10)..(300 << 10) + STEP_BYTES as u64).contains(&left),
            "{left}"
        );
        charge.shrink(0);
        assert_eq!(account.reserved_bytes(), 0);
    }
}
