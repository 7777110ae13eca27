//! One file of configuration: TOML, or JSON with the same keys.
//!
//! Invariant: a [`Config`] is valid as it stands; nothing validates it again, and no key of its
//! file was ignored. A file with mistakes gives a [`Report`] of all of them. Every key is described
//! once, in `keys`: the reader, its suggestions, the [`schema`], the [`manual`](manual()) and
//! `/config` follow from there.
//!
//! Non-goals: what only the machine can tell (whether an address can be bound), but for folders that
//! are served and the memory that there is, which [`load`] looks at; and the contents of the files
//! that a configuration names.

mod amend;
mod budget;
mod build;
mod check;
mod forms;
mod keys;
pub mod limits;
mod machine;
pub mod manual;
#[cfg(test)]
pub(crate) mod reference;
mod typed;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use ipnet::IpNet;
use steppe_config::form::Refusal;
use steppe_config::limits::FILE_BYTES_MAX;
use steppe_config::mistakes::Mistakes;
use steppe_config::read;
use steppe_config::typed::{Fields, Named, Typed};
use steppe_config::units::{self, percent_text, size_text};
use steppe_dns::config::{Forwarder, keys as dns};
use steppe_http::access::AccessFormat;
use steppe_http::config::Gateway;
use steppe_http::config::keys::authorize;
use steppe_http::config::keys::route::{CLIENT_CERT, HEADERS, METHODS, QUERY};
use steppe_http::router::Unmet;
use steppe_net::ListenAddress;
use steppe_net::tls::config::CertificateFiles;
use steppe_plane::config::Plane;
use steppe_telemetry::Destination;

use crate::container::{MemoryLimit, memory_limit};
use keys::ROOT;

pub use self::budget::{BudgetError, share_of};
pub use self::machine::Machine;
pub use self::manual::manual;
pub use steppe_config::mistake::{Mistake, Span};
pub use steppe_config::report::{Drawing, Report};

/// The configuration of `steppe run` without a file.
pub const DEFAULT: &str = include_str!("default.toml");

/// The name of [`DEFAULT`] in reports.
pub const DEFAULT_NAME: &str = "default.toml";

/// A whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[node]`.
    pub node: Node,
    /// `[admin]`; `None`: there is no admin endpoint.
    pub admin: Option<Admin>,
    /// `[log]`.
    pub log: Log,
    /// `[trace]`; `None`: there are no traces.
    pub trace: Option<Trace>,
    /// `[http]`.
    pub http: Gateway,
    /// `[dns]`.
    pub dns: Forwarder,
    /// `[plane]` and `[discovery]`.
    pub plane: Plane,
    /// The values that all of this was built from, which `/config` prints.
    file: Fields,
}

/// `[node]`: threads and memory of the process.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Worker threads.
    pub workers: Workers,
    /// Memory for serving.
    pub memory_budget: MemoryBudget,
    /// The share of it that a client may hold while less than half is free, above 0 and at most 1; `None`: all.
    pub client_share: Option<f64>,
    /// Clients without a share.
    pub share_exempt: Vec<IpNet>,
    /// Time for which exchanges may go on after the node is told to stop.
    pub drain_timeout: Duration,
}

/// Worker threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// As many as the CPU quota allows.
    Auto,
    /// Just so many.
    Count(NonZeroUsize),
}

/// The part of the memory that serving may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryBudget {
    /// At least [`limits::MEMORY_BUDGET_MIN`].
    Bytes(u64),
    /// Above 0 and at most 1: of the container's limit, else of the machine.
    Share(f64),
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Bytes(bytes) => size_text(*bytes),
            Self::Share(share) => percent_text(*share),
        })
    }
}

/// `[admin]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens: loopback or a Unix socket unless there is a token.
    pub listen: ListenAddress,
    /// The file that holds the token.
    pub token_file: Option<PathBuf>,
    /// Where `/healthz` and `/readyz` stand alone.
    pub probes: Option<ListenAddress>,
    /// The certificate of `listen`. `None`: without TLS.
    pub tls: Option<CertificateFiles>,
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The least severe level that is logged.
    pub level: LogLevel,
    /// Format of a line.
    pub format: LogFormat,
    /// A line for each exchange. `None`: off.
    pub access: Option<Access>,
}

