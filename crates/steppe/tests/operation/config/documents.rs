//! Examples of the documentation: configurations are accepted, commands are known, and test blocks run.

use steppe_node::config;
use steppe_testkit::{Document, Steppe};

/// True for pages whose TOML is a scenario of the lab.
fn is_of_the_lab(page: &Document) -> bool {
    page.name.starts_with("docs/lab/") || page.name == "docs/performance/lab.md"
}

#[test]
fn configurations_of_the_pages_are_accepted() {
    let pages = Document::all();
    let pages = pages.iter().filter(|page| !is_of_the_lab(page));
    let counts = pages.map(|page| {
        page.check_toml(|text| {
            // The other files are in the page's test block.
            if text.starts_with("include = ") {
                return Ok(());
            }
            let report = config::read(&page.name, text).report;
            match report.mistakes() {
                [] => Ok(()),
                _ => Err(report.to_string()),
            }
        })
    });
    let count: usize = counts.sum();
    assert!(count > 20, "{count} configurations");
}

#[test]
fn commands_of_the_pages_are_known() {
    let pages = Document::all();
    let counts = pages
        .iter()
        .map(|page| page.parse_commands(Steppe::program()));
    let count: usize = counts.sum();
    assert!(count > 40, "{count} commands");
}

#[test]
fn test_blocks_of_the_pages_run() {
    let pages = Document::all();
    let pages = pages.iter().filter(|page| !is_of_the_lab(page));
    let count: usize = pages
        .map(|page| page.run_tests("steppe.toml", &[Steppe::program()]))
        .sum();
    assert!(count > 3, "{count} blocks");
}
