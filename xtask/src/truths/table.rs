//! Verdicts as Markdown, and their place in a document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::planted::Truth;
use super::soaked::Soaked;

/// A line of progress.
pub fn line(truth: &Truth, soaked: &Soaked) -> String {
    let word = if truth.allows(soaked) {
        "right"
    } else {
        "WRONG"
    };
    format!(
        "{}: {} ({word}): {}",
        truth.name, soaked.word, soaked.headline
    )
}

/// The table, with a row for each truth.
pub fn of(rows: &[(&Truth, Soaked)]) -> String {
    let mut text = "| planted | verdict | headline |\n| --- | --- | --- |\n".to_owned();
    for (truth, soaked) in rows {
        let wrong = if truth.allows(soaked) { "" } else { " (wrong)" };
        _ = writeln!(
            text,
            "| {} | {}{wrong} | {} |",
            truth.planted,
            soaked.word,
            soaked.headline.replace('|', "\\|")
        );
    }
    text
}

/// The verdicts of healthy runs with their counts, and the findings that caused them.
pub fn of_healthy(rows: &[(&Truth, Soaked)]) -> String {
    let mut words: BTreeMap<&str, u32> = BTreeMap::new();
    let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
    for (truth, soaked) in rows {
        *words.entry(&soaked.word).or_default() += 1;
        for (metric, word) in &soaked.findings {
            if !["STABLE", "GO"].contains(&word.as_str()) {
                let reason = format!("{word} {metric} of {}", truth.name);
                *reasons.entry(reason).or_default() += 1;
            }
        }
    }
    let words: Vec<String> = words
        .iter()
        .map(|(word, count)| format!("{count} × {word}"))
        .collect();
    let mut text = format!("{} healthy runs: {}.", rows.len(), words.join(", "));
    if !reasons.is_empty() {
        let reasons: Vec<String> = reasons
            .iter()
            .map(|(reason, count)| format!("{count} × {reason}"))
            .collect();
        _ = write!(text, " What was not STABLE: {}.", reasons.join(", "));
    }
    text.push('\n');
    text
}

/// `text` with the part between the markers of `name` replaced.
pub fn between(text: &str, name: &str, new: &str) -> Result<String> {
    let (begin, end) = (
        format!("<!-- begin {name} -->\n"),
        format!("<!-- end {name} -->"),
    );
    let (before, rest) = text
        .split_once(&begin)
        .with_context(|| format!("no `{}`", begin.trim_end()))?;
    let (_, after) = rest
        .split_once(&end)
        .with_context(|| format!("no `{end}`"))?;
    Ok(format!("{before}{begin}{new}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let text = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n";
        let new = between(text, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n");
        assert!(between(text, "y", "new\n").is_err());
    }

    fn soaked(word: &str, finding: (&str, &str)) -> Soaked {
        Soaked {
            word: word.to_owned(),
            headline: "memory grows".to_owned(),
            findings: vec![(finding.0.to_owned(), finding.1.to_owned())],
        }
    }

    #[test]
    fn a_verdict_counts_where_what_was_planted_gave_it() {
        let stairs = super::super::TRUTHS
            .iter()
            .find(|truth| truth.name == "stairs")
            .unwrap();
        assert!(stairs.allows(&soaked("UNBOUNDED", ("rss_growth", "UNBOUNDED"))));
        assert!(!stairs.allows(&soaked("UNBOUNDED", ("rss_growth", "STABLE"))));
        assert!(!stairs.allows(&soaked("STABLE", ("rss_growth", "STABLE"))));
        let rows = [(stairs, soaked("STABLE", ("rss_growth", "STABLE")))];
        let row = "| 3 MiB every 15 s | STABLE (wrong) | memory grows |\n";
        assert!(of(&rows).ends_with(row));
        let none = super::super::TRUTHS
            .iter()
            .find(|it| it.is_healthy())
            .unwrap();
        let rows = [
            (none, soaked("STABLE", ("rss_growth", "STABLE"))),
            (none, soaked("INCONCLUSIVE", ("p99_growth", "INCONCLUSIVE"))),
        ];
        assert_eq!(
            of_healthy(&rows),
            "2 healthy runs: 1 × INCONCLUSIVE, 1 × STABLE. What was not STABLE: 1 × INCONCLUSIVE \
             p99_growth of none.\n"
        );
    }
}
