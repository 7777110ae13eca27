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

/// With commas between thousands and `digits` decimals; empty where nothing was measured.
pub fn grouped(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let text = format!("{:.digits$}", value.abs());
    let (whole, decimals) = match text.split_once('.') {
        Some((whole, decimals)) => (whole, format!(".{decimals}")),
        None => (&text[..], String::new()),
    };
    let sign = if value < 0.0 { "-" } else { "" };
    let thousands: Vec<&str> = whole
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|chunk| std::str::from_utf8(chunk).ok())
        .collect();
    format!("{sign}{}{decimals}", thousands.join(","))
}

/// With three digits that count, and all of a whole number; empty where nothing was measured.
pub fn significant(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    grouped(value, digits)
}

/// Figures of one kind in one cell; empty unless all of them were measured.
pub fn joined(values: &[f64], write: impl Fn(f64) -> String) -> String {
    let all_measured = values.iter().all(|value| value.is_finite());
    let texts: Vec<String> = values.iter().copied().map(write).collect();
    if all_measured {
        texts.join(" / ")
    } else {
        String::new()
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
    fn figures_of_a_page_have_commas_and_three_digits_that_count() {
        assert_eq!(grouped(1_234_567.0, 0), "1,234,567");
        assert_eq!(grouped(-1_445.25, 1), "-1,445.2");
        assert_eq!(significant(62_500.4), "62,500");
        assert_eq!(significant(14.52), "14.5");
        assert_eq!(significant(0.1914), "0.191");
        assert_eq!(
            (significant(0.0), significant(f64::NAN)),
            ("0".into(), String::new())
        );
        assert_eq!(joined(&[0.84, 1.0], significant), "0.840 / 1.00");
        assert_eq!(joined(&[0.84, f64::NAN], significant), "");
    }

    #[test]
    fn a_figure_that_is_missing_is_a_dash() {
        assert_eq!(figure(1.234, 1), "1.2");
        assert_eq!(figure(f64::NAN, 1), "-");
    }
}
