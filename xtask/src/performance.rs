//! `cargo xtask performance`: the head of each page of `docs/performance/`, which lists every row in which a peer is
//! ahead of Steppe.
//!
//! A row is judged when its label, or the first heading of its table, ends with an arrow: `↓`, the lower is better, or
//! `↑`. The columns of Steppe are [`OURS`]; a column is a peer's unless its heading is in [`OTHERS`] or has a `÷`. A
//! cell with several numbers is compared number by number, and a peer that is ahead in one of them is ahead.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;

/// Headings of Steppe's columns. A peer is ahead when it is ahead of the first of them that has a figure.
const OURS: [&str; 7] = [
    "Steppe",
    "balanced",
    "speed",
    "lean",
    "ring, a Worker",
    "ring, events",
    "by its relay",
];
/// Headings of columns that are no peer's.
const OTHERS: [&str; 5] = ["floor", "floor on steppe-h2", "aim", "ratio", ""];

/// The line before and after the list.
const MARK: &str = "<!-- ahead -->";

/// Writes the lists.
///
/// # Errors
/// A page can't be read or written, or has no marks.
pub fn command() -> Result<()> {
    for path in pages()? {
        fs::write(&path, renewed(&path)?)?;
    }
    Ok(())
}

/// The text of a page with its list made anew.
fn renewed(path: &Path) -> Result<String> {
    let old = fs::read_to_string(path)?;
    with_list(&old).with_context(|| path.display().to_string())
}

/// The pages with marks.
fn pages() -> Result<Vec<PathBuf>> {
    let folder = process::root().join("docs/performance");
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).context("docs/performance")? {
        let path = entry?.path();
        if fs::read_to_string(&path)?.contains(MARK) {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// The page with its list made anew.
fn with_list(page: &str) -> Result<String> {
    let mut parts = page.splitn(3, MARK);
    let (head, _, body) = (parts.next(), parts.next(), parts.next());
    let (Some(head), Some(body)) = (head, body) else {
        anyhow::bail!("it has no two lines '{MARK}'");
    };
    let rows = ahead(body);
    let list = if rows.is_empty() {
        "None.\n".to_owned()
    } else {
        format!("{HEADER}{}", rows.concat())
    };
    Ok(format!("{head}{MARK}\n{list}{MARK}{body}"))
}

const HEADER: &str = "\n| row | ours | peers that are ahead |\n| --- | --- | --- |\n";

/// Rows of the list, in the order of the page.
fn ahead(body: &str) -> Vec<String> {
    let (mut section, mut heading) = (String::new(), Vec::new());
    let mut is_in_table = false;
    let mut lines = Vec::new();
    for line in body.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut section);
        }
        let Some(cells) = cells(line) else {
            is_in_table = false;
            continue;
        };
        if !is_in_table {
            is_in_table = true;
            heading = cells;
            continue;
        }
        if let Some(found) = row(&heading, &cells) {
            lines.push(format!("| {section}: {found} |\n"));
        }
    }
    lines
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect(),
    )
}

/// Three cells of the list: the label of a row, Steppe's figure, and the peers that are ahead with theirs.
fn row(heading: &[String], cells: &[String]) -> Option<String> {
    let label = cells.first()?;
    let direction = direction(label).or_else(|| direction(heading.first()?))?;
    let is_ours = |name: &String| OURS.contains(&name.as_str());
    let mut own = heading.iter().zip(cells);
    let (ours_name, ours) = own.find(|(name, figure)| is_ours(name) && !figure.is_empty())?;
    let peers = heading.iter().zip(cells).skip(1).filter(|(name, _)| {
        !is_ours(name) && !OTHERS.contains(&name.as_str()) && !name.contains('÷')
    });
    let better: Vec<String> = peers
        .filter(|(_, figure)| is_ahead(figure, ours, direction))
        .map(|(name, figure)| format!("{name}: {figure}"))
        .collect();
    let bare = |label: &str| label.trim_end_matches(['↓', '↑', ' ']).to_owned();
    let title = heading.first().filter(|title| !title.is_empty());
    let title = title.map_or_else(String::new, |title| bare(title) + ", ");
    let (label, peers) = (bare(label), better.join("; "));
    (!better.is_empty()).then(|| format!("{title}{label} | {ours_name}: {ours} | {peers}"))
}

