//! Architecture decision records: numbered without a gap, each with its four sections.

use super::Finding;
use super::markdown::headings;
use super::tree::{SourceFile, Tree};

const DIRECTORY: &str = "docs/adr/";
const SECTIONS: [&str; 4] = ["Context", "Decision", "Consequences", "Alternatives"];

/// Checks every record.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let is_record =
        |file: &&SourceFile| file.path.starts_with(DIRECTORY) && !file.path.ends_with("README.md");
    let mut records: Vec<&SourceFile> = tree.ending(".md").filter(is_record).collect();
    records.sort_by_key(|file| &file.path);
    let numbered = records
        .iter()
        .enumerate()
        .filter_map(|(index, file)| misnumbered(file, index + 1));
    numbered
        .chain(records.iter().filter_map(|file| incomplete(file)))
        .collect()
}

fn misnumbered(file: &SourceFile, number: usize) -> Option<Finding> {
    let prefix = format!("{DIRECTORY}{number:04}-");
    let title = format!("# {number:04}: ");
    if !file.path.starts_with(&prefix) {
        let message = format!("the next record is {number:04}: called '{prefix}title.md'");
        return Some(Finding::new(&file.path, 0, message));
    }
    (!file.text.starts_with(&title)).then(|| {
        Finding::new(
            &file.path,
            1,
            format!("begins with '{title}' and its title"),
        )
    })
}

fn incomplete(file: &SourceFile) -> Option<Finding> {
    let found: Vec<String> = headings(&file.text)
        .into_iter()
        .map(|heading| heading.text)
        .collect();
    let missing = SECTIONS
        .iter()
        .find(|section| !found.iter().any(|text| text == *section))?;
    Some(Finding::new(
        &file.path,
        0,
        format!("has no section '{missing}'"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: &str) -> String {
        format!("# {number}: T\n## Context\n## Decision\n## Consequences\n## Alternatives\n")
    }

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn records_in_a_row_are_fine() {
        let (one, two) = (record("0001"), record("0002"));
        let files = [
            ("docs/adr/README.md", "about"),
            ("docs/adr/0001-a.md", one.as_str()),
            ("docs/adr/0002-b.md", &two),
        ];
        assert_eq!(messages(&files), Vec::<String>::new());
    }

    #[test]
    fn gaps_repetitions_and_wrong_titles_are_found() {
        let (one, three) = (record("0001"), record("0003"));
        let gap = [
            ("docs/adr/0001-a.md", one.as_str()),
            ("docs/adr/0003-b.md", &three),
        ];
        assert!(messages(&gap)[0].contains("the next record is 0002"));
        let twice = [
            ("docs/adr/0001-a.md", one.as_str()),
            ("docs/adr/0001-b.md", &one),
        ];
        assert!(messages(&twice)[0].contains("0001-b.md: the next record is 0002"));
        assert!(messages(&[("docs/adr/0001-a.md", &three)])[0].contains("begins with '# 0001: '"));
    }

    #[test]
    fn a_missing_section_is_found() {
        let text = record("0001").replace("## Alternatives\n", "");
        assert!(
            messages(&[("docs/adr/0001-a.md", &text)])[0].ends_with("no section 'Alternatives'")
        );
    }
}
