//! `steppe check`: reports everything that would keep a node from starting.
//!
//! Invariant: a configuration that `steppe run` refuses is refused here, on this machine or for another one: by its
//! text, by things that it names and this machine lacks, and by the memory, with the same sums. A port in use is a
//! note: the running node may hold it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use steppe_config::sources::Sources;
use steppe_dns::{FilesError, WhyLeftOut, check_files, measure_files};
use steppe_http::gateway::LoadedFiles;
use steppe_mem::Budget;

use super::code::Code;
use super::console::{complain, load_checked, print, say};
use crate::admin::Token;
use crate::config::{self, Checks, Config, Machine, Objection};
use crate::container::{LimitSource, MemoryLimit, memory_limit};
use crate::needs::{self, Needs};

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Configuration, TOML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Leaves out what belongs to the machine: files that are named, folders, addresses, ports, and
    /// its memory
    #[arg(long)]
    offline: bool,
    /// Number of workers, instead of those that this machine would run: prints what is reserved
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Memory of the machine or container, such as 512MiB, instead of this one's: prints what is
    /// reserved
    #[arg(long, value_name = "SIZE", value_parser = config::size)]
    memory: Option<u64>,
    /// Prints every setting in force, secrets masked, and the file and line that it comes from
    #[arg(long)]
    effective: bool,
}

pub(super) const HELP: &str = "\
Examples:
  steppe check steppe.toml && steppe run -c steppe.toml
  steppe check steppe.toml --offline
  steppe check steppe.toml --workers 16 --memory 512MiB
  steppe check steppe.toml --effective | grep -v default

All errors are reported at once, by line: of the text, and of what this machine lacks of it, such as
files, folders and addresses. A port in use is a note, since the running node may hold it. A file
whose node could not start for want of memory is refused with the sum of what it reserves before it
serves.

Exit codes: 0 if a node could start, warnings and notes included; 1 if there is an error, or the file
can't be read; 2 if the command line is wrong.";

/// The reason of a refusal, as a message.
type Refused = String;

pub(super) fn run(options: &Check) -> ExitCode {
    let limit = limit(options);
    let checks = Checks {
        limit,
        machine: (!options.offline).then_some(Machine { read_token }),
        judge: &|config| objection(config, limit, options.workers),
    };
    let outcome = match load_checked(&options.file, &checks) {
        Ok(outcome) => outcome,
        Err(code) => return code.into(),
    };
    complain(&outcome.report);
    let Some(config) = outcome.config else {
        return Code::Configuration.into();
    };
    let file = options.file.display();
    let checked = match options.offline {
        true => Ok(fixed(&config, limit, options.workers)),
        false => files(options, &config, limit),
    };
    match checked {
        Err(refused) => {
            say(&format!("{file}: {refused}\n"));
            Code::Configuration.into()
        }
        Ok(needs) => {
            let is_asked = options.workers.is_some() || options.memory.is_some();
            let needs = needs.filter(|_| is_asked);
            let sum = needs.map_or(String::new(), |needs| format!("{needs}\n"));
            if options.effective {
                return print(&effective(&config, &outcome.files));
            }
            print(&format!("{file}: ok: {}\n{sum}", summary(&config)))
        }
    }
}

/// The memory of the machine that the file is for; `None`: unknown, which `run` reports.
fn limit(options: &Check) -> Option<MemoryLimit> {
    match options.memory {
        Some(bytes) => Some(MemoryLimit {
            bytes,
            source: LimitSource::Given,
        }),
        None if options.offline => None,
        None => memory_limit().ok(),
    }
}

fn read_token(path: &Path) -> Result<(), String> {
    let token = Token::read(path).map_err(|error| error.to_string());
    token.map(|_| ())
}

