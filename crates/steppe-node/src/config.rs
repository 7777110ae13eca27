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
    /// The values that all of this was built from, which `/config` prints.
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

    /// Every setting in force, and where each comes from.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        steppe_config::effective::settings(&self.file)
    }

    /// Where a rule of the forwarder stands, by its number from 0: the first byte of its table.
    #[must_use]
    pub fn dns_rule_at(&self, number: usize) -> Option<usize> {
        Some(self.dns_rule(number)?.span.start)
    }

    /// A rule of the forwarder as the file has it, by its number from 0.
    pub(crate) fn dns_rule(&self, number: usize) -> Option<&Fields> {
        let rules = self.file.within(&DNS)?.items(&dns::RULE);
        rules.get(number)?.fields()
    }

    /// Where a route of the gateway stands, by its number from 0.
    #[must_use]
    pub fn route_at(&self, number: usize) -> Option<usize> {
        let routes = self.file.within(&HTTP)?.items(&gateway::ROUTE);
        Some(routes.get(number)?.span.start)
    }

    /// The key of a condition of a route, by the route's number from 0, and where it stands.
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

    /// Where a rule of an `authorize` filter stands, by its number from 0.
    #[must_use]
    pub fn rule_at(&self, filter: &str, number: usize) -> Option<usize> {
        let rules = self.filter(filter)?.1.items(&authorize::RULES);
        Some(rules.get(number)?.span.start)
    }

    /// Sets the number of connections that each listener may have.
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
        // Listeners of DNS over HTTPS follow, whose connections have no key.
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

/// The name of a key that a table has, and the first byte of it.
fn key_of(fields: &Fields, key: &'static impl Entry) -> Option<(String, usize)> {
    let start = fields.place_of(key)?.start;
    Some((key.spec().name.to_owned(), start))
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
    /// Its files, by which a place in it says where it stands.
    pub files: Sources<'static>,
    /// The files that it was read from, as they were before; of a text alone, none.
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
/// `outside` has the files that it includes, `amend` changes its tree before it is read, and `look` adds what the text
/// alone can't tell.
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
    // What keys say together is unsure where some of them can't be read.
    if !mistakes.is_partial() {
        check::check(&source.tree, &file, mistakes);
    }
    // The tree takes more than what is built of it.
    let Source { files, .. } = source;
    look(&file, mistakes);
    let config = build::config(file).filter(|_| !mistakes.is_partial());
    (config, files)
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
    let Outcome { config, report, .. } = read(name, text);
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
        sites::check_files(file, mistakes);
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
    load_with(path, |file, mistakes| {
        check::check_folders(file, mistakes);
        sites::check_files(file, mistakes);
    })
}

/// Reads the file at `path` without a look at the machine: its outcome and, where it is valid, its long form, TOML
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

/// Reads a configuration as [`read`] does; where it is valid, its long form too.
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
