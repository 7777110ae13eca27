//! `steppe init`: a first configuration for a job.
//!
//! Invariant: each file is a valid configuration as it stands, in the layout of `steppe fmt`; an existing file is not
//! overwritten.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};

use super::code::Code;
use super::console::{print, say};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("job").required(true))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag for each job, of which the command line has one"
)]
pub(super) struct Init {
    /// A proxy in front of a server, with a host name
    #[arg(long, group = "job")]
    proxy: bool,
    /// A static site
    #[arg(long, group = "job")]
    site: bool,
    /// DNS for a home: names of devices, block lists, an encrypted upstream
    #[arg(long, group = "job")]
    dns_home: bool,
    /// A DNS cache on each node of a Kubernetes cluster
    #[arg(long, group = "job")]
    dns_kubernetes: bool,
    /// A gateway in front of an inference server: keys, limits, streams
    #[arg(long, group = "job")]
    inference: bool,
    /// A relay of the request plane
    #[arg(long, group = "job")]
    plane: bool,
    /// The file to write; `-` is standard output
    #[arg(value_name = "FILE", default_value = "steppe.toml")]
    file: PathBuf,
}

pub(super) const HELP: &str = "\
Examples:
  steppe init --proxy
  steppe init --dns-home /etc/steppe/steppe.toml
  steppe init --inference - | less

Then: `steppe check steppe.toml`, `steppe run -c steppe.toml`.

Exit codes: 0 if the file was written; 1 if it is there already, or can't be written; 2 if the command
line is wrong.";

impl Init {
    fn text(&self) -> &'static str {
        match self {
            Self { proxy: true, .. } => include_str!("init/proxy.toml"),
            Self { site: true, .. } => include_str!("init/site.toml"),
            Self { dns_home: true, .. } => include_str!("init/dns_home.toml"),
            Self {
                dns_kubernetes: true,
                ..
            } => include_str!("init/dns_kubernetes.toml"),
            Self {
                inference: true, ..
            } => include_str!("init/inference.toml"),
            _ => include_str!("init/plane.toml"),
        }
    }
}

pub(super) fn run(options: &Init) -> ExitCode {
    let text = options.text();
    if options.file.as_os_str() == "-" {
        return print(text);
    }
    let file = options.file.display();
    let written =
        File::create_new(&options.file).and_then(|mut new| new.write_all(text.as_bytes()));
    match written {
        Ok(()) => print(&format!(
            "{file}: written. Next: steppe check {file}, then steppe run -c {file}\n"
        )),
        Err(error) => {
            say(&match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    format!("steppe: {file} is there already, and is left as it is\n")
                }
                _ => format!("steppe: can't write {file}: {error}\n"),
            });
            Code::Configuration.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use steppe_config::format::format;

    use crate::config::read;

    #[test]
    fn each_file_is_valid_and_formatted() {
        let jobs = [
            include_str!("init/proxy.toml"),
            include_str!("init/site.toml"),
            include_str!("init/dns_home.toml"),
            include_str!("init/dns_kubernetes.toml"),
            include_str!("init/inference.toml"),
            include_str!("init/plane.toml"),
        ];
        for text in jobs {
            // The variable has a default.
            let outcome = read("steppe.toml", text);
            assert_eq!(outcome.report.to_string(), "", "{text}");
            assert!(outcome.config.is_some());
            assert_eq!(format("steppe.toml", text).as_deref(), Ok(text));
        }
    }
}
