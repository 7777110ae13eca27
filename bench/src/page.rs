//! `--page FILE`: the tables of a run, written into a page of `docs/performance/`.
//!
//! A table stands between the lines `<!-- begin NAME -->` and `<!-- end NAME -->`, below a line with the date, the
//! machine, the rounds and the command. Invariants: a page without the marks of a table that the run is to write, or with
//! marks of an unknown one, is an error before the run; the page outside of the marks of written tables stays
//! as it is.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::machine;
use crate::table::Table;

/// A page that a run writes to.
pub struct Page {
    path: PathBuf,
    /// Date and machine.
    dated: String,
    command: String,
}

/// The marks that the pages of a bench may have.
pub struct Marks<'a> {
    /// The bench, as `make bench-…` has it.
    pub bench: &'a str,
    pub names: &'a [&'static str],
}

/// Tables that stand between the marks of one name.
pub struct Section {
    pub name: &'static str,
    pub rounds: usize,
    pub tables: Vec<Table>,
}

impl Page {
    /// The page at `path`, which has the marks of all that is `measured`.
    ///
    /// # Errors
    /// When there is no such page, when it lacks marks, or has others than the bench knows.
    pub fn open(path: &Path, marks: &Marks<'_>, measured: &[&str]) -> Result<Self> {
        ensure!(
            !measured.is_empty(),
            "--page: this run measures no whole table (bench/README.md, pages of figures)"
        );
        let text = read(path)?;
        check(&text, marks.names, measured).with_context(|| path.display().to_string())?;
        Ok(Self {
            path: path.to_owned(),
            dated: machine::dated(),
            command: command(marks.bench, std::env::args().skip(2)),
        })
    }

    /// Replaces the tables of these sections.
    ///
    /// # Errors
    /// When the page has lost marks since it was opened, or can't be written.
    pub fn write(&self, sections: &[Section]) -> Result<()> {
        let name = self.path.display();
        let mut text = read(&self.path)?;
        for section in sections {
            let content = self.content(section);
            text = replaced(&text, section.name, &content).with_context(|| name.to_string())?;
            eprintln!("written: {} of {name}", section.name);
        }
        fs::write(&self.path, text).with_context(|| format!("cannot write {name}"))
    }

    fn content(&self, section: &Section) -> String {
        let Self { dated, command, .. } = self;
        let rounds = match section.rounds {
            1 => "One round".to_owned(),
            rounds => format!("Medians of {rounds} interleaved rounds"),
        };
        let tables: Vec<String> = section.tables.iter().map(Table::to_markdown).collect();
        format!("{rounds}, {dated}: `{command}`.\n\n{}", tables.join("\n"))
    }
}

/// A table with a column for each contestant, Steppe's first, and a row for each figure.
pub struct Figures {
    names: Vec<&'static str>,
    table: Table,
}

