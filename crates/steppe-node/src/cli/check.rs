//! `steppe check`: everything that would keep a node from starting, but for ports.
//!
//! Invariant: what `steppe run` refuses for memory is refused here, by the same sums, on this machine or for
//! another one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use steppe_dns::{FilesError, WhyLeftOut, check_files, measure_files};
use steppe_http::gateway::Tls;
use steppe_mem::Budget;

use super::code::Code;
use super::console::{complain, load_for, print, say};
use crate::config::{self, Config};
use crate::container::{LimitSource, MemoryLimit, memory_limit};
use crate::needs::{self, Needs};

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Configuration, TOML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of workers, instead of those that this machine would run: prints what is reserved
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Memory of the machine or container, such as 512MiB, instead of this one's: prints what is
    /// reserved
    #[arg(long, value_name = "SIZE", value_parser = config::size)]
    memory: Option<u64>,
}

pub(super) const HELP: &str = "\
Examples:
  steppe check steppe.toml && steppe run -c steppe.toml
  steppe check steppe.toml --workers 16 --memory 512MiB

Certificates, keys, lists and error pages are read once the configuration itself has no error. The
first one that can't be used is reported. A file whose node could not start for want of memory is
refused with the sum of what it reserves before it serves.";

/// The reason of a refusal, for people.
type Refused = String;

#[expect(
    clippy::disallowed_methods,
    reason = "files of TLS are read as at a start"
)]
pub(super) fn run(options: &Check) -> ExitCode {
    let limit = match options.memory {
        Some(bytes) => Some(MemoryLimit {
            bytes,
            source: LimitSource::Given,
        }),
        // Where nobody knows the limit, `run` says so.
        None => memory_limit().ok(),
    };
    let outcome = match load_for(&options.file, limit) {
        Ok(outcome) => outcome,
        Err(code) => return code.into(),
    };
    complain(&outcome.report);
    let Some(config) = outcome.config else {
        return Code::Configuration.into();
    };
    let file = options.file.display();
    // A certificate that can't be used is found here, not when it is too late.
    let tls = Tls::check(&config.http, Instant::now());
    let checked = tls
        .map_err(|error| format!("{}: {error}", error.key))
        .and_then(|outdated| {
            for each in outdated {
                say(&format!("{file}: warning: {each}\n"));
            }
            memory(&config, limit, options.workers)
        });
    match checked {
        Err(refused) => {
            say(&format!("{file}: {refused}\n"));
            Code::Configuration.into()
        }
        Ok(needs) => {
            let is_asked = options.workers.is_some() || options.memory.is_some();
            let needs = needs.filter(|_| is_asked);
            let sum = needs.map_or(String::new(), |needs| format!("{needs}\n"));
            print(&format!("{file}: ok: {}\n{sum}", summary(&config)))
        }
    }
}

/// Reads lists and hosts as a start does; what is reserved, unless nobody knows the budget.
fn memory(
    config: &Config,
    limit: Option<MemoryLimit>,
    workers: Option<u16>,
) -> Result<Option<Needs>, Refused> {
    let text = |(key, error): (&str, FilesError)| format!("{key}: {error}");
    let Some(budget_bytes) = limit.and_then(|limit| config.node.memory_budget.bytes(limit).ok())
    else {
        return measure_files(&config.dns).map(|_| None).map_err(text);
    };
    let workers = match workers {
        Some(count) => usize::from(count),
        None => needs::workers(config, budget_bytes, needs::cpus()),
    };
    let needs = Needs::fixed(config, budget_bytes, workers);
    let whole = |needs: Needs| match measure_files(&config.dns) {
        Ok(files) => needs.with_files(&files),
        Err(_) => needs,
    };
    let budget = Budget::new(budget_bytes);
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
