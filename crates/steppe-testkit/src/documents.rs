//! Examples of the documentation: its pages, their fenced blocks, and the commands in these.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Scratch;

/// A fenced block of a page.
#[derive(Debug, Clone)]
pub struct Fence {
    /// The words after the three backquotes, such as `toml` or `sh test`.
    pub info: String,
    /// Its lines.
    pub text: String,
    /// The heading of the second level that it stands below; empty before the first.
    pub heading: String,
    /// The line of its opening, from 1.
    pub line: usize,
    /// The name of a file in backquotes that the lines before it have last, such as `soak.toml`.
    pub file: Option<String>,
}

/// A page of the documentation with its fenced blocks.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its path in the checkout, such as `docs/dns/home.md`.
    pub name: String,
    /// In their order.
    pub fences: Vec<Fence>,
}

impl Document {
    /// README.md and all pages below `docs/`, decisions left out.
    ///
    /// # Panics
    /// When one can't be read.
    pub fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths = vec![root.join("README.md")];
        add_pages(&root.join("docs"), &mut paths);
        let mut pages: Vec<Self> = paths.iter().map(|path| Self::read(&root, path)).collect();
        pages.retain(|page| !page.name.starts_with("docs/adr/"));
        pages.sort_by(|one, other| one.name.cmp(&other.name));
        assert!(pages.len() > 20, "{} pages", pages.len());
        pages
    }

    /// The page of this name.
    ///
    /// # Panics
    /// When it is not there.
    pub fn named(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::read(&root, &root.join(name))
    }

    fn read(root: &Path, path: &Path) -> Self {
        let name = path.strip_prefix(root).expect("below the root").display();
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self {
            name: name.to_string(),
            fences: fences(&text),
        }
    }

    /// The first `toml` block.
    ///
    /// # Panics
    /// When there is none.
    pub fn toml(&self) -> &str {
        let toml = self.fences.iter().find(|fence| fence.info == "toml");
        let toml = toml.unwrap_or_else(|| panic!("{} has no configuration", self.name));
        &toml.text
    }

    /// Has `check` judge each `toml` block, and parses each `toml part` block; the number of the former.
    ///
    /// # Panics
    /// When one is refused, and for another word after `toml`.
    pub fn check_toml(&self, check: impl Fn(&str) -> Result<(), String>) -> usize {
        let mut count = 0;
        for fence in &self.fences {
            let judged = match fence.info.as_str() {
                "toml" => {
                    count += 1;
                    check(&fence.text)
                }
                "toml part" => {
                    let parsed = fence.text.parse::<toml::Table>();
                    parsed.map(drop).map_err(|error| error.to_string())
                }
                info if info.starts_with("toml") => Err(format!("'{info}' is not known")),
                _ => Ok(()),
            };
            let (page, line) = (&self.name, fence.line);
            judged.unwrap_or_else(|error| panic!("{page}:{line}: {error}"));
        }
        count
    }

    /// Runs each `sh test` block with `bash -e` in one scratch folder, with the programs on its `PATH`. The `toml` blocks of
    /// the page lie there under their names, the first without one as `file`.
    ///
    /// # Panics
    /// When a block fails.
    pub fn run_tests(&self, file: &str, programs: &[&str]) -> usize {
        let tests = self.fences.iter().filter(|fence| fence.info == "sh test");
        let tests: Vec<&Fence> = tests.collect();
        if tests.is_empty() {
            return 0;
        }
        let scratch = Scratch::new("docs");
        let files = self.fences.iter().filter(|fence| fence.info == "toml");
        for toml in files.rev() {
            scratch.write(toml.file.as_deref().unwrap_or(file), &toml.text);
        }
        for test in &tests {
            let mut bash = bash(&test.text, programs);
            let output = bash.current_dir(scratch.path()).output().expect("bash");
            let text = String::from_utf8_lossy(&output.stderr);
            let (name, line) = (&self.name, test.line);
            assert!(output.status.success(), "{name}:{line}: {text}");
        }
        tests.len()
    }

    /// Has `program` parse each of its commands in `sh` blocks, by adding `--help`: unknown commands and flags fail.
    ///
    /// # Panics
    /// When it does not know one.
    pub fn parse_commands(&self, program: &str) -> usize {
        let name = Path::new(program).file_name().expect("a name");
        let name = name.to_str().expect("text");
        let shells = self
            .fences
            .iter()
            .filter(|fence| fence.info.split(' ').next() == Some("sh"));
        let mut count = 0;
        for fence in shells {
            for command in commands(&fence.text, name) {
                let own = command.split(" -- ").next().unwrap_or(&command);
                let script = format!("{} --help", with_numbers(own));
                let output = bash(&script, &[program]).output().expect("bash");
                let text = String::from_utf8_lossy(&output.stderr);
                let (page, line) = (&self.name, fence.line);
                assert!(output.status.success(), "{page}:{line}: {command}: {text}");
                count += 1;
            }
        }
        count
    }
}