/// `log.access`: a line for each exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Where lines go.
    pub destination: Destination,
    /// Their format.
    pub format: AccessFormat,
}

/// `[trace]`: where spans are sent, and of which requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The collector's URL.
    pub otlp: String,
    /// Of the traces that begin here: above 0, at most 1.
    pub sample: f64,
}

/// Severity of a line, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is not as it should be.
    Warn,
    /// Actions of the node.
    Info,
    /// Details of these actions.
    Debug,
}

/// Format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// The schema of a configuration, for editors.
#[must_use]
pub fn schema() -> serde_json::Value {
    steppe_config::schema::schema("Steppe", &ROOT)
}

impl Config {
    /// Every setting in force, as JSON with the keys of the file.
    #[must_use]
    pub fn effective(&self) -> serde_json::Value {
        steppe_config::effective::effective(&self.file)
    }

    /// Where a rule of the forwarder stands, by its number from 0: the first byte of its table.
    #[must_use]
    pub fn dns_rule_at(&self, number: usize) -> Option<usize> {
        Some(self.dns_rule(number)?.span.start)
    }

    /// A rule of the forwarder as the file has it, by its number from 0.
    pub(crate) fn dns_rule(&self, number: usize) -> Option<&Fields> {
        let rules = self.file.table("dns")?.items(&dns::RULE);
        rules.get(number)?.fields()
    }

    /// Where a route of the gateway stands, by its number from 0.
    #[must_use]
    pub fn route_at(&self, number: usize) -> Option<usize> {
        let routes = self.file.table("http")?.list("route");
        Some(routes.get(number)?.span.start)
    }

    /// The key of a condition of a route, by the route's number from 0, and where it stands.
    #[must_use]
    pub fn condition_at(&self, route: usize, condition: Unmet) -> Option<(String, usize)> {
        let routes = self.file.table("http")?.list("route");
        let fields = routes.get(route)?.fields()?;
        let of_key = |key: &str| Some((key.to_owned(), fields.given(key)?.start));
        let of_map = |map, number| {
            let entry: &Named = fields.map(map).get(number)?;
            Some((format!("{map}.{}", entry.name), entry.span.start))
        };
        match condition {
            Unmet::Listener => None,
            Unmet::Method => of_key(METHODS.spec.name),
            Unmet::Header(number) => of_map(HEADERS.spec.name, number),
            Unmet::Query(number) => of_map(QUERY.spec.name, number),
            Unmet::ClientCert => of_key(CLIENT_CERT.spec.name),
        }
    }

    /// The kind of a filter of this name.
    #[must_use]
    pub fn filter_kind(&self, filter: &str) -> Option<&'static str> {
        Some(self.filter(filter)?.0)
    }

    /// Where a rule of an `authorize` filter stands, by its number from 0.
    #[must_use]
    pub fn rule_at(&self, filter: &str, number: usize) -> Option<usize> {
        let rules = self.filter(filter)?.1.items(&authorize::RULES);
        Some(rules.get(number)?.span.start)
    }

    fn filter(&self, name: &str) -> Option<(&'static str, &Fields)> {
        let filters = self.file.table("http")?.map("filter");
        let entry = filters.iter().find(|entry| entry.name == name)?;
        match &entry.value.typed {
            Typed::Variant { name, fields, .. } => Some((name, fields)),
            _ => None,
        }
    }
}

/// Reads a type of DNS records as the configuration writes it, such as `AAAA` or `TYPE65`.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn dns_type(text: &str) -> Result<steppe_dns::wire::Rtype, String> {
    dns::record_type(text).map_err(Refusal::told)
}

/// The result of reading a file.
#[derive(Debug)]
pub struct Outcome {
    /// `None` when the report has errors.
    pub config: Option<Config>,
    /// Its mistakes; warnings alone leave the configuration usable.
    pub report: Report,
}

/// Reads a configuration, and keeps its warnings.
///
/// `name` is the file's path: reports quote it, and relative paths within count from its folder.
pub fn read(name: &str, text: &str) -> Outcome {
    read_with(name, text, |_, _| {})
}

