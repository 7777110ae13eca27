//! One file of configuration: TOML, or JSON with the same keys.
//!
//! Invariant: a [`Config`] is valid as it stands; nothing validates it again, and no key of its
//! file was ignored. A file with mistakes gives a [`Report`] of all of them. Every key is described
//! once, in `keys`: the reader, its suggestions, the [`schema`], the [`manual`](manual()) and
//! `/config` follow from there.
//!
//! Non-goals: facts of the machine (whether an address can be bound), but for folders that are served and the memory,
//! which [`load`] checks; and the contents of the files that a configuration names.

mod budget;
mod build;
mod check;
mod embedded;
mod keys;
pub mod limits;
mod machine;
pub mod manual;
mod memory_budget;
mod origin;
#[cfg(test)]
pub(crate) mod reference;
mod sites;

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use steppe_config::effective::Setting;
use steppe_config::form::Refusal;
use steppe_config::key::{Entry, Key};
use steppe_config::limits::FILE_BYTES_MAX;
use steppe_config::mistakes::Mistakes;
use steppe_config::outside::{self, Nothing, Outside};
use steppe_config::read::Source;
use steppe_config::sources::Sources;
use steppe_config::tree::Value;
use steppe_config::typed::{self, Fields, Named, Typed};
use steppe_config::units;
use steppe_dns::config::{Forwarder, keys as dns};
use steppe_http::config::keys::listener::{CONNECTIONS, LIMITS};
use steppe_http::config::keys::route::{CLIENT_CERT, HEADERS, LISTENER, METHODS, QUERY};
use steppe_http::config::keys::{authorize, gateway};
use steppe_http::config::{Gateway, Listener};
use steppe_http::router::Unmet;
use steppe_plane::config::Plane;

use crate::container::{MemoryLimit, memory_limit};
use keys::{DNS, HTTP, ROOT};

pub use self::embedded::{Amendments, DEFAULT, DEFAULT_NAME, embedded};
pub use self::keys::admin::{Admin, is_local};
pub use self::keys::log::{Access, Log};
pub use self::keys::node::{Node, Workers};
pub use self::keys::trace::Trace;
pub use self::machine::Machine;
pub use self::manual::manual;
pub use self::memory_budget::{BudgetError, MemoryBudget, share_of};
pub use self::origin::Origin;
pub use steppe_config::mistake::{Mistake, Span};
pub use steppe_config::report::{Drawing, Report};

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
    /// The values of the file that all of this was built from, for `/config`.
    file: Fields,
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

    /// Every setting in force, with its place.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        steppe_config::effective::settings(&self.file)
    }

    /// The first byte of a forwarder rule's table, by the rule's number from 0.
    #[must_use]
    pub fn dns_rule_at(&self, number: usize) -> Option<usize> {
        Some(self.dns_rule(number)?.span.start)
    }

    /// A rule of the forwarder as the file has it, by its number from 0.
    pub(crate) fn dns_rule(&self, number: usize) -> Option<&Fields> {
        let rules = self.file.within(&DNS)?.items(&dns::RULE);
        rules.get(number)?.fields()
    }

    /// The first byte of a gateway route's table, by the route's number from 0.
    #[must_use]
    pub fn route_at(&self, number: usize) -> Option<usize> {
        let routes = self.file.within(&HTTP)?.items(&gateway::ROUTE);
        Some(routes.get(number)?.span.start)
    }

    /// The key of a condition of a route, by the route's number from 0, and its first byte.
    #[must_use]
    pub fn condition_at(&self, route: usize, condition: Unmet) -> Option<(String, usize)> {
        let routes = self.file.within(&HTTP)?.items(&gateway::ROUTE);
        let fields = routes.get(route)?.fields()?;
        let of_map = |map: &'static Key<_>, number| {
            let entry: &Named = fields.entries(map).get(number)?;
            Some((
                format!("{}.{}", map.spec.name, entry.name),
                entry.span.start,
            ))
        };
        match condition {
            Unmet::Listener => key_of(fields, &LISTENER),
            Unmet::Method => key_of(fields, &METHODS),
            Unmet::Header(number) => of_map(&HEADERS, number),
            Unmet::Query(number) => of_map(&QUERY, number),
            Unmet::ClientCert => key_of(fields, &CLIENT_CERT),
        }
    }

    /// The kind of a filter of this name.
    #[must_use]
    pub fn filter_kind(&self, filter: &str) -> Option<&'static str> {
        Some(self.filter(filter)?.0)
    }

    /// The first byte of a rule of an `authorize` filter, by the rule's number from 0.
    #[must_use]
    pub fn rule_at(&self, filter: &str, number: usize) -> Option<usize> {
        let rules = self.filter(filter)?.1.items(&authorize::RULES);
        Some(rules.get(number)?.span.start)
    }

    /// Sets the number of connections that each listener may have, for `/config`.
    pub fn set_connections(&mut self, limit: impl Fn(&Listener) -> usize) {
        for listener in &mut self.http.listeners {
            listener.limits.connections = limit(listener);
        }
        let http = self
            .file
            .value_mut(&HTTP.spec)
            .and_then(typed::Node::fields_mut);
        let shown = http.and_then(|http| http.value_mut(&gateway::LISTENER.spec));
        let Some(Typed::List(shown)) = shown.map(|node| &mut node.typed) else {
            return;
        };
        // The last listeners, of DNS over HTTPS, have no key for their connections.
        for (node, listener) in shown.iter_mut().zip(&self.http.listeners) {
            let limits = node
                .fields_mut()
                .and_then(|each| each.value_mut(&LIMITS.spec));
            if let Some(limits) = limits.and_then(typed::Node::fields_mut) {
                let connections = listener.limits.connections as u64;
                limits.set(&CONNECTIONS.spec, Typed::Number(connections));
            }
        }
    }

    fn filter(&self, name: &str) -> Option<(&'static str, &Fields)> {
        let filters = self.file.within(&HTTP)?.entries(&gateway::FILTER);
        let entry = filters.iter().find(|entry| entry.name == name)?;
        match &entry.value.typed {
            Typed::Variant { name, fields, .. } => Some((name, fields)),
            _ => None,
        }
    }
}