#[derive(Clone, Copy)]
enum Direction {
    LowerIsBetter,
    HigherIsBetter,
}

fn direction(label: &str) -> Option<Direction> {
    match label.chars().last()? {
        '↓' => Some(Direction::LowerIsBetter),
        '↑' => Some(Direction::HigherIsBetter),
        _ => None,
    }
}

/// True when any number of the peer is better than the number of ours in the same place.
fn is_ahead(peer: &str, ours: &str, direction: Direction) -> bool {
    let pairs = numbers(peer).into_iter().zip(numbers(ours));
    let mut pairs = pairs.map(|(peer, ours)| match direction {
        Direction::LowerIsBetter => peer < ours,
        Direction::HigherIsBetter => peer > ours,
    });
    pairs.any(|better| better)
}

/// The numbers of a cell; commas between digits belong to a number, what stands in brackets does not count.
fn numbers(cell: &str) -> Vec<f64> {
    let outside = cell.split('(').next().unwrap_or_default();
    let parts = outside.split(['/', ' ', ';']);
    let parts = parts.filter_map(|part| part.trim_end_matches(',').replace(',', "").parse().ok());
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_which_a_peer_is_ahead_are_listed() {
        let page = "# P\n<!-- ahead -->\nold\n<!-- ahead -->\n## Calls\n\n\
            | | Steppe | nginx | floor | aim |\n| --- | --- | --- | --- | --- |\n\
            | CPU, µs ↓ | 2.0 | 1.9 | 1.0 | 1 |\n| RSS ↓ | 1,000 | 2,000 | 1 | |\n\
            | requests a second ↑ | 5 (4 to 6) | 6 | | |\n| p50 / p99 ↓ | 1 / 9 | 2 / 8 | | |\n\
            | no arrow | 5 | 1 | | |\n";
        let new = with_list(page).unwrap();
        let list = "<!-- ahead -->\n\n| row | ours | peers that are ahead |\n| --- | --- | --- |\n\
             | Calls: CPU, µs | Steppe: 2.0 | nginx: 1.9 |\n\
             | Calls: requests a second | Steppe: 5 (4 to 6) | nginx: 6 |\n\
             | Calls: p50 / p99 | Steppe: 1 / 9 | nginx: 2 / 8 |\n<!-- ahead -->";
        assert!(new.contains(list), "{new}");
        assert_eq!(with_list(&new).unwrap(), new);
        assert!(with_list("no marks").is_err());
    }

    #[test]
    fn a_direction_above_a_table_is_that_of_its_rows_and_a_row_may_be_of_the_relay() {
        let page = "<!-- ahead -->\n<!-- ahead -->\n## Cases\n\
            <!-- begin a -->\nOne round: `make`.\n\n\
            | rate ↑ | balanced | lean | glibc | its ÷ |\n| --- | ---: | ---: | ---: | ---: |\n\
            | small, M | 109 | 61.1 | 110 | 200 |\n| large | 3.5 | 9 | 3 | 200 |\n<!-- end a -->\n\
            |  | Steppe | by its relay | NATS |\n| --- | ---: | ---: | ---: |\n\
            | broker, µs ↓ |  | 4.5 | 4.1 |\n| caller, µs ↓ | 2 | 5 | - |\n";
        let new = with_list(page).unwrap();
        let list = "| --- |\n| Cases: rate, small, M | balanced: 109 | glibc: 110 |\n\
             | Cases: broker, µs | by its relay: 4.5 | NATS: 4.1 |\n<!-- ahead -->";
        assert!(new.contains(list), "{new}");
    }

    #[test]
    fn the_pages_are_current() {
        for path in pages().unwrap() {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.display();
            assert!(
                text == renewed(&path).unwrap(),
                "{name} is not current: run `cargo xtask performance`"
            );
        }
    }
}
