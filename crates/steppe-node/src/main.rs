//! The binary `steppe`.

use std::process::ExitCode;

fn main() -> ExitCode {
    steppe_node::cli::main(|_options| anyhow::bail!("the node is not part of this build"))
}
