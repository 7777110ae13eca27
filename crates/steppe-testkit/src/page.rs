//! Configurations that stand on a page of the documentation, for a test that runs them.

use std::fs;
use std::path::Path;

/// The configurations of `docs/NAME.md`, each with the heading that it stands below.
///
/// # Panics
/// Without the page, or without any.
pub fn page_examples(name: &str) -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = docs.join(name).with_extension("md");
    let page = fs::read_to_string(page).expect("the page is there");
    let mut examples = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let heading = section.lines().next().unwrap_or_default();
        for block in section.split("```toml\n").skip(1) {
            let toml = block.split("```").next().unwrap_or_default();
            examples.push((heading.to_owned(), toml.to_owned()));
        }
    }
    assert!(!examples.is_empty(), "{name} has none");
    examples
}

/// The only one below `heading`.
///
/// # Panics
/// Where there is none, or another.
pub fn page_example(name: &str, heading: &str) -> String {
    let mut found = page_examples(name)
        .into_iter()
        .filter(|(of, _)| of == heading);
    let (_, toml) = found.next().expect("the page has it");
    assert!(found.next().is_none(), "two below {heading}");
    toml
}
