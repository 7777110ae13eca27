//! Aligned text tables: the first column to the left, figures to the right.

use std::fmt::{self, Display, Formatter};

/// Rows of text under a header.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&str]) -> Self {
        Self {
            rows: vec![header.iter().map(ToString::to_string).collect()],
        }
    }

    /// Adds a row, with as many cells as the header has.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(
            cells.len(),
            self.rows[0].len(),
            "a row is as long as the header"
        );
        self.rows.push(cells);
    }

    /// As Markdown: figures to the right there too.
    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&self.rows[0]);
        text.push_str("| --- |");
        text.push_str(&" ---: |".repeat(self.rows[0].len() - 1));
        text.push('\n');
        text.extend(self.rows[1..].iter().map(|row| line(row)));
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
        };
        (0..self.rows[0].len())
            .map(|column| width(column).unwrap_or(0))
            .collect()
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            write!(formatter, "{:<width$}", row[0], width = widths[0])?;
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                write!(formatter, "  {cell:>width$}")?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}

/// A figure with `digits` decimals, or a dash where nothing was measured.
pub fn figure(value: f64, digits: usize) -> String {
    if value.is_finite() {
        format!("{value:.digits$}")
    } else {
        "-".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let mut table = Table::new(&["proxy", "CPU µs"]);
        table.row(vec!["a".into(), "12.5".into()]);
        assert_eq!(table.to_string(), "proxy  CPU µs\na        12.5\n");
    }

    #[test]
    fn markdown_has_the_figures_to_the_right() {
        let mut table = Table::new(&["proxy", "CPU µs"]);
        table.row(vec!["a".into(), "12.5".into()]);
        let expected = "| proxy | CPU µs |\n| --- | ---: |\n| a | 12.5 |\n";
        assert_eq!(table.to_markdown(), expected);
    }

    #[test]
    fn a_figure_that_is_missing_is_a_dash() {
        assert_eq!(figure(1.234, 1), "1.2");
        assert_eq!(figure(f64::NAN, 1), "-");
    }
}
