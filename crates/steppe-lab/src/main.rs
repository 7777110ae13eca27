//! The command `steppe-lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    steppe_lab::cli::main()
}
