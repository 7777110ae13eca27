//! The binary `steppe`.

use std::process::ExitCode;

fn main() -> ExitCode {
    steppe_node::cli::main(steppe_node::node::run)
}
