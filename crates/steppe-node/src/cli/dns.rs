//! `steppe dns`: what people do with the DNS forwarder, and ask of any server.

mod explain;

use std::process::ExitCode;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct Dns {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says what decides about a name, why, and where that stands
    #[command(after_help = explain::HELP)]
    Explain(explain::Options),
}

pub(super) const HELP: &str = "\
Examples:
  steppe dns explain ads.example.org";

pub(super) fn run(dns: Dns) -> ExitCode {
    match dns.command {
        Command::Explain(options) => explain::run(&options),
    }
}