/// The name of a key that a table has, and its first byte.
fn key_of(fields: &Fields, key: &'static impl Entry) -> Option<(String, usize)> {
    let start = fields.place_of(key)?.start;
    Some((key.spec().name.to_owned(), start))
}

/// Reads a type of DNS records in the syntax of the configuration, such as `AAAA` or `TYPE65`.
///
/// # Errors
/// The problem of the text, and a valid form.
pub fn dns_type(text: &str) -> Result<steppe_dns::wire::Rtype, String> {
    dns::record_type(text).map_err(Refusal::told)
}

/// The result of reading a file.
#[derive(Debug)]
pub struct Outcome {
    /// The configuration; `None` if the report has errors.
    pub config: Option<Config>,
    /// The mistakes; warnings alone leave the configuration usable.
    pub report: Report,
    /// The files of the configuration, which convert a byte to a place.
    pub files: Sources<'static>,
    /// The files that it was read from, with their state before the read; none for a text alone.
    pub origin: Origin,
}

/// Reads a configuration, and keeps its warnings.
///
/// `name` is the file's path: reports quote it, and relative paths within count from its folder.
pub fn read(name: &str, text: &str) -> Outcome {
    read_with(Text { name, text }, &mut Nothing, |_| {}, |_, _| {})
}

/// The text of a file, and its path.
#[derive(Clone, Copy)]
struct Text<'a> {
    name: &'a str,
    text: &'a str,
}

/// Reads a configuration.
///
/// `outside` has the files that it includes, `amend` changes its tree before it is read, and `look` adds mistakes that
/// the text alone does not show.
fn read_with(
    Text { name, text }: Text<'_>,
    outside: &mut dyn Outside,
    amend: impl FnOnce(&mut Value),
    look: impl FnOnce(&Fields, &mut Mistakes),
) -> Outcome {
    let mut mistakes = Mistakes::default();
    let (config, files) = match Source::parse(name, text, &mut mistakes) {
        Some(mut source) => {
            amend(&mut source.tree);
            source.complete(outside, &mut mistakes);
            read_source(source, look, &mut mistakes)
        }
        None => (None, Sources::new(name, text)),
    };
    let report = Report::of(&files, mistakes);
    let config = config.filter(|_| report.errors() == 0);
    assert!(
        config.is_some() || report.errors() > 0,
        "a configuration is refused with a reason"
    );
    Outcome {
        config,
        report,
        files: files.into_owned(),
        origin: Origin::default(),
    }
}

