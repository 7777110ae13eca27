//! Configurations that stand on a page of the documentation, for a test that runs them.

use crate::Document;

/// The configurations of `docs/NAME.md` below headings, each with its own.
///
/// # Panics
/// Without the page, or without any.
pub fn page_examples(name: &str) -> Vec<(String, String)> {
    let page = Document::named(&format!("docs/{name}.md"));
    let fences = page.fences.into_iter();
    let examples = fences.filter(|fence| fence.info == "toml" && !fence.heading.is_empty());
    let examples: Vec<_> = examples.map(|fence| (fence.heading, fence.text)).collect();
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
