//! `steppe dns flush`: removes responses from the cache of a running node.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use hyper::Method;
use serde_json::Value;
use steppe_dns::wire::Name;

use crate::admin_client::Target;
use crate::cli::code::Code;
use crate::cli::console::{print, say};

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    what: What,
    /// The node's admin address, http://HOST:PORT, https://HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "http://127.0.0.1:9900")]
    admin: String,
    /// File with CA certificates (PEM) for https, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File with the admin token, if the node has `admin.token_file`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// Flushes the responses of every type for this name
    name: Option<Name>,
    /// Flushes this name and all names below it
    #[arg(long, value_name = "NAME")]
    suffix: Option<Name>,
    /// Flushes the whole cache
    #[arg(long)]
    all: bool,
}

pub(super) const HELP: &str = "\
Examples:
  steppe dns flush www.example.org
  steppe dns flush --suffix example.org
  steppe dns flush --all --admin unix:/run/steppe/admin.sock

Prints the number of flushed responses.";

pub(super) fn run(options: &Options) -> ExitCode {
    match forgotten(options) {
        Ok(count) => print(&format!("{count}\n")),
        Err(error) => {
            say(&format!("steppe: {error:#}\n"));
            Code::NoAnswer.into()
        }
    }
}

fn forgotten(options: &Options) -> anyhow::Result<u64> {
    let target = Target::new(
        &options.admin,
        options.ca.as_deref(),
        options.token_file.as_deref(),
    )?;
    let answer = target.ask_for_text(Method::POST, &options.what.path())?;
    let answer: Value = serde_json::from_str(&answer).context("not a response of a Steppe node")?;
    let forgotten = answer["forgotten"].as_u64();
    forgotten.context("not a response of a Steppe node")
}

impl What {
    fn path(&self) -> String {
        match (&self.name, &self.suffix) {
            (Some(name), _) => format!("/dns/flush/name/{}", escaped(name)),
            (None, Some(suffix)) => format!("/dns/flush/suffix/{}", escaped(suffix)),
            (None, None) => "/dns/flush".to_owned(),
        }
    }
}

/// A name as a part of a path: RFC 3986 §2.1.
fn escaped(name: &Name) -> String {
    let mut text = String::new();
    for byte in name.to_string().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(byte)),
            _ => write!(text, "%{byte:02X}").expect("a string takes it"),
        }
    }
    text
}
