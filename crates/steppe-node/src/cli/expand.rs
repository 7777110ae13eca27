//! `steppe expand`: the long form of a configuration, without sites.
//!
//! Invariant: reading the output gives the same configuration as the file. Left out: checks of the machine, so that a
//! file for another one can be expanded.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::code::Code;
use super::console::{complain, load_expanded, print};

#[derive(Debug, Args)]
pub(super) struct Expand {
    /// Configuration, TOML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) const HELP: &str = "\
Examples:
  steppe expand steppe.toml
  steppe expand steppe.toml > long.toml && steppe check long.toml

It prints TOML, one file with what it includes. Tables beside the sites are printed as they are, without comments, and
placeholders as they were written. Relative paths are left as they are: keep the output in the folder of the file. Those of
included files become absolute.

Exit codes: 0 if the file is valid, warnings included; 1 if there is an error, or the file can't be read; 2 if the
command line is wrong.";

pub(super) fn run(options: &Expand) -> ExitCode {
    let (outcome, expanded) = match load_expanded(&options.file) {
        Ok(loaded) => loaded,
        Err(code) => return code.into(),
    };
    complain(&outcome.report);
    match expanded {
        Some(text) => print(&text),
        None => Code::Configuration.into(),
    }
}
