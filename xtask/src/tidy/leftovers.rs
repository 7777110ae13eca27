//! Leftovers of work: notes to oneself, prints for debugging, tests that are switched off.

use super::Finding;
use super::rust_text::code_of;
use super::tree::{SourceFile, Tree, has_word, numbered};

/// Notes to oneself, in any text; spelled in two so that this file is none.
const NOTES: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Endings of the files that people write.
const WRITTEN: [&str; 7] = [".rs", ".toml", ".md", ".sh", ".yml", ".json", "Makefile"];

/// What no code keeps.
const CODE: [(&str, &str); 4] = [
    ("dbg!", "is for debugging"),
    ("todo!", "is not done"),
    ("unimplemented!", "is not done"),
    (
        "#[ignore",
        "switches a test off: fix it, or make it a long test",
    ),
];

/// Checks every file that people write.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let notes = WRITTEN
        .iter()
        .flat_map(|end| tree.ending(end))
        .flat_map(notes);
    notes.chain(tree.ending(".rs").flat_map(code)).collect()
}

fn notes(file: &SourceFile) -> Vec<Finding> {
    let find = |(number, line): (usize, &str)| {
        let note = NOTES.iter().find(|note| has_word(line, note))?;
        Some(Finding::new(
            &file.path,
            number,
            format!("stray {note}: do it, or file it"),
        ))
    };
    file.lines().filter_map(find).collect()
}

fn code(file: &SourceFile) -> Vec<Finding> {
    let find = |(number, line): (usize, &str)| {
        let (word, why) = CODE.iter().find(|(word, _)| line.contains(word))?;
        Some(Finding::new(&file.path, number, format!("`{word}` {why}")))
    };
    numbered(&code_of(&file.text)).filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_to_oneself_are_found_anywhere() {
        for note in NOTES {
            let tree = Tree::of(&[("docs/a.md", &format!("fine\nsee {note}: later\n"))]);
            assert_eq!(check(&tree).len(), 1, "{note}");
            assert_eq!(check(&tree)[0].line, 2);
        }
        let longer = format!("{}S and MAX{}\n", NOTES[0], NOTES[2]);
        assert!(check(&Tree::of(&[("a.md", &longer)])).is_empty());
    }

    #[test]
    fn leftovers_in_code_are_found_in_code_only() {
        for line in [
            "dbg!(x);",
            "todo!()",
            "unimplemented!()",
            "#[ignore = \"slow\"]",
        ] {
            assert_eq!(check(&Tree::of(&[("src/a.rs", line)])).len(), 1, "{line}");
        }
        assert!(check(&Tree::of(&[("src/a.rs", "// dbg!(x)\nlet a = \"todo!\";")])).is_empty());
    }
}
