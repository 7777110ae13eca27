//! Options of commands that explain a configuration: its file, and the output format.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Source {
    /// Configuration of the node
    #[arg(
        short,
        long = "config",
        value_name = "FILE",
        default_value = "/etc/steppe/steppe.toml"
    )]
    pub(super) config: PathBuf,
    /// Prints JSON
    #[arg(long)]
    pub(super) json: bool,
}
