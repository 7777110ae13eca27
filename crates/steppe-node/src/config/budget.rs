//! The memory budget in bytes, where there is a machine to take it from.
//!
//! Invariant: `steppe check` and `steppe run` decide alike, by [`MemoryBudget::bytes`].

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::Fields;
use steppe_config::units::size_text;

use super::limits::MEMORY_BUDGET_MIN;
use super::{MemoryBudget, Objection};
use crate::container::{LimitSource, MemoryLimit};

/// Why a budget can't be had here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// It is more than there is.
    #[error("{} is more than {source_of_limit} of {}", size_text(*.bytes), size_text(*.limit_bytes))]
    AboveLimit {
        /// The budget.
        bytes: u64,
        /// What there is.
        limit_bytes: u64,
        /// What says so.
        source_of_limit: LimitSource,
    },
    /// It is too little to serve with.
    #[error("{} is less than {}", size_text(*.bytes), size_text(MEMORY_BUDGET_MIN))]
    BelowFloor {
        /// The budget.
        bytes: u64,
    },
}

impl MemoryBudget {
    /// The budget in bytes, where `limit` is what there is.
    ///
    /// # Errors
    /// When there is less, or when it is below [`MEMORY_BUDGET_MIN`].
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

/// Finds out whether the budget of a file can be had where there is `limit`.
pub(super) fn check(file: &Fields, limit: MemoryLimit, mistakes: &mut Mistakes) {
    let node = file.table("node");
    let Some(value) = node.and_then(|node| node.node("memory_budget")) else {
        return;
    };
    let Some(Err(error)) = MemoryBudget::of(value).map(|budget| budget.bytes(limit)) else {
        return;
    };
    let span = place(file).unwrap_or(value.span);
    let (label, help) = match error {
        BudgetError::AboveLimit { .. } => (
            "above the available memory",
            "write less, or a share: \"75%\" follows the limit",
        ),
        BudgetError::BelowFloor { .. } => ("too little memory to serve with", "write more"),
    };
    let mistake = Mistake::new(span, format!("`memory_budget`: {error}"));
    mistakes.push(mistake.label(label).help(help));
}

/// Reports an objection to the budget of a file.
pub(super) fn object(file: &Fields, objection: Objection, mistakes: &mut Mistakes) {
    let span = place(file).unwrap_or(file.span);
    let mistake = Mistake::new(span, objection.message).label("too little");
    mistakes.push(mistake.help(objection.help));
}

/// Where the budget stands; a default has no place of its own.
fn place(file: &Fields) -> Option<Span> {
    let node = file.table("node")?;
    match node.given("memory_budget") {
        Some(_) => Some(node.node("memory_budget")?.span),
        None => file.given("node").or(Some(file.span)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config::keys::ROOT;
    use crate::config::limits;
    use steppe_config::read::read;
    use steppe_config::report::{Drawing, Report};

    fn limit(bytes: u64) -> MemoryLimit {
        let source = LimitSource::ControlGroup;
        MemoryLimit { bytes, source }
    }

    #[test]
    fn what_there_is_and_the_floor_bound_a_budget() {
        let floor = limits::MEMORY_BUDGET_MIN;
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

    fn reported(text: &str, bytes: u64) -> String {
        let mut mistakes = Mistakes::default();
        let read = read(("a.toml", text), &ROOT, &mut mistakes);
        let (_, file) = read.expect("valid syntax");
        check(&file, limit(bytes), &mut mistakes);
        Report::new("a.toml", text, mistakes).render(Drawing::Plain)
    }

    #[test]
    fn a_file_is_told_where_it_says_too_much_or_too_little() {
        let text = "[node]\nworkers = 1\nmemory_budget = \"1GiB\"\n";
        assert_eq!(reported(text, 1 << 30), "");
        expect![[r#"
              × `memory_budget`: 1GiB is more than the container's limit of 512MiB
               ╭─[a.toml:3:17]
             2 │ workers = 1
             3 │ memory_budget = "1GiB"
               ·                 ───┬──
               ·                    ╰── above the available memory
               ╰────
              help: write less, or a share: "75%" follows the limit

            a.toml: 1 error
        "#]]
        .assert_eq(&reported(text, 512 << 20));
        let told = reported("[log]\nlevel = \"info\"\n", 8 << 20);
        assert!(told.contains("6MiB is less than 8MiB"), "{told}");
    }
}
