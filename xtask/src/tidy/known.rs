//! The list of violations that are older than their rule. It may only shrink.
//!
//! A file with more violations is an error, and so is one with fewer, until `cargo xtask tidy
//! --shrink` lowers its count; it never raises one. A change of the list that raises the sum of a
//! rule is an error too: files may be moved, and violations not be added.

use std::collections::BTreeMap;

use anyhow::Result;

use super::finding::Finding;
use super::tree::{LIST, Tree};

const HEADER: &str = "\
# Violations that are older than their rule, by rule and file; a circle counts its files. This list
# may only shrink: after a mend, `cargo xtask tidy --shrink` brings it up to date.
";

const RULES: [&str; 5] = ["arguments", "circles", "clock", "exceptions", "openings"];

/// Violations by rule and file, with a space between them.
type Counts = BTreeMap<String, usize>;

/// Findings without those that are listed, and a finding for each entry that is too high.
pub fn judge(tree: &Tree, mut findings: Vec<Finding>) -> Result<Vec<Finding>> {
    let (known, counts) = (known(tree)?, counts(&findings));
    findings.retain(|finding| {
        let key = key(finding);
        finding.rule.is_empty() || counts.get(&key) > known.get(&key)
    });
    let mut add = |message| findings.push(Finding::new(LIST, 0, message));
    for (key, listed) in &known {
        let left = *counts.get(key).unwrap_or(&0);
        if left < *listed {
            let remedy = "run `cargo xtask tidy --shrink`";
            add(format!("'{key}' has {listed}, {left} are left: {remedy}"));
        }
    }
    let before: Counts = toml::from_str(&tree.known_before).unwrap_or_default();
    for rule in RULES {
        let sum = |counts: &Counts| -> usize {
            let of_rule = counts.iter().filter(|(key, _)| key.starts_with(rule));
            of_rule.map(|(_, count)| count).sum()
        };
        let (before, now) = (sum(&before), sum(&known));
        if before > 0 && now > before {
            add(format!(
                "has {now} of '{rule}', {before} before: mend the new"
            ));
        }
    }
    Ok(findings)
}

/// The list without what is mended: each entry is lowered to what was found, and none is added.
/// Where there is no list, all that was found.
pub fn shrunk(tree: &Tree, findings: &[Finding]) -> Result<String> {
    let (known, counts) = (known(tree)?, counts(findings));
    let is_new = tree.file(LIST).is_none();
    let lowered = counts.iter().filter_map(|(key, count)| {
        let listed = known.get(key).or(Some(count).filter(|_| is_new))?;
        Some(format!("{key:?} = {}\n", count.min(listed)))
    });
    Ok(HEADER.to_owned() + &lowered.collect::<String>())
}

fn known(tree: &Tree) -> Result<Counts> {
    let text = tree.file(LIST).map_or("", |file| &file.text);
    Ok(toml::from_str(text)?)
}

fn counts(findings: &[Finding]) -> Counts {
    let mut counts = Counts::new();
    for finding in findings.iter().filter(|finding| !finding.rule.is_empty()) {
        *counts.entry(key(finding)).or_default() += finding.count;
    }
    counts
}

fn key(finding: &Finding) -> String {
    format!("{} {}", finding.rule, finding.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "\"openings a.rs\" = 2\n\"openings b.rs\" = 1\n";

    fn found(paths: &[&str]) -> Vec<Finding> {
        let finding = |path: &&str| Finding {
            rule: "openings",
            ..Finding::new(path, 1, "asks")
        };
        paths.iter().map(finding).collect()
    }

    fn printed(paths: &[&str], before: Option<&str>) -> Vec<String> {
        let mut tree = Tree::of(&[(LIST, KNOWN)]);
        before
            .unwrap_or_default()
            .clone_into(&mut tree.known_before);
        let findings = judge(&tree, found(paths)).unwrap().into_iter();
        findings.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn an_exact_list_is_fine() {
        assert_eq!(
            printed(&["a.rs", "b.rs", "a.rs"], None),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_violation_beyond_the_list_is_found() {
        let one_more = printed(&["a.rs", "a.rs", "a.rs", "b.rs"], None);
        assert_eq!(one_more, ["error: a.rs:1: asks"; 3]);
        let elsewhere = printed(&["a.rs", "a.rs", "b.rs", "c.rs"], None);
        assert_eq!(elsewhere, ["error: c.rs:1: asks"]);
    }

    #[test]
    fn other_rules_have_no_list() {
        let tree = Tree::of(&[(LIST, "")]);
        assert_eq!(
            judge(&tree, vec![Finding::new("a.rs", 1, "is long")])
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn a_mended_violation_leaves_the_list() {
        let mended = printed(&["a.rs"], None);
        assert_eq!(mended.len(), 2);
        assert!(
            mended[0].contains("'openings a.rs' has 2, 1 are left"),
            "{mended:?}"
        );
        assert!(
            mended[1].contains("'openings b.rs' has 1, 0 are left"),
            "{mended:?}"
        );
    }

    #[test]
    fn shrinking_removes_and_never_adds() {
        let tree = Tree::of(&[(LIST, KNOWN)]);
        let shrunk = shrunk(&tree, &found(&["a.rs", "c.rs", "c.rs"])).unwrap();
        assert_eq!(shrunk, format!("{HEADER}\"openings a.rs\" = 1\n"));
        let written = super::shrunk(&Tree::default(), &found(&["a.rs", "a.rs", "b.rs"]));
        assert_eq!(
            written.unwrap(),
            format!("{HEADER}{KNOWN}"),
            "without a list"
        );
    }

    #[test]
    fn a_list_that_grew_is_found() {
        let paths = ["a.rs", "a.rs", "b.rs"];
        let found = printed(&paths, Some("\"openings a.rs\" = 2\n"));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("has 3 of 'openings', 2 before"),
            "{found:?}"
        );
        assert!(printed(&paths, Some("\"openings moved.rs\" = 3\n")).is_empty());
        assert!(
            printed(&paths, Some("\"other a.rs\" = 1\n")).is_empty(),
            "a new rule"
        );
    }
}
