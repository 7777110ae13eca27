//! A plot of characters, for terminals and logs.

use super::plot::Place;
use super::scale::{Domain, Scale};

/// Columns and rows of the plot itself.
const COLUMNS: u32 = 60;
const ROWS: u32 = 10;

/// Points as dots (`·` one, `:` a few, `#` many), a line as dashes; values at the edge by `show`.
pub(super) fn text_plot(
    points: &[Place],
    line: Option<[Place; 2]>,
    show: impl Fn(f64) -> String,
) -> String {
    let Some((x, y)) = scales(points, line) else {
        return "  nothing was measured\n".to_owned();
    };
    let mut cells = vec![vec![Cell::Empty; COLUMNS as usize]; ROWS as usize];
    if let Some([from, to]) = line {
        for column in 0..COLUMNS {
            let share = f64::from(column) / f64::from(COLUMNS - 1);
            let at = (
                from.0 + share * (to.0 - from.0),
                from.1 + share * (to.1 - from.1),
            );
            if let Some(cell) = cell_at(&mut cells, x.place(at.0), y.place(at.1)) {
                *cell = Cell::Line;
            }
        }
    }
    for point in points {
        if let Some(cell) = cell_at(&mut cells, x.place(point.0), y.place(point.1)) {
            *cell = cell.with_point();
        }
    }
    let (top, bottom) = (show(y.domain().high), show(y.domain().low));
    let margin = top.chars().count().max(bottom.chars().count());
    let mut text = String::new();
    for (index, row) in cells.iter().enumerate() {
        let label = match index {
            0 => top.as_str(),
            _ if index + 1 == cells.len() => bottom.as_str(),
            _ => "",
        };
        let row: String = row.iter().map(|cell| cell.sign()).collect();
        text.push_str(&format!("  {label:>margin$} │{}\n", row.trim_end()));
    }
    let rule = "─".repeat(COLUMNS as usize);
    text.push_str(&format!("  {:>margin$} └{rule}\n", ""));
    let (first, last) = (x.domain().low.to_string(), x.domain().high.to_string());
    let gap = (COLUMNS as usize).saturating_sub(first.len() + last.len());
    text.push_str(&format!(
        "  {:>margin$}  {first}{}{last}\n",
        "",
        " ".repeat(gap)
    ));
    text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Empty,
    Line,
    Points(u32),
}

impl Cell {
    fn with_point(self) -> Self {
        match self {
            Self::Points(count) => Self::Points(count.saturating_add(1)),
            _ => Self::Points(1),
        }
    }

    fn sign(self) -> char {
        match self {
            Self::Empty => ' ',
            Self::Line => '-',
            Self::Points(1) => '·',
            Self::Points(2..=4) => ':',
            Self::Points(_) => '#',
        }
    }
}

fn scales(points: &[Place], line: Option<[Place; 2]>) -> Option<(Scale, Scale)> {
    let x = Domain::of(points.iter().map(|point| point.0))?;
    let y = Domain::of(points.iter().map(|point| point.1))?;
    let ends = line.into_iter().flatten().map(|end| end.1);
    let y = ends.fold(y, Domain::with).padded(0.01);
    Some((
        Scale::linear(x, 0.0, f64::from(COLUMNS - 1)),
        Scale::linear(y, f64::from(ROWS - 1), 0.0),
    ))
}

fn cell_at(cells: &mut [Vec<Cell>], column: f64, row: f64) -> Option<&mut Cell> {
    cells.get_mut(index(row)?)?.get_mut(index(column)?)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked: a small number that is not negative"
)]
fn index(place: f64) -> Option<usize> {
    let rounded = place.round();
    (0.0..=f64::from(COLUMNS))
        .contains(&rounded)
        .then_some(rounded as usize)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_rising_line_rises() {
        let points: Vec<Place> = (0..=20).map(|x| (f64::from(x), f64::from(x * x))).collect();
        let plot = text_plot(&points, Some([(0.0, 200.0), (20.0, 200.0)]), |y| {
            format!("{y:.0}")
        });
        // The plot's own first line, without which its indentation would be taken away.
        expect![[r#"
            plot
              416 │                                                           ·
                  │                                                        ·
                  │                                                     ·
                  │                                               ·  ·
                  │                                            ·
                  │--------------------------------------·--·------------------
                  │                                ·  ·
                  │                           ·  ·
                  │               ·  ·  ·  ·
                0 │·  ·  ·  ·  ·
                  └────────────────────────────────────────────────────────────
                   0                                                         20
        "#]]
        .assert_eq(&format!("plot\n{plot}"));
        assert!(text_plot(&[], None, |y| y.to_string()).contains("nothing"));
    }
}