impl Figures {
    /// A column is the name of a contestant in the run, and its heading; `further` columns follow.
    pub fn new(corner: &str, mut columns: Vec<(&'static str, String)>, further: &[&str]) -> Self {
        columns.sort_by_key(|(name, _)| !name.starts_with("steppe"));
        let headings = columns.iter().map(|(_, heading)| &heading[..]);
        let header: Vec<&str> = [corner]
            .into_iter()
            .chain(headings)
            .chain(further.iter().copied())
            .collect();
        Self {
            table: Table::new(&header),
            names: columns.into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// Adds a row with the cell of each contestant, unless none has the figure.
    pub fn row(&mut self, label: &str, cell: impl Fn(&str) -> String) {
        self.row_with(label, cell, &[]);
    }

    /// The same with the cells of the further columns.
    pub fn row_with(&mut self, label: &str, cell: impl Fn(&str) -> String, further: &[String]) {
        let cells: Vec<String> = self.names.iter().map(|name| cell(name)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            let row = [&[label.to_owned()], &cells[..], further].concat();
            self.table.row(row);
        }
    }

    pub fn into_table(self) -> Table {
        self.table
    }
}

/// A product with as many `parts` of the version as its program `said`.
pub fn heading(product: &str, said: &str, parts: usize) -> String {
    match version_number(said) {
        Some(number) => {
            let parts: Vec<&str> = number.split('.').take(parts).collect();
            format!("{product} {}", parts.join("."))
        }
        None => product.to_owned(),
    }
}

/// The first number with a dot in it, after the word "version" where there is one.
fn version_number(said: &str) -> Option<&str> {
    let after = said.to_ascii_lowercase().find("version");
    let tail = &said[after.unwrap_or(0)..];
    let words = tail.split(|c: char| !c.is_ascii_digit() && c != '.');
    let mut numbers = words.map(|word| word.trim_matches('.'));
    numbers.find(|number| number.contains('.'))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("--page: cannot read {}", path.display()))
}

/// # Errors
/// When marks are unknown, lack their other half, or are missing of what is measured.
fn check(text: &str, known: &[&str], measured: &[&str]) -> Result<()> {
    for line in text.lines() {
        let name = line.strip_prefix(BEGIN).and_then(|l| l.strip_suffix(CLOSE));
        if let Some(name) = name {
            ensure!(
                known.contains(&name),
                "this bench has no table '{name}', but {}",
                known.join(", ")
            );
            place(text, name)?;
        }
    }
    for name in measured {
        place(text, name)?;
    }
    Ok(())
}

const BEGIN: &str = "<!-- begin ";
const END: &str = "<!-- end ";
const CLOSE: &str = " -->";

/// The content between the marks of a name.
fn place(text: &str, name: &str) -> Result<Range<usize>> {
    let (begin, end) = (
        format!("{BEGIN}{name}{CLOSE}"),
        format!("{END}{name}{CLOSE}"),
    );
    let at = text.find(&format!("{begin}\n"));
    let start = at.with_context(|| format!("no line '{begin}'"))? + begin.len() + 1;
    let length = text[start..].find(&end);
    let length = length.with_context(|| format!("no line '{end}' after '{begin}'"))?;
    let content = start..start + length;
    ensure!(
        !text[content.clone()].contains(BEGIN) && !text[content.end..].contains(&begin),
        "marks of two tables between '{begin}' and '{end}', or twice the same"
    );
    Ok(content)
}

/// The page with other content between the marks of a name.
fn replaced(text: &str, name: &str, content: &str) -> Result<String> {
    let place = place(text, name)?;
    Ok(format!(
        "{}{content}{}",
        &text[..place.start],
        &text[place.end..]
    ))
}

/// The command for anyone's machine: paths are left out, and `make` adds the access log.
fn command(bench: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let mut arguments = arguments.into_iter();
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument
            .split_once('=')
            .map_or(&argument[..], |(name, _)| name)
        {
            "--access-log" => {}
            "--page" | "--steppe" => {
                // Its value, where that is an argument of its own.
                if !argument.contains('=') {
                    arguments.next();
                }
            }
            _ => kept.push(argument),
        }
    }
    match kept.is_empty() {
        true => format!("make bench-{bench}"),
        false => format!("make bench-{bench} ARGS='{}'", kept.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Figures\n<!-- begin http tls -->\nold\n<!-- end http tls -->\nprose\n\
                        <!-- begin dns -->\n<!-- end dns -->\n";
    const KNOWN: [&str; 2] = ["http tls", "dns"];

    #[test]
    fn content_between_marks_is_replaced_and_the_rest_stays() {
        let new = replaced(PAGE, "http tls", "new\nlines\n").expect("it has the marks");
        assert_eq!(new, PAGE.replace("old\n", "new\nlines\n"));
        let filled = replaced(PAGE, "dns", "| a |\n").expect("it has the marks");
        assert_eq!(filled, PAGE.replace("<!-- end dns", "| a |\n<!-- end dns"));
    }

    #[test]
    fn marks_are_checked_before_a_run() {
        let error = |page: &str, measured: &[&str]| {
            let checked = check(page, &KNOWN, measured);
            checked.expect_err("it is refused").to_string()
        };
        check(PAGE, &KNOWN, &KNOWN).expect("both are there");
        assert_eq!(error("prose\n", &["dns"]), "no line '<!-- begin dns -->'");
        let unknown = PAGE.replace("http tls", "http tsl");
        assert_eq!(
            error(&unknown, &["dns"]),
            "this bench has no table 'http tsl', but http tls, dns"
        );
        let open = PAGE.replace("<!-- end http tls -->\n", "");
        assert_eq!(
            error(&open, &["dns"]),
            "no line '<!-- end http tls -->' after '<!-- begin http tls -->'"
        );
        assert!(error(&PAGE.repeat(2), &["dns"]).contains("twice the same"));
    }

    #[test]
    fn a_page_that_is_missing_is_an_error_and_so_is_a_run_without_a_table() {
        let marks = Marks {
            bench: "dns",
            names: &KNOWN,
        };
        let path = Path::new("/no/such/page.md");
        let missing = Page::open(path, &marks, &["dns"]).err();
        let missing = missing.expect("there is none").to_string();
        assert_eq!(missing, "--page: cannot read /no/such/page.md");
        let idle = Page::open(path, &marks, &[]).err();
        let idle = idle.expect("nothing is measured").to_string();
        assert_eq!(
            idle,
            "--page: this run measures no whole table (bench/README.md, pages of figures)"
        );
    }

    #[test]
    fn a_table_stands_below_its_date_machine_rounds_and_command() {
        let page = Page {
            path: PathBuf::new(),
            dated: "6 November 1994, 2 cores".to_owned(),
            command: "make bench-dns".to_owned(),
        };
        let mut figures = Figures::new(
            "",
            vec![("nginx", "nginx 1.22".into()), ("steppe", "Steppe".into())],
            &["aim"],
        );
        let cpu = |name: &str| if name == "steppe" { "14.5" } else { "15.4" };
        figures.row_with("CPU, µs ↓", |name| cpu(name).into(), &["15".into()]);
        figures.row_with("not measured", |_| String::new(), &["1".into()]);
        let section = |rounds, tables| Section {
            name: "dns",
            rounds,
            tables,
        };
        assert_eq!(
            page.content(&section(5, vec![figures.into_table()])),
            "Medians of 5 interleaved rounds, 6 November 1994, 2 cores: `make bench-dns`.\n\n\
             |  | Steppe | nginx 1.22 | aim |\n| --- | ---: | ---: | ---: |\n\
             | CPU, µs ↓ | 14.5 | 15.4 | 15 |\n"
        );
        let once = page.content(&section(1, Vec::new()));
        assert!(once.starts_with("One round, 6 November"), "{once}");
    }

    #[test]
    fn a_heading_has_the_number_of_the_version() {
        assert_eq!(
            heading("nginx", "nginx version: nginx/1.22.1", 2),
            "nginx 1.22"
        );
        let haproxy = "HAProxy version 2.6.12-1+deb12u1 2023/12/16 - https://haproxy.org/";
        assert_eq!(heading("HAProxy", haproxy, 2), "HAProxy 2.6");
        assert_eq!(
            heading("dnsdist", "dnsdist 1.7.3 (Lua 5.1.4)", 2),
            "dnsdist 1.7"
        );
        assert_eq!(heading("mimalloc", "2.0.9+ds-2", 3), "mimalloc 2.0.9");
        assert_eq!(heading("floor", "the least that forwards", 2), "floor");
    }

    #[test]
    fn a_command_has_no_paths() {
        let of = |line: &str| command("http", line.split_whitespace().map(str::to_owned));
        assert_eq!(of("--access-log --page a.md"), "make bench-http");
        assert_eq!(
            of("--quick --steppe=/a/b --phases costs --page=c.md"),
            "make bench-http ARGS='--quick --phases costs'"
        );
    }
}
