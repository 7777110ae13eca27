//! Links of the documentation to other sites: `make test-all` asks for each, and warns of those that do not answer.
//!
//! Non-goals: to fail. A site that is away for an hour is no defect of a page.

use std::process::{Command, Stdio};

use crate::report::{Outcome, Report};
use crate::tidy;

/// A request ends after so many seconds.
const PATIENCE_SECONDS: &str = "20";

/// Adds the step to a report.
pub fn step(report: &mut Report) {
    let mut missing = Vec::new();
    report.step("links to other sites", || {
        let links = tidy::outside_links()?;
        println!("{} links", links.len());
        missing = links.into_iter().filter(|link| !answers(link)).collect();
        Ok(Outcome::Passed)
    });
    for link in missing {
        report.warn(format!("{link} does not answer"));
    }
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
    fn a_site_that_is_away_does_not_answer() {
        assert!(!answers("http://127.0.0.1:1/"));
    }
}
