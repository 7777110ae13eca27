//! The command line of `steppe`.
//!
//! Invariant: the requested output goes to standard output, everything else to standard error, and
//! the exit code is one of [`Code`]. Left out: running the node, which the caller of [`main`] does.

mod cert;
mod check;
mod code;
mod console;
mod dns;
mod expand;
mod explain;
mod format;
mod health;
mod init;
mod key;
mod manual;
mod plane;
#[cfg(test)]
mod reference;
mod source;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::allocator;
use crate::config::{self, Amendments, Config, Origin, Outcome};
use crate::demo::Certificate;
use crate::top;
use console::{complain, load, print, say};

pub use code::Code;
pub(crate) use console::announce;

/// The input of `steppe run`.
#[derive(Debug)]
pub struct RunOptions {
    /// A valid configuration.
    pub config: Config,
    /// The configuration's file; `None`: the embedded default.
    pub file: Option<PathBuf>,
    /// All files of the configuration, with their state at the time of reading.
    pub origin: Origin,
    /// The certificate that the embedded default serves https with.
    pub certificate: Option<Certificate>,
}

impl RunOptions {
    /// True if the embedded default runs, which includes the demo origin.
    pub fn is_default(&self) -> bool {
        self.file.is_none()
    }
}

/// An edge node whose memory stays flat.
#[derive(Debug, Parser)]
#[command(
    name = "steppe",
    version = version(),
    after_help = AFTER_HELP,
    max_term_width = 100,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts the node
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// Checks a configuration, and reports every error
    #[command(after_help = check::HELP)]
    Check(check::Check),
    /// Writes a first configuration for a job
    #[command(after_help = init::HELP)]
    Init(init::Init),
    /// Formats configuration files
    #[command(after_help = format::HELP)]
    Fmt(format::Format),
    /// Checks whether a running node is ready
    #[command(after_help = health::HELP)]
    Health(health::Health),
    /// Shows the certificates of a file or a server, and their problems
    #[command(after_help = cert::HELP)]
    Cert(cert::Cert),
    /// Queries DNS servers, explains decisions about names, and flushes a node's cache
    #[command(after_help = dns::HELP)]
    Dns(dns::Dns),
    /// Explains which route matches a request, and which filters and rules decide about it
    #[command(after_help = explain::HELP)]
    Explain(Box<explain::Options>),
    /// Makes keys for the clients of an `api-keys` filter
    #[command(after_help = key::HELP)]
    Key(key::Key),
    /// Prints a configuration with its sites as listeners, upstreams, filters and routes
    #[command(after_help = expand::HELP)]
    Expand(expand::Expand),
    /// Calls, serves and measures services of the request plane
    #[command(after_help = plane::HELP)]
    Plane(plane::Plane),
    /// Prints the JSON Schema of the configuration, for editors
    #[command(after_help = SCHEMA_HELP)]
    Schema,
    /// Shows a running node, live
    #[command(after_help = TOP_HELP)]
    Top(Top),
    /// Prints completions for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Writes the manual pages
    #[command(name = "man", after_help = manual::HELP)]
    Manual(manual::Manual),
    /// Prints version, target and allocator
    Version,
}

#[derive(Debug, Args)]
struct Run {
    /// Configuration, TOML or JSON; without it, an embedded one with a demo origin
    #[arg(short, long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    ports: Ports,
}

/// Other ports for the embedded configuration, where the usual ones are taken.
#[derive(Debug, Args)]
struct Ports {
    /// Address of the gateway, instead of 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    listen: Option<SocketAddr>,
    /// Address of the gateway over HTTPS, instead of 127.0.0.1:8443
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    listen_tls: Option<SocketAddr>,
    /// Address of the DNS forwarder, instead of 127.0.0.1:5300
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    listen_dns: Option<SocketAddr>,
    /// Address of admin, instead of 127.0.0.1:9900
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    admin: Option<SocketAddr>,
    /// Address of the demo origin, instead of 127.0.0.1:8081
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    demo: Option<SocketAddr>,
}

impl Ports {
    /// Reads the embedded default with these addresses, and makes its certificate.
    fn embedded(self) -> (Outcome, Option<Certificate>) {
        let made = Certificate::make().inspect_err(|error| {
            let problem = "cannot write a certificate: the demo starts without HTTPS";
            say(&format!("steppe: {problem}: {error}\n"));
        });
        let certificate = made.ok();
        let files = certificate.as_ref();
        let outcome = config::embedded(&Amendments {
            listen: self.listen,
            listen_tls: self.listen_tls,
            listen_dns: self.listen_dns,
            admin: self.admin,
            demo: self.demo,
            certificate: files.map(|made| [made.cert(), made.key()]),
        });
        (outcome, certificate)
    }
}

#[derive(Debug, Args)]
struct Top {
    /// The node's admin address, http://HOST:PORT, https://HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "http://127.0.0.1:9900")]
    admin: String,
    /// File with CA certificates (PEM) for https, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File with the admin token, if the node has `admin.token_file`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Prints one snapshot and exits; the default if standard output is not a terminal
    #[arg(long)]
    once: bool,
}

