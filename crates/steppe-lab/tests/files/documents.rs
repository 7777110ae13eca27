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
    let mut count = 0;
    for page in pages() {
        for fence in &page.fences {
            let place = format!("{}:{}", page.name, fence.line);
            match fence.info.as_str() {
                "toml" => {
                    let scenario = Scenario::parse(Path::new(&page.name), &fence.text);
                    assert!(scenario.is_ok(), "{place}: {:?}", scenario.err());
                    count += 1;
                }
                "toml part" => {
                    let parsed = fence.text.parse::<toml::Table>();
                    assert!(parsed.is_ok(), "{place}: {parsed:?}");
                }
                info => assert!(!info.starts_with("toml"), "{place}: '{info}'"),
            }
        }
    }
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