/// Reads a configuration; `look` adds what the text alone can't tell.
fn read_with(name: &str, text: &str, look: impl FnOnce(&Fields, &mut Mistakes)) -> Outcome {
    let mut mistakes = Mistakes::default();
    let config = read_text(name, text, look, &mut mistakes);
    let report = Report::new(name, text, mistakes);
    let config = config.filter(|_| report.errors() == 0);
    assert!(
        config.is_some() || report.errors() > 0,
        "a configuration is refused with a reason"
    );
    Outcome { config, report }
}

fn read_text(
    name: &str,
    text: &str,
    look: impl FnOnce(&Fields, &mut Mistakes),
    mistakes: &mut Mistakes,
) -> Option<Config> {
    let (tree, file) = read::read((name, text), &ROOT, mistakes)?;
    // What keys say together is unsure where some of them can't be read.
    if !mistakes.is_partial() {
        check::check(&tree, &file, mistakes);
    }
    drop(tree);
    look(&file, mistakes);
    build::config(file).filter(|_| !mistakes.is_partial())
}

/// Reads a duration as the configuration writes it, such as `250ms` or `5s`.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text).map_err(Refusal::told)
}

/// Reads a size as the configuration writes it, such as `64MiB`.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn size(text: &str) -> Result<u64, String> {
    units::size(text).map_err(Refusal::told)
}

/// Reads a configuration; never panics, whatever the text.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Config, Box<Report>> {
    let Outcome { config, report } = read(name, text);
    config.ok_or_else(|| Box::new(report))
}

/// Reads the file at `path`, and looks whether the folders that it serves are there, and the memory.
///
/// # Errors
/// When it can't be read, is longer than [`FILE_BYTES_MAX`], or is not UTF-8. What is wrong with a
/// file that could be read is in the outcome.
pub fn load(path: &Path) -> io::Result<Outcome> {
    load_with(path, |file, mistakes| {
        check::check_folders(file, mistakes);
        // Where the limit is unknown, `run` says so.
        if let Ok(limit) = memory_limit() {
            budget::check(file, limit, mistakes);
        }
    })
}

/// The inputs of `steppe check` beside the text.
pub struct Checks<'a> {
    /// The memory that the budget is held against. `None`: it is unknown.
    pub limit: Option<MemoryLimit>,
    /// Files, folders, addresses and ports. `None`: they belong to another machine.
    pub machine: Option<Machine>,
    /// Judges a configuration that is valid as far as its text goes.
    pub judge: &'a dyn Fn(&Config) -> Option<Objection>,
}

/// A reason against the memory budget of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The problem.
    pub message: String,
    /// A way to mend it.
    pub help: String,
}

/// Reads the file at `path` for `steppe check`.
///
/// # Errors
/// As for [`load`].
pub fn load_checked(path: &Path, checks: &Checks<'_>) -> io::Result<Outcome> {
    load_with(path, |file, mistakes| {
        if let Some(machine) = &checks.machine {
            machine::check(file, machine, mistakes);
        }
        if let Some(limit) = checks.limit {
            budget::check(file, limit, mistakes);
        }
        if let Some(config) = build::config(file.clone())
            && let Some(objection) = (checks.judge)(&config)
        {
            budget::object(file, objection, mistakes);
        }
    })
}

/// Reads the file at `path` for a node that runs: its memory budget is what it started with,
/// whatever became of the machine's limit since, and is not held against that again.
///
/// # Errors
/// As for [`load`].
pub fn load_again(path: &Path) -> io::Result<Outcome> {
    load_with(path, check::check_folders)
}

fn load_with(path: &Path, look: impl FnOnce(&Fields, &mut Mistakes)) -> io::Result<Outcome> {
    use io::Read as _;
    let mut bytes = Vec::new();
    let most = FILE_BYTES_MAX as u64 + 1;
    fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if bytes.len() > FILE_BYTES_MAX {
        return Err(invalid(format!(
            "the file is longer than {FILE_BYTES_MAX} bytes"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| invalid(error.utf8_error().to_string()))?;
    let name = path.to_string_lossy();
    Ok(read_with(&name, &text, look))
}