const AFTER_HELP: &str = "\
Examples:
  steppe run                      the embedded default: gateway on 127.0.0.1:8080 and :8443,
                                  DNS on :5300, admin on :9900
  steppe init --proxy             a first configuration of your own
  steppe run -c steppe.toml       start with it
  steppe check steppe.toml        all errors of a configuration, at once
  steppe fmt steppe.toml          one layout for configuration files
  steppe expand steppe.toml       the long form of its sites
  steppe top                      a running node, live
  steppe cert example.com         the certificates of a server, and their problems
  steppe explain GET http://a.example/x
                                  the route of a request, and the rule that decides about it
  steppe dns explain example.com  the decision of the DNS forwarder about a name, and its reason
  steppe dns query example.com    the response of a DNS server, over UDP, TCP, TLS or HTTPS
  steppe plane call 127.0.0.1:7700 echo --text hello
                                  the response of a service of the request plane
  steppe schema > schema.json     the JSON Schema, for completion and hints in an editor

Exit codes:
  0  done
  1  the configuration is invalid or can't be read; for `health`, the node is not ready;
     for `cert`, clients refuse the certificate
  2  the command line is wrong; for `cert`, there is no certificate to show
  3  the node could not start
  4  the node stopped, and connections that did not end in time were dropped
  5  no node responds
 11  and above, for `plane call`: the call ended with another status than ok (see its help)";

const TOP_HELP: &str = "\
Examples:
  steppe top
  steppe top --admin unix:/run/steppe/admin.sock
  steppe top --admin http://127.0.0.1:9900 --token-file admin.token --once
  steppe top --admin https://node.example:9900 --ca ca.crt --token-file admin.token

Keys: q quits, s sorts accounts, arrows scroll, ? helps.";

const RUN_HELP: &str = "\
Examples:
  steppe run
  steppe run --listen 127.0.0.1:8090 --admin 127.0.0.1:9990
  steppe run -c /etc/steppe/steppe.toml

Relative paths in the configuration are relative to its folder. SIGTERM and Ctrl-C drain the node.";

const SCHEMA_HELP: &str = "\
Examples:
  steppe schema > steppe.schema.json

Editors that support it read the schema named in the first line of steppe.toml:
  #:schema ./steppe.schema.json";

const COMPLETIONS_HELP: &str = "\
Examples:
  steppe completions bash > ~/.local/share/bash-completion/completions/steppe";

/// Reads the command line of the process and runs its command; `run` starts the node and returns
/// its exit code once it has stopped.
pub fn main(run: impl FnOnce(RunOptions) -> anyhow::Result<ExitCode>) -> ExitCode {
    main_with(std::env::args_os(), run)
}

/// [`main`] with a command line of the caller's, the program's name first.
pub fn main_with(
    args: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(RunOptions) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            if !error.use_stderr() {
                return print(&error.render().to_string());
            }
            // Standard error may be closed: no other place is left to write to.
            _ = error.print();
            return Code::Usage.into();
        }
    };
    match cli.command {
        Command::Run(options) => self::run(options, run),
        Command::Check(options) => check::run(&options),
        Command::Init(options) => init::run(&options),
        Command::Fmt(options) => format::run(&options),
        Command::Health(options) => health::run(options),
        Command::Cert(options) => cert::run(&options),
        Command::Dns(dns) => self::dns::run(dns),
        Command::Explain(options) => explain::run(&options),
        Command::Key(key) => self::key::run(key),
        Command::Expand(options) => expand::run(&options),
        Command::Plane(plane) => self::plane::run(plane),
        Command::Schema => print(&format!("{:#}\n", config::schema())),
        Command::Top(options) => top(options),
        Command::Completions { shell } => completions(shell),
        Command::Manual(options) => manual::run(&options, Cli::command()),
        Command::Version => print(&format!("steppe {}\n", version())),
    }
}

fn run(options: Run, run: impl FnOnce(RunOptions) -> anyhow::Result<ExitCode>) -> ExitCode {
    let file = options.config;
    let (outcome, certificate) = match &file {
        None => options.ports.embedded(),
        Some(path) => match load(path) {
            Ok(outcome) => (outcome, None),
            Err(code) => return code.into(),
        },
    };
    complain(&outcome.report);
    let Some(config) = outcome.config else {
        return Code::Configuration.into();
    };
    let placed = outcome.files.placed;
    let options = RunOptions {
        config,
        file,
        origin: outcome.origin,
        certificate,
    };
    run(options).unwrap_or_else(|error| {
        let error = format!("steppe: {error:#}\n");
        say(&placed.redactor_of_files().redacted(&error));
        Code::Start.into()
    })
}

fn top(options: Top) -> ExitCode {
    let options = top::Options {
        admin: options.admin,
        ca: options.ca,
        token_file: options.token_file,
        once: options.once,
    };
    match top::run(&options) {
        Ok(()) => Code::Ok.into(),
        Err(error) => {
            say(&format!("steppe: {error:#}\n"));
            Code::NoAnswer.into()
        }
    }
}

fn completions(shell: Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "steppe", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Version, target and allocator.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let environment = match () {
            () if cfg!(target_env = "gnu") => "-gnu",
            () if cfg!(target_env = "musl") => "-musl",
            () => "",
        };
        format!(
            "{} ({}-{}{environment}, alloc-{})",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::ARCH,
            std::env::consts::OS,
            allocator::NAME
        )
    });
    &VERSION
}
