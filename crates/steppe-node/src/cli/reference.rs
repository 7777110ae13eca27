//! `docs/reference/command-line*.md`, generated from the command line.
//!
//! Invariant: the pages have the help of every command as it is printed; a group of commands has a page of its own. A
//! test compares them with their files; `make docs` writes them.

use clap::{Command, CommandFactory};

use super::Cli;
use crate::config::reference::{MARK, hold};

/// The width of a page, independent of the terminal.
const COLUMNS: usize = 100;

const HEAD: &str = "\
Each command of `steppe` with its help, as `steppe COMMAND --help` prints it. Exit codes are listed below
[`steppe`](#steppe), and messages in [errors.md](errors.md). `steppe-lab` has [pages of its own](../lab/README.md).
";

/// Names and texts of the pages, those of groups of commands after the first.
fn pages() -> Vec<(String, String)> {
    let mut command = Cli::command();
    command.build();
    let mut text = format!("# Command line\n{MARK}\n\n{HEAD}");
    section(&command, &mut text);
    let mut groups = Vec::new();
    for command in command.get_subcommands() {
        match command.has_subcommands() {
            true => {
                let page = group(command);
                let (name, file) = (name(command), &page.0);
                text += &format!("\n## `{name}`\nSee [{name}]({file}).\n");
                groups.push(page);
            }
            false => section(command, &mut text),
        }
    }
    groups.insert(0, ("command-line.md".to_owned(), text));
    groups
}

/// The page of a command that has commands of its own.
fn group(command: &Command) -> (String, String) {
    let name = name(command);
    let mut text = format!(
        "# `{name}`: command line\n{MARK}\n\nOther commands: [command line](command-line.md).\n"
    );
    section(command, &mut text);
    for command in command.get_subcommands() {
        section(command, &mut text);
    }
    (format!("command-line-{}.md", command.get_name()), text)
}

fn section(command: &Command, text: &mut String) {
    let name = name(command);
    let help = help(name);
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    *text += &format!("\n## `{name}`\n```text\n{}\n```\n", lines.join("\n"));
}

fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// The help that a command prints.
fn help(name: &str) -> String {
    let words = name.split(' ').chain(["--help"]);
    let help = Cli::command()
        .term_width(COLUMNS)
        .try_get_matches_from(words)
        .expect_err("a help is no command");
    help.render().to_string()
}

mod tests {
    use super::*;

    #[test]
    fn the_pages_are_those_of_the_command_line() {
        for (name, text) in pages() {
            hold(&name, &text);
        }
    }
}
