//! The files of the jobs, and the table of `docs/guides/jobs.md` counted in them.

use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/jobs")
}

/// The file of a job.
pub fn text(name: &str) -> String {
    let path = folder().join(format!("{name}.toml"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The jobs, by the names of their files.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("a folder");
    let files = entries.map(|entry| entry.expect("a file").file_name());
    let mut names: Vec<_> = files
        .filter_map(|file| Some(file.to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort_unstable();
    assert_eq!(names.len(), 10, "{names:?}");
    names
}

/// Lines that are neither blank nor a comment.
fn count(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .count()
}

/// The number of lines of a peer's file for the job, if there is one.
fn of_peer(file: &str) -> Option<usize> {
    let text = fs::read_to_string(folder().join("peers").join(file)).ok()?;
    Some(count(&text))
}

fn cell(file: &str) -> String {
    of_peer(file).map_or_else(
        || "–".to_owned(),
        |lines| format!("[{lines}](../../examples/jobs/peers/{file})"),
    )
}

#[test]
fn blank_lines_and_comments_do_not_count() {
    assert_eq!(count("# a\n\n\tb # c\n \n  # d\ne\n"), 2);
}

#[test]
fn the_page_has_the_lines_of_every_file() {
    let page = folder().join("../../docs/guides/jobs.md");
    let page = fs::read_to_string(page).expect("the page");
    for name in names() {
        let lines = count(&text(&name));
        let (caddy, nginx) = (format!("{name}.caddy"), format!("{name}.conf"));
        let row = format!(
            "](../../examples/jobs/{name}.toml) | {lines} | {} | {} |",
            cell(&caddy),
            cell(&nginx)
        );
        assert!(page.contains(&row), "docs/guides/jobs.md has no row: {row}");
        if let Some(caddy) = of_peer(&caddy) {
            assert!(lines <= 2 * caddy + 2, "{name}: {lines} beside {caddy}");
        }
    }
}
