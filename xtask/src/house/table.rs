//! The table: a row for each figure, a column for each subject.

use super::figures::Figures;
use super::kind::Kind;

/// A row's name, and its cell for a subject.
struct Row {
    name: &'static str,
    cell: fn(&Figures) -> String,
}

const fn row(name: &'static str, cell: fn(&Figures) -> String) -> Row {
    Row { name, cell }
}

const ROWS: [Row; 18] = [
    row("files", |of| of.files.to_string()),
    row("  in circles", |of| of.count(Kind::Circles).to_string()),
    row("  in the largest circle", |of| {
        of.circle_files_max.to_string()
    }),
    row("code lines", |of| of.code_lines.to_string()),
    row("  expect, unwrap", |of| of.count(Kind::Expects).to_string()),
    row("  expect, unwrap in gateway/", |of| {
        of_ours(of, of.expects_of_gateway())
    }),
    row("doc comment blocks", |of| of.doc_blocks.to_string()),
    row("  open with a question, %", |of| {
        percent(of.count(Kind::Questions), of.doc_blocks)
    }),
    row("  open with a pronoun, %", |of| {
        percent(of.count(Kind::Pronouns), of.doc_blocks)
    }),
    row("  riddles (both), %", |of| {
        percent(
            of.count(Kind::Questions) + of.count(Kind::Pronouns),
            of.doc_blocks,
        )
    }),
    row("functions", |of| of.functions.to_string()),
    row("  with a tuple as parameter", |of| {
        of.count(Kind::Tuples).to_string()
    }),
    row("  over 70 lines", |of| of.count(Kind::Long).to_string()),
    row("inherent impl blocks elsewhere", |of| {
        of.count(Kind::Impls).to_string()
    }),
    row("definitions", |of| of.definitions.to_string()),
    row("  with a shared name", |of| {
        of.count(Kind::Names).to_string()
    }),
    row("  with a shared name, %", |of| {
        percent(of.count(Kind::Names), of.definitions)
    }),
    row("rows of known.toml", |of| {
        of_ours(of, of.known.unwrap_or_default())
    }),
];

/// A figure that peers don't have.
fn of_ours(of: &Figures, count: usize) -> String {
    of.known.map_or("–".to_owned(), |_| count.to_string())
}

fn percent(part: usize, whole: usize) -> String {
    // Tenths, rounded.
    let tenths = (part * 2000 + whole) / (2 * whole).max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The table as text, a line for each row.
pub fn printed(subjects: &[Figures]) -> String {
    let heading = subjects.iter().map(|of| of.name.clone()).collect();
    let mut lines: Vec<(&str, Vec<String>)> = vec![("", heading)];
    let cells = |row: &Row| subjects.iter().map(row.cell).collect();
    lines.extend(ROWS.iter().map(|row| (row.name, cells(row))));
    let width = |column: usize| {
        let widths = lines.iter().map(|(_, cells)| cells[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..subjects.len()).map(width).collect();
    let name_width = ROWS
        .iter()
        .map(|row| row.name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for (name, cells) in &lines {
        text += &format!("{name:name_width$}");
        for (cell, width) in cells.iter().zip(&widths) {
            text += &format!("  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::subject::Subject;
    use super::*;

    #[test]
    fn the_table_has_a_column_for_each_subject() {
        let code = "fn f() {}\n".repeat(12_345);
        let subject = |code| Subject::of_files(&[("a/src/lib.rs", code)]);
        let mut ours = Figures::of(&subject(&code));
        ours.known = Some(7);
        let peer = Figures::of(&subject(""));
        let text = printed(&[ours, peer]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["test", "test"]
        );
        assert!(lines[4].starts_with("code lines") && lines[4].ends_with("12345     0"));
        assert!(lines[18].ends_with("    7     –"), "{text}");
    }

    #[test]
    fn percents_are_rounded_to_tenths() {
        assert_eq!(percent(1, 3), "33.3");
        assert_eq!(percent(2, 3), "66.7");
        assert_eq!(percent(0, 0), "0.0");
        assert_eq!(percent(5, 5), "100.0");
    }
}
