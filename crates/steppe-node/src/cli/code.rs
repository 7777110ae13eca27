//! The exit codes of `steppe`.

use std::process::ExitCode;

/// Exit codes, the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The configuration is invalid or can't be read.
    Configuration = 1,
    /// The command line is wrong, or there is no certificate to show.
    Usage = 2,
    /// The node could not start.
    Start = 3,
    /// The node stopped, and dropped connections that did not end within `drain_timeout`.
    Dropped = 4,
    /// No node answers, or the answer is not that of a node.
    NoAnswer = 5,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}
