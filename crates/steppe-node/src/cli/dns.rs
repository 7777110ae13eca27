//! `steppe dns`: commands for the DNS forwarder, and for any DNS server.

mod by_https;
mod explain;
mod flush;
mod query;
mod server;
mod shown;

use std::process::ExitCode;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct Dns {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explains the decision about a name, with its rule and reason
    #[command(after_help = explain::HELP)]
    Explain(explain::Options),
    /// Flushes names from the cache of a running node
    #[command(after_help = flush::HELP)]
    Flush(Box<flush::Options>),
    /// Queries a server over UDP, TCP, TLS or HTTPS
    #[command(after_help = query::HELP)]
    Query(Box<query::Options>),
}

pub(super) const HELP: &str = "\
Examples:
  steppe dns explain ads.example.org
  steppe dns query example.org AAAA @127.0.0.1:5300
  steppe dns flush --suffix example.org";

pub(super) fn run(dns: Dns) -> ExitCode {
    match dns.command {
        Command::Explain(options) => explain::run(&options),
        Command::Flush(options) => flush::run(&options),
        Command::Query(options) => query::run(&options),
    }
}
