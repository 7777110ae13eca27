//! A charge that is never refused: for memory that is held already, whether or not there was room for it.
//!
//! The kernel's memory controller calls the same a forced charge. If it takes more than is free, the tree is in debt:
//! every reservation waits or is refused until as much was given back.

use super::Account;

/// Bytes of an account that were charged without a check of its limit; given back on drop.
#[derive(Debug)]
pub struct ForcedCharge {
    account: Account,
    bytes: u64,
    /// Set while the tree knows of the debt: no lease keeps free bytes then, as while a task waits.
    is_debt_known: bool,
}

impl ForcedCharge {
    /// A charge of 0 bytes to `account`.
    #[must_use]
    pub fn new(account: Account) -> Self {
        Self {
            account,
            bytes: 0,
            is_debt_known: false,
        }
    }

    /// Bytes charged.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges `bytes` from now on. If they are more than before, unused portions of all leases and [evictable
    /// memory](super::Evict) make room first, as far as possible.
    pub fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes > before {
            let more = bytes - before;
            self.account.make_room(more);
            self.account
                .ancestry()
                .for_each(|node| node.charge_forced(more));
        }
        self.account.give_back(before.saturating_sub(bytes));
        self.tell_debt();
    }

    fn tell_debt(&mut self) {
        let is_debt = self.account.ancestry().any(|node| node.debt_bytes() > 0);
        if is_debt != self.is_debt_known {
            self.is_debt_known = is_debt;
            match is_debt {
                true => self.account.0.waiting.begin_debt(),
                false => self.account.0.waiting.end_debt(),
            }
        }
        if is_debt {
            self.account.root().reclaim();
        }
    }
}

impl Drop for ForcedCharge {
    fn drop(&mut self) {
        self.set(0);
        if self.is_debt_known {
            self.account.0.waiting.end_debt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_forced_charge_takes_free_bytes_then_makes_a_debt() {
        let budget = Budget::new(16 * MIB);
        let lease = budget.root().child("others", None).lease();
        let others = lease.try_reserve(10 << 20).expect("room");
        let mut forced = ForcedCharge::new(budget.root().child("uncharged", None));
        forced.set(4 * MIB);
        assert_eq!(budget.debt_bytes(), 0);
        assert!(lease.try_reserve(3 << 20).is_err());
        let last = lease.try_reserve(2 << 20).expect("the rest is free");
        forced.set(20 * MIB);
        assert_eq!(budget.debt_bytes(), 16 * MIB);
        assert!(lease.try_reserve(1).is_err(), "nothing is free in debt");
        drop((others, last));
        assert_eq!(budget.debt_bytes(), 4 * MIB);
        assert!(lease.try_reserve(1).is_err());
        forced.set(MIB);
        assert_eq!(budget.debt_bytes(), 0);
        assert!(lease.try_reserve(15 << 20).is_ok());
        drop(forced);
        assert_eq!(budget.root().reserved_bytes(), 0);
    }
}
