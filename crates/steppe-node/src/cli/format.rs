//! `steppe fmt`: one layout for configuration files.
//!
//! Invariant: a file is replaced as a whole, and only if its layout changes; its content stays, comments included.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use steppe_config::format::{Unformatted, format};
use steppe_config::limits::FILE_BYTES_MAX;
use steppe_config::mistakes::Mistakes;
use steppe_config::read::Source;

use super::code::Code;
use super::console::{complain, is_printed, say};
use crate::config::Report;

#[derive(Debug, Args)]
pub(super) struct Format {
    /// Configuration files, TOML or JSON; `-` formats standard input to standard output
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Changes no file; prints those that would change, and exits with 1 if there are any
    #[arg(long)]
    check: bool,
}

pub(super) const HELP: &str = "\
Examples:
  steppe fmt steppe.toml sites/*.toml
  steppe fmt --check steppe.toml
  steppe fmt - < steppe.toml

Keys are written `key = value` without indentation, with a blank line before each header. Comments
and the order of keys stay as they are, but that `a.b` and `a.c` come together. JSON is written anew.

Exit codes: 0 if all files have the layout now; 1 if a file can't be read, its syntax is wrong,
a comment would be lost, or --check found one that would change; 2 if the command line is wrong.";

pub(super) fn run(options: &Format) -> ExitCode {
    let mut is_done = true;
    for file in &options.files {
        let formatted = match file.as_os_str() == "-" {
            true => standard_input(options),
            false => one(file, options),
        };
        match formatted {
            Ok(has_layout) => is_done &= has_layout,
            Err(why) => {
                say(&why);
                is_done = false;
            }
        }
    }
    match is_done {
        true => Code::Ok.into(),
        false => Code::Configuration.into(),
    }
}

/// Formats a file; true if it has the layout now.
fn one(file: &Path, options: &Format) -> Result<bool, String> {
    let refused = |error: io::Error| format!("steppe: {}: {error}\n", file.display());
    let text = read(File::open(file).map_err(refused)?).map_err(refused)?;
    let Some(formatted) = layout(&file.to_string_lossy(), &text) else {
        return Ok(false);
    };
    if formatted == text {
        return Ok(true);
    }
    if options.check {
        is_printed(&format!("{}\n", file.display()));
        return Ok(false);
    }
    replace(file, &formatted).map_err(refused)?;
    Ok(true)
}

/// Formats standard input to standard output, or judges it; true if it has the layout, or is printed in it.
fn standard_input(options: &Format) -> Result<bool, String> {
    let refused = |error| format!("steppe: standard input: {error}\n");
    let text = read(io::stdin().lock()).map_err(refused)?;
    let Some(formatted) = layout("standard input", &text) else {
        return Ok(false);
    };
    if options.check {
        let has_layout = formatted == text;
        if !has_layout {
            is_printed("-\n");
        }
        return Ok(has_layout);
    }
    Ok(is_printed(&formatted))
}

fn read(file: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)?;
    if text.len() > FILE_BYTES_MAX {
        let why = format!("the file is longer than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}

/// The formatted text; `None`: the mistakes of its syntax were reported.
fn layout(name: &str, text: &str) -> Option<String> {
    let mut mistakes = Mistakes::default();
    let parsed = Source::parse(name, text, &mut mistakes);
    if parsed.is_none() || !mistakes.is_empty() {
        complain(&Report::new(name, text, mistakes));
        return None;
    }
    match format(name, text) {
        Ok(formatted) => Some(formatted),
        Err(Unformatted::Comment) => {
            let place = "between a key and its value, or in a dotted key of an inline table";
            say(&format!(
                "steppe: {name}: a comment stands {place}, where formatting would lose it: move it above\n"
            ));
            None
        }
        Err(Unformatted::Syntax) => {
            say(&format!("steppe: {name}: its syntax is wrong\n"));
            None
        }
    }
}

/// Replaces a file's text as a whole; a link stays, and the file that it leads to is replaced.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    let of_file = fs::metadata(&file)?;
    let mut draft = file.clone().into_os_string();
    draft.push(".formatted");
    let draft = PathBuf::from(draft);
    let mut written = File::create_new(&draft)?;
    // With another owner, the file might be unreadable for its user, or writable for others.
    let (user, group) = (Some(of_file.uid()), Some(of_file.gid()));
    let replaced = fchown(&written, user, group)
        .and_then(|()| written.set_permissions(of_file.permissions()))
        .and_then(|()| written.write_all(text.as_bytes()))
        .and_then(|()| written.sync_all())
        .and_then(|()| fs::rename(&draft, &file));
    if replaced.is_err() {
        // The file is as it was: a draft that stays is reported by the next run.
        _ = fs::remove_file(&draft);
    }
    replaced
}
