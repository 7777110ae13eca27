//! Examples of the lab's pages: scenarios are accepted, commands are known, and test blocks run.

use std::path::Path;

use steppe_lab::scenario::Scenario;
use steppe_testkit::Document;

const PROGRAM: &str = env!("CARGO_BIN_EXE_steppe-lab");

fn pages() -> Vec<Document> {
    let mut pages = Document::all();
    pages.retain(|page| page.name.starts_with("docs/lab/"));
    pages
}

#[test]
fn scenarios_of_the_pages_are_accepted() {
    let pages = pages();
    let counts = pages.iter().map(|page| {
        page.check_toml(|text| {
            let scenario = Scenario::parse(Path::new(&page.name), text);
            scenario.map(drop).map_err(|error| format!("{error:?}"))
        })
    });
    let count: usize = counts.sum();
    assert!(count >= 5, "{count} scenarios");
}

#[test]
fn commands_of_the_pages_are_known() {
    let all = Document::all();
    let count: usize = all.iter().map(|page| page.parse_commands(PROGRAM)).sum();
    assert!(count > 20, "{count} commands");
}

#[test]
fn test_blocks_of_the_pages_run() {
    let pages = pages();
    let counts = pages
        .iter()
        .map(|page| page.run_tests("lab.toml", &[PROGRAM]));
    let count: usize = counts.sum();
    assert!(count > 3, "{count} blocks");
}
