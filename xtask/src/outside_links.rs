//! Links of the documentation to other sites: `make test-all` asks for each, and warns of those that do not answer.
//!
//! Non-goals: to fail. A site that is away for an hour is no defect of a page.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process;
use crate::report::{Outcome, Report};

/// A request ends after so many seconds.
const PATIENCE_SECONDS: &str = "20";

/// Adds the step to a report.
pub fn step(report: &mut Report) {
    let mut missing = Vec::new();
    report.step("links to other sites", || {
        let links = links()?;
        println!("{} links", links.len());
        missing = links.into_iter().filter(|link| !answers(link)).collect();
        Ok(Outcome::Passed)
    });
    for link in missing {
        report.warn(format!("{link} does not answer"));
    }
}

/// The targets of all Markdown files that git knows.
fn links() -> Result<BTreeSet<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "*.md"]).current_dir(process::root());
    let mut links = BTreeSet::new();
    for path in process::output(&mut list)?.lines() {
        let text = std::fs::read_to_string(process::root().join(path))?;
        links.extend(links_in(&text));
    }
    Ok(links)
}

fn links_in(text: &str) -> impl Iterator<Item = String> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', ' ']).next());
    let outside = targets.filter(|target| target.starts_with("http"));
    outside.map(|target| target.split('#').next().unwrap_or(target).to_owned())
}

fn answers(link: &str) -> bool {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--location", "--output", "/dev/null"])
        .args(["--max-time", PATIENCE_SECONDS, link])
        .stderr(Stdio::null());
    curl.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_other_sites_are_found() {
        let text = "[a](b.md) [c](https://d.example/e#f) and\n[g](http://h.example \"i\")";
        let found: Vec<String> = links_in(text).collect();
        assert_eq!(found, ["https://d.example/e", "http://h.example"]);
    }

    #[test]
    fn a_site_that_is_away_does_not_answer() {
        assert!(!answers("http://127.0.0.1:1/"));
    }
}
