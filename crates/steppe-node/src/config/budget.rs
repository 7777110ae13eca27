//! Mistakes of a memory budget on the machine that it is for.
//!
//! Invariant: `steppe check` and `steppe run` decide alike, by [`MemoryBudget::bytes`](super::MemoryBudget::bytes).

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::Fields;

use super::Objection;
use super::keys::NODE;
use super::keys::node::MEMORY_BUDGET;
use super::memory_budget::BudgetError;
use crate::container::MemoryLimit;

/// Checks that the budget of a file is possible within `limit`.
pub(super) fn check(file: &Fields, limit: MemoryLimit, mistakes: &mut Mistakes) {
    let node = file.within(&NODE);
    let Some((budget, span)) = node.and_then(|node| node.located(&MEMORY_BUDGET)) else {
        return;
    };
    let Err(error) = budget.bytes(limit) else {
        return;
    };
    let span = place(file).unwrap_or(span);
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

/// The place of the budget; for a default, that of `[node]` or of the file.
fn place(file: &Fields) -> Option<Span> {
    let node = file.within(&NODE)?;
    match node.place_of(&MEMORY_BUDGET) {
        Some(_) => Some(node.value(&MEMORY_BUDGET.spec)?.span),
        None => file.place_of(&NODE).or(Some(file.span)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config::keys::ROOT;
    use crate::container::LimitSource;
    use steppe_config::read::read;
    use steppe_config::report::{Drawing, Report};

    fn limit(bytes: u64) -> MemoryLimit {
        let source = LimitSource::ControlGroup;
        MemoryLimit { bytes, source }
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
