//! Standard output and standard error of commands.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use super::code::Code;
use crate::config::{self, Checks, Drawing, Outcome, Report};

/// Reads a configuration file, or reports why it cannot be read.
pub(super) fn load(path: &Path) -> Result<Outcome, Code> {
    config::load(path).map_err(|error| unreadable(path, &error))
}

/// The same as [`load`], for `steppe check`.
pub(super) fn load_checked(path: &Path, checks: &Checks<'_>) -> Result<Outcome, Code> {
    config::load_checked(path, checks).map_err(|error| unreadable(path, &error))
}

/// The same as [`load`], for `steppe expand`, with the long form.
pub(super) fn load_expanded(path: &Path) -> Result<(Outcome, Option<String>), Code> {
    config::load_expanded(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Code {
    say(&format!("steppe: can't read {}: {error}\n", path.display()));
    Code::Configuration
}

/// Writes the mistakes of a configuration to standard error.
pub(super) fn complain(report: &Report) {
    let is_colored = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let drawing = match is_colored {
        true => Drawing::Color,
        false => Drawing::Plain,
    };
    say(&report.render(drawing));
}

/// Writes to standard error.
pub(super) fn say(text: &str) {
    // Standard error may be closed; there is no other output.
    _ = io::stderr().write_all(text.as_bytes());
}

/// Writes a message of the running node to standard output. A reader that has left, or a full disk,
/// is no reason for the node to stop.
pub(crate) fn announce(text: &str) {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    if let Err(error) = written.and_then(|()| output.flush()) {
        tracing::debug!(%error, "cannot write to standard output");
    }
}

/// Writes the output of a command. Returns the exit code: whether that worked.
pub(super) fn print(text: &str) -> ExitCode {
    match is_printed(text) {
        true => Code::Ok.into(),
        false => ExitCode::FAILURE,
    }
}

/// Prints to standard output; false, and a message, where that fails.
pub(super) fn is_printed(text: &str) -> bool {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    match written.and_then(|()| output.flush()) {
        Ok(()) => true,
        // A closed pipe is no error (`steppe schema | head`): the reader has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
        Err(error) => {
            say(&format!(
                "steppe: can't write to standard output: {error}\n"
            ));
            false
        }
    }
}