/// The memory that is reserved for any content of files; `None`: the budget is unknown.
fn fixed(config: &Config, limit: Option<MemoryLimit>, workers: Option<u16>) -> Option<Needs> {
    let budget_bytes = config.node.memory_budget.bytes(limit?).ok()?;
    let workers = match workers {
        Some(count) => usize::from(count),
        None => needs::workers(config, budget_bytes, needs::cpus()),
    };
    Some(Needs::fixed(config, budget_bytes, workers))
}

fn objection(
    config: &Config,
    limit: Option<MemoryLimit>,
    workers: Option<u16>,
) -> Option<Objection> {
    let refused = fixed(config, limit, workers)?.fit().err()?;
    let (message, help) = refused.message_and_help();
    Some(Objection { message, help })
}

/// Reads the files of a valid configuration whole, as a start does.
#[expect(
    clippy::disallowed_methods,
    reason = "files of TLS are read as at a start"
)]
fn files(
    options: &Check,
    config: &Config,
    limit: Option<MemoryLimit>,
) -> Result<Option<Needs>, Refused> {
    // A certificate that can't be used is found now, not after the reload.
    let outdated = LoadedFiles::check(&config.http, Instant::now());
    for each in outdated.map_err(|error| format!("{}: {error}", error.key))? {
        say(&format!("{}: warning: {each}\n", options.file.display()));
    }
    memory(config, limit, options.workers)
}

/// Reads lists and hosts as a start does. Returns the reserved memory; `None`: the budget is unknown.
fn memory(
    config: &Config,
    limit: Option<MemoryLimit>,
    workers: Option<u16>,
) -> Result<Option<Needs>, Refused> {
    let text = |(key, error): (&str, FilesError)| format!("{key}: {error}");
    let Some(needs) = fixed(config, limit, workers) else {
        return measure_files(&config.dns).map(|_| None).map_err(text);
    };
    let whole = |needs: Needs| match measure_files(&config.dns) {
        Ok(files) => needs.with_files(&files),
        Err(_) => needs,
    };
    let budget = Budget::new(needs.budget_bytes());
    let fixed = usize::try_from(needs.bytes()).unwrap_or(usize::MAX);
    let Ok(_fixed) = budget.root().lease().try_reserve(fixed) else {
        return Err(whole(needs).refused().to_string());
    };
    match check_files(&config.dns, budget.root()) {
        Ok(files) => {
            let left_out = files.left_out.iter();
            for (list, path, why) in left_out.filter(|(.., why)| *why != WhyLeftOut::NotFetched) {
                say(&format!(
                    "warning: list {list}: {}: {why}, a start leaves it out\n",
                    path.display()
                ));
            }
            Ok(Some(needs.with_files(&files)))
        }
        Err((_, FilesError::Budget(_))) => Err(whole(needs).refused().to_string()),
        Err(other) => Err(text(other)),
    }
}

/// Every setting in a line, with its place behind it.
fn effective(config: &Config, files: &Sources<'_>) -> String {
    let settings = config.settings();
    let lines = settings.iter().map(|setting| {
        let place = setting.place.map(|span| files.place(span.start));
        let place = place.map_or("default".to_owned(), |place| place.to_string());
        format!("{} = {}  # {place}\n", setting.key, setting.value)
    });
    lines.collect()
}

/// Listeners, routes, rules, upstreams and budget in one line.
fn summary(config: &Config) -> String {
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    let (http, dns) = (&config.http, &config.dns);
    let addresses = http.listeners.iter().map(|each| each.address.to_string());
    let forwarder = dns.listeners.iter().map(|each| each.address.to_string());
    let addresses: Vec<_> = addresses.chain(forwarder).collect();
    let rules = match dns.rules.len() {
        0 => String::new(),
        rules => format!("{}, ", count(rules, "rule")),
    };
    format!(
        "{} ({}), {}, {rules}{}, memory budget {}",
        count(addresses.len(), "listener"),
        addresses.join(", "),
        count(http.routes.len(), "route"),
        count(http.upstreams.len() + dns.upstreams.len(), "upstream"),
        config.node.memory_budget,
    )
}