fn bash(script: &str, programs: &[&str]) -> Command {
    let mut folders: Vec<PathBuf> = programs
        .iter()
        .filter_map(|program| Path::new(program).parent().map(Path::to_owned))
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).expect("a PATH");
    let mut bash = Command::new("bash");
    bash.args(["-e", "-o", "pipefail", "-c", script])
        .env("PATH", path);
    bash
}

fn add_pages(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of docs") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_pages(&path, paths);
        } else if path.extension().is_some_and(|end| end == "md") {
            paths.push(path);
        }
    }
}

fn fences(text: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut open: Option<Fence> = None;
    let (mut file, mut heading) = (None, "");
    for (number, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => fences.extend(open.take()),
            (Some(info), None) => {
                open = Some(Fence {
                    info: info.trim().to_owned(),
                    text: String::new(),
                    heading: heading.to_owned(),
                    line: number + 1,
                    file: file.take(),
                });
            }
            (None, Some(fence)) => fence.text += &format!("{line}\n"),
            (None, None) => {
                heading = line.strip_prefix("## ").unwrap_or(heading);
                file = file_named(line).or(file);
            }
        }
    }
    fences
}

/// The last file of TOML that a line names in backquotes, without a folder.
fn file_named(line: &str) -> Option<String> {
    let quoted = line.split('`').skip(1).step_by(2);
    let names = quoted.filter(|name| name.ends_with(".toml") && !name.contains(['/', ' ']));
    names.last().map(str::to_owned)
}

/// The commands of `program` in a script, without pipes, redirections and comments.
fn commands(script: &str, program: &str) -> Vec<String> {
    let joined = script.replace("\\\n", " ");
    let lines = joined.lines().flat_map(parts);
    let own = lines.filter_map(|part| {
        let word = part.split_whitespace().next()?;
        let is_own = word == program || word.ends_with(&format!("/{program}"));
        is_own.then(|| part.replacen(word, program, 1))
    });
    own.collect()
}

/// A command with a number for each process that the shell would look for: `$!` and `$(pidof …)`. What runs on this
/// machine is not asked.
fn with_numbers(command: &str) -> String {
    let mut parts = command.split("$(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once(')').unwrap_or((part, ""));
        text = text + "1" + rest;
    }
    text.replace("$!", "1")
}

/// The commands of a line: cut where the shell cuts, outside of quotes.
fn parts(line: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut quote = None;
    for (at, char) in line.char_indices() {
        let is_after_space = at == 0 || line[..at].ends_with(' ');
        match (quote, char) {
            (None, '#') if is_after_space => break,
            (None, '|' | '&' | ';' | '>' | '<') => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), char) if open == char => quote = None,
            _ => {}
        }
        part.push(char);
    }
    parts.push(part);
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fenced_blocks_are_found_with_their_lines() {
        let found = fences(
            "# `x/y.toml`\n## Files\nas `a.toml`:\n\n```toml\na = 1\n```\ntext\n  ```sh test\nls\n  ```\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].info.as_str(), found[0].line), ("toml", 5));
        assert_eq!(found[0].heading, "Files");
        assert_eq!(found[0].file.as_deref(), Some("a.toml"));
        assert_eq!(found[0].text, "a = 1\n");
        assert_eq!((found[1].info.as_str(), found[1].line), ("sh test", 9));
        assert_eq!(found[1].file, None);
    }

    #[test]
    fn commands_are_cut_as_the_shell_does() {
        let script = "steppe check a.toml   # everything; at once\ntarget/debug/steppe run -c a \\\n  --listen b &\n\
                      curl x | steppe top; steppe-lab try\nsteppe call 'a | b' > out\n";
        assert_eq!(
            commands(script, "steppe"),
            [
                "steppe check a.toml",
                "steppe run -c a    --listen b",
                "steppe top",
                "steppe call 'a | b'"
            ]
        );
    }

    #[test]
    fn processes_of_the_shell_are_numbers() {
        let command = "steppe-lab soak --pid $(pidof -s nginx) --for 1h -p $!";
        assert_eq!(
            with_numbers(command),
            "steppe-lab soak --pid 1 --for 1h -p 1"
        );
    }

    #[test]
    fn a_command_that_is_not_known_fails() {
        let page = |text: &str| Document {
            name: "a.md".to_owned(),
            fences: fences(&format!("```sh\n{text}\n```\n")),
        };
        assert_eq!(page("ls -l").parse_commands("/bin/ls"), 1);
        let unknown =
            std::panic::catch_unwind(|| page("ls --no-such-flag").parse_commands("/bin/ls"));
        assert!(unknown.is_err());
    }
}
