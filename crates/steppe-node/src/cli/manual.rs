//! `steppe man`: the manual pages, generated from the command line and the table of keys.
//!
//! Invariant: no text of a page is written by hand, so a page can't contradict the binary. Left
//! out: installing them. Spec: `man-pages(7)`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Args, Command};

use super::code::Code;
use super::console::{print, say};
use crate::config;

#[derive(Debug, Args)]
pub(super) struct Manual {
    /// Output folder; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) const HELP: &str = "\
Examples:
  steppe man /tmp/man && man -l /tmp/man/steppe.1";

pub(super) fn run(options: &Manual, command: Command) -> ExitCode {
    match write(&options.folder, command) {
        Ok(names) => print(
            &names
                .iter()
                .map(|name| format!("{name}\n"))
                .collect::<String>(),
        ),
        Err(error) => {
            let folder = options.folder.display();
            say(&format!("steppe: can't write to {folder}: {error}\n"));
            Code::Start.into()
        }
    }
}

fn write(folder: &Path, command: Command) -> io::Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let mut names = Vec::new();
    for (name, page) in pages(command)? {
        fs::write(folder.join(&name), page)?;
        names.push(name);
    }
    Ok(names)
}

/// Every page: its file and its text.
fn pages(mut command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    command.build();
    let mut pages = Vec::new();
    of_command(command, "steppe", &mut pages)?;
    pages.push(("steppe.toml.5".to_owned(), config::manual().into_bytes()));
    Ok(pages)
}

/// The page of a command, and those of the commands below it, which it names.
fn of_command(command: Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let subcommands: Vec<_> = command.get_subcommands().cloned().collect();
    pages.push((format!("{name}.1"), page(command, name)?));
    for subcommand in subcommands {
        let name = format!("{name}-{}", subcommand.get_name());
        of_command(subcommand, &name, pages)?;
    }
    Ok(())
}

fn page(command: Command, name: &str) -> io::Result<Vec<u8>> {
    // `after_help` is laid out by hand: refilled, its examples would run into each other.
    let extra = command.get_after_help().map(ToString::to_string);
    let command = command
        .display_name(name.to_owned())
        .after_help(None::<&str>);
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command)
        .manual("Steppe")
        .source("steppe");
    man.render(&mut page)?;
    if let Some(text) = extra {
        page.extend(config::manual::verbatim("EXAMPLES", &text).into_bytes());
    }
    page.extend(config::manual::see_also(name).into_bytes());
    Ok(page)
}
