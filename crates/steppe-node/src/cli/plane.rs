//! `steppe plane`: a client of the request plane, as curl is one of HTTP.

mod bench;
mod call;
mod echo;
mod etcd;
mod memory;
mod tls;
mod wishes;
mod workers;

use std::process::ExitCode;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct Plane {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Calls a service, and prints its response
    #[command(after_help = call::HELP)]
    Call(Box<call::Options>),
    /// Runs a worker that returns the body of each request
    #[command(after_help = echo::HELP)]
    Echo(Box<echo::Options>),
    /// Measures latency, throughput and refusals of a service
    #[command(after_help = bench::HELP)]
    Bench(Box<bench::Options>),
    /// Lists the workers of a running node, or the workers announced in etcd
    #[command(after_help = workers::HELP)]
    Workers(workers::Options),
}

pub(super) const HELP: &str = "\
Examples:
  steppe plane echo --listen 127.0.0.1:7701
  steppe plane call 127.0.0.1:7701 echo --text hello
  steppe plane bench 127.0.0.1:7701 echo --bytes 1000000 --concurrency 96 --requests 1000
  steppe plane workers";

pub(super) fn run(plane: Plane) -> ExitCode {
    match plane.command {
        Command::Call(options) => call::run(&options),
        Command::Echo(options) => echo::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Workers(options) => workers::run(&options),
    }
}
