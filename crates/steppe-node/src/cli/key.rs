//! `steppe key`: keys for the clients of an `api-keys` filter.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use steppe_http::field::is_token;
use steppe_http::filter::NewKey;
use steppe_http::limits::API_KEY_NAME_BYTES_MAX;

use super::console::print;

#[derive(Debug, Args)]
pub(super) struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a key, and prints it and its line for the file of keys
    #[command(after_help = NEW_HELP)]
    New(New),
}

#[derive(Debug, Args)]
struct New {
    /// Name of the client; without it, one made of the key's hash
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
}

pub(super) const HELP: &str = "\
Examples:
  steppe key new --name ci";

const NEW_HELP: &str = "\
Examples:
  steppe key new --name ci
  steppe key new --name ci | tee /dev/tty | tail -n 1 >> api-keys

The first line is the key, 256 random bits. It is shown once: give it to its client. The second line is for the file
that `keys_file` of an `api-keys` filter names; a node does not need the key itself.";

pub(super) fn run(key: Key) -> ExitCode {
    let Command::New(New { name }) = key.command;
    let NewKey { text, hash } = NewKey::generate();
    let name = name.unwrap_or_else(|| format!("key-{}", &hash[..8]));
    print(&format!("{text}\n{name} {hash}\n"))
}

fn name(text: &str) -> Result<String, String> {
    match is_token(text.as_bytes()) && text.len() <= API_KEY_NAME_BYTES_MAX {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a name consists of 1 to {API_KEY_NAME_BYTES_MAX} letters, digits and !#$%&'*+-.^_`|~"
        )),
    }
}
