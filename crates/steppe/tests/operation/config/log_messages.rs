//! The messages of `docs/reference/logs.md` against the source: each event at `info` and above has a
//! row with its level, and each row is an event.
//!
//! A message is the last literal of an event's macro. A literal that consists of a placeholder
//! alone takes its text from elsewhere in the source.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::operations::{assert_same, rows};

/// Crates whose events a node logs.
const CRATES: [&str; 8] = [
    "steppe-dns",
    "steppe-etcd",
    "steppe-http",
    "steppe-mem",
    "steppe-net",
    "steppe-node",
    "steppe-plane",
    "steppe-telemetry",
];

const LEVELS: [&str; 3] = ["error", "warn", "info"];

#[test]
fn every_message_is_in_the_page_with_its_level() {
    let sources = sources();
    let page = rows("reference/logs.md", "Messages");
    let page = page.iter().map(|row| (row[0].clone(), row[1].clone()));
    let page: BTreeSet<_> = page.collect();
    let mut emitted = BTreeSet::new();
    for (level, message) in sources.iter().flat_map(|source| events(source)) {
        if !is_placeholder(&message) {
            // In the form of a row, without backquotes.
            emitted.insert((level, message.replace('`', "")));
        }
    }
    // The texts of a placeholder are literals elsewhere in the source.
    let known: BTreeSet<_> = emitted.iter().map(|(_, message)| message.clone()).collect();
    for (level, message) in page.iter().filter(|(_, message)| !known.contains(message)) {
        let literal = format!("\"{message}\"");
        if sources.iter().any(|source| source.contains(&literal)) {
            emitted.insert((level.clone(), message.clone()));
        }
    }
    assert_same("docs/reference/logs.md, messages", &page, &emitted);
}

/// The files of [`CRATES`] without their tests, each literal in one line.
fn sources() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<_> = CRATES
        .map(|name| crates.join(name).join("src"))
        .into_iter()
        .collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.to_string_lossy().ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).expect("it can be read");
                let text = text.split("\nmod tests {").next().unwrap_or_default();
                sources.push(joined(text));
            }
        }
    }
    sources
}

/// Removes the line breaks that a backslash in a literal removes, with the indentation after them.
fn joined(source: &str) -> String {
    let mut parts = source.split("\\\n");
    let mut text = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| text.push_str(part.trim_start()));
    text
}

/// Levels and messages of the events in a source.
fn events(source: &str) -> BTreeSet<(String, String)> {
    let mut events = BTreeSet::new();
    for level in LEVELS {
        let opening = format!("tracing::{level}!(");
        let messages = source.split(&opening).skip(1).filter_map(last_literal);
        events.extend(messages.map(|message| (level.to_owned(), message)));
    }
    events
}

/// The last literal before the parenthesis that closes a macro's arguments.
fn last_literal(arguments: &str) -> Option<String> {
    let mut last = None;
    let mut depth = 1;
    let mut rest = arguments;
    while depth > 0 {
        let (_, found) = rest.split_at(rest.find(['(', ')', '"'])?);
        rest = &found[1..];
        match found.chars().next()? {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {
                let end = end_of_literal(rest)?;
                last = Some(rest[..end].to_owned());
                rest = &rest[end + 1..];
            }
        }
    }
    last
}

/// Index of the quote that ends a literal whose first quote was read.
fn end_of_literal(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })
}

/// True for a literal that is a placeholder alone, as `{name}`.
fn is_placeholder(message: &str) -> bool {
    message.starts_with('{') && message.ends_with('}') && !message.contains(' ')
}
