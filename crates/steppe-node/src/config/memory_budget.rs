//! The memory budget: a size, or a share of the available memory.

use std::fmt;

use steppe_config::units::{percent_text, size_text};

use super::limits::MEMORY_BUDGET_MIN;
use crate::container::{LimitSource, MemoryLimit};

/// The reason why this machine can't give a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The budget is more than the limit.
    #[error("{} is more than {source_of_limit} of {}", size_text(*.bytes), size_text(*.limit_bytes))]
    AboveLimit {
        /// The budget, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit_bytes: u64,
        /// The origin of the limit.
        source_of_limit: LimitSource,
    },
    /// The budget is too small to serve with.
    #[error("{} is less than {}", size_text(*.bytes), size_text(MEMORY_BUDGET_MIN))]
    BelowFloor {
        /// The budget, in bytes.
        bytes: u64,
    },
}

/// The part of the memory that the node may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryBudget {
    /// A number of bytes, at least [`MEMORY_BUDGET_MIN`].
    Bytes(u64),
    /// A share above 0 and at most 1: of the container's limit, else of the machine.
    Share(f64),
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Bytes(bytes) => size_text(*bytes),
            Self::Share(share) => percent_text(*share),
        })
    }
}

impl MemoryBudget {
    /// The budget in bytes, on a machine or in a container with this limit.
    ///
    /// # Errors
    /// If the budget is more than the limit, or below [`MEMORY_BUDGET_MIN`].
    pub fn bytes(self, limit: MemoryLimit) -> Result<u64, BudgetError> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => share_of(limit.bytes, share),
        };
        if bytes > limit.bytes {
            return Err(BudgetError::AboveLimit {
                bytes,
                limit_bytes: limit.bytes,
                source_of_limit: limit.source,
            });
        }
        if bytes < MEMORY_BUDGET_MIN {
            return Err(BudgetError::BelowFloor { bytes });
        }
        Ok(bytes)
    }
}

/// A share, above 0 and at most 1, of so many bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a positive number below 2^53"
)]
#[must_use]
pub fn share_of(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes: u64) -> MemoryLimit {
        let source = LimitSource::ControlGroup;
        MemoryLimit { bytes, source }
    }

    #[test]
    fn what_there_is_and_the_floor_bound_a_budget() {
        let floor = MEMORY_BUDGET_MIN;
        assert_eq!(MemoryBudget::Bytes(floor).bytes(limit(floor)), Ok(floor));
        assert_eq!(MemoryBudget::Share(0.5).bytes(limit(2 * floor)), Ok(floor));
        assert_eq!(
            MemoryBudget::Share(0.5).bytes(limit(2 * floor - 2)),
            Err(BudgetError::BelowFloor { bytes: floor - 1 })
        );
        assert!(matches!(
            MemoryBudget::Bytes(floor + 1).bytes(limit(floor)),
            Err(BudgetError::AboveLimit { .. })
        ));
    }
}