fn read_source<'a>(
    mut source: Source<'a>,
    look: impl FnOnce(&Fields, &mut Mistakes),
    mistakes: &mut Mistakes,
) -> (Option<Config>, Sources<'a>) {
    let sites = sites::expand(&mut source, mistakes);
    let mut file = source.read(&ROOT, mistakes);
    sites::keep(sites, &mut file);
    // Rules between keys are not checked if some of them can't be read.
    if !mistakes.is_partial() {
        check::check(&source.tree, &file, mistakes);
    }
    // The tree takes more memory than the configuration: it is dropped first.
    let Source { files, .. } = source;
    look(&file, mistakes);
    let config = build::config(file).filter(|_| !mistakes.is_partial());
    (config, files)
}

/// Reads a duration in the syntax of the configuration, such as `250ms` or `5s`.
///
/// # Errors
/// The problem of the text, and a valid form.
pub fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text).map_err(Refusal::told)
}

/// Reads a size in the syntax of the configuration, such as `64MiB`.
///
/// # Errors
/// The problem of the text, and a valid form.
pub fn size(text: &str) -> Result<u64, String> {
    units::size(text).map_err(Refusal::told)
}

/// Reads a configuration; never panics, for any text.
///
/// # Errors
/// The report of all mistakes.
pub fn parse(name: &str, text: &str) -> Result<Config, Box<Report>> {
    let Outcome { config, report, .. } = read(name, text);
    config.ok_or_else(|| Box::new(report))
}

/// Reads the file at `path`, and checks the folders that it serves, and the memory.
///
/// # Errors
/// If it can't be read, is longer than [`FILE_BYTES_MAX`], or is not UTF-8. Mistakes of a file that could be read are
/// in the outcome.
pub fn load(path: &Path) -> io::Result<Outcome> {
    load_with(path, |file, mistakes| {
        check::check_folders(file, mistakes);
        sites::check_files(file, mistakes);
        // If the limit is unknown, `run` reports that.
        if let Ok(limit) = memory_limit() {
            budget::check(file, limit, mistakes);
        }
    })
}

/// The inputs of `steppe check` besides the text.
pub struct Checks<'a> {
    /// The memory limit that the budget is checked against. `None`: unknown.
    pub limit: Option<MemoryLimit>,
    /// Files, folders, addresses and ports. `None`: they belong to another machine.
    pub machine: Option<Machine>,
    /// Checks the memory of a configuration whose text is valid.
    pub judge: &'a dyn Fn(&Config) -> Option<Objection>,
}

/// A reason against the memory budget of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The problem.
    pub message: String,
    /// A way to correct it.
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

/// Reads the file at `path` for a running node: its memory budget is the one that it started with, even if the
/// machine's limit has changed since, and is not checked against that again.
///
/// # Errors
/// As for [`load`].
pub fn load_again(path: &Path) -> io::Result<Outcome> {
    load_with(path, |file, mistakes| {
        check::check_folders(file, mistakes);
        sites::check_files(file, mistakes);
    })
}

/// Reads the file at `path` without a check of the machine: its outcome and, if it is valid, its long form, TOML
/// without sites.
///
/// # Errors
/// As for [`load`].
pub fn load_expanded(path: &Path) -> io::Result<(Outcome, Option<String>)> {
    let (text, name) = (text_of(path)?, path.to_string_lossy());
    let text = Text {
        name: &name,
        text: &text,
    };
    Ok(expand_with(text, &mut outside::Machine))
}

/// Reads a configuration as [`read`] does; if it is valid, its long form too.
pub fn expand(name: &str, text: &str) -> (Outcome, Option<String>) {
    expand_with(Text { name, text }, &mut Nothing)
}

fn expand_with(text: Text<'_>, outside: &mut dyn Outside) -> (Outcome, Option<String>) {
    let outcome = read_with(text, outside, |_| {}, |_, _| {});
    let expanded = outcome.config.as_ref();
    let expanded = expanded.and_then(|_| {
        let source = Source::parse(text.name, text.text, &mut Mistakes::default());
        sites::expanded(source?, outside)
    });
    (outcome, expanded)
}

fn load_with(path: &Path, look: impl FnOnce(&Fields, &mut Mistakes)) -> io::Result<Outcome> {
    let mut origin = Origin::of(path);
    let (text, name) = (text_of(path)?, path.to_string_lossy());
    let text = Text {
        name: &name,
        text: &text,
    };
    let mut outcome = read_with(text, &mut origin, |_| {}, look);
    outcome.origin = origin;
    Ok(outcome)
}

fn text_of(path: &Path) -> io::Result<String> {
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
    String::from_utf8(bytes).map_err(|error| invalid(error.utf8_error().to_string()))
}
