//! The configuration out of a file that was read.
//!
//! Invariant: `None` only where a mistake was reported; every key of the table is taken here, and
//! the test at the end names one that is not.

mod over_https;
pub(super) mod tls;

use std::collections::HashMap;
use std::num::NonZeroUsize;

use steppe_config::typed::{Fields, Named, Node as Read, Typed};
use steppe_dns::config::{Forwarder, keys};
use steppe_http::access::AccessFormat;
use steppe_http::config::Gateway;
use steppe_http::config::keys::route::Names;
use steppe_http::config::keys::{access, filter, listener, route, upstream};
use steppe_plane::config::{Plane, keys as plane};
use steppe_telemetry::Destination;

use super::{Access, Admin, Config, Log, LogFormat, LogLevel, MemoryBudget, Node, Trace, Workers};
use crate::config::typed::{ByName, FromNode};
use crate::doh::FORWARDER;

pub(super) fn config(file: Fields) -> Option<Config> {
    let Sections {
        node,
        admin,
        log,
        trace,
        http,
        dns,
        plane,
    } = sections(&file)?;
    Some(Config {
        node,
        admin,
        log,
        trace,
        http,
        dns,
        plane,
        file,
    })
}

/// The sections of a file as a [`Config`] has them.
pub(super) struct Sections {
    pub(super) node: Node,
    pub(super) admin: Option<Admin>,
    pub(super) log: Log,
    pub(super) trace: Option<Trace>,
    pub(super) http: Gateway,
    pub(super) dns: Forwarder,
    pub(super) plane: Plane,
}

pub(super) fn sections(file: &Fields) -> Option<Sections> {
    let admin = match file.node("admin") {
        None => None,
        Some(admin) => Some(self::admin(admin.fields()?)?),
    };
    let mut dns = match file.node("dns") {
        None => Forwarder::default(),
        Some(dns) => keys::build(dns.fields()?)?,
    };
    let mut http = gateway(file.table("http")?)?;
    over_https::join(&mut http, &mut dns);
    Some(Sections {
        node: node(file.table("node")?)?,
        admin,
        log: log(file.table("log")?)?,
        trace: match section(file, "trace")? {
            None => None,
            Some(trace) => Some(self::trace(trace)?),
        },
        http,
        dns,
        plane: plane::build(section(file, "plane")?, file.node("discovery"))?,
    })
}

/// A section that need not be there.
#[expect(clippy::option_option, reason = "invalid and absent are two things")]
fn section<'a>(file: &'a Fields, name: &str) -> Option<Option<&'a Fields>> {
    match file.node(name) {
        None => Some(None),
        Some(section) => section.fields().map(Some),
    }
}

fn node(node: &Fields) -> Option<Node> {
    let workers = match &node.node("workers")?.typed {
        Typed::Choice(_) => Workers::Auto,
        Typed::Number(count) => Workers::Count(NonZeroUsize::new(usize::try_from(*count).ok()?)?),
        _ => return None,
    };
    Some(Node {
        workers,
        memory_budget: MemoryBudget::of(node.node("memory_budget")?)?,
        client_share: match &node.node("client_share")?.typed {
            Typed::Share(share) => Some(*share),
            _ => None,
        },
        share_exempt: node.take("share_exempt")?,
        drain_timeout: node.take("drain_timeout")?,
    })
}

impl MemoryBudget {
    /// A budget that was read; `None` when it is invalid.
    pub(super) fn of(read: &Read) -> Option<Self> {
        match &read.typed {
            Typed::Share(share) => Some(Self::Share(*share)),
            Typed::Size(bytes) => Some(Self::Bytes(*bytes)),
            _ => None,
        }
    }
}

fn admin(admin: &Fields) -> Option<Admin> {
    Some(Admin {
        listen: admin.take("listen")?,
        token_file: admin.optional("token_file")?,
        probes: admin.optional("probes")?,
        tls: tls::admin(admin)?,
    })
}

fn trace(trace: &Fields) -> Option<Trace> {
    Some(Trace {
        otlp: trace.take("otlp")?,
        sample: trace.take("sample")?,
    })
}

fn log(log: &Fields) -> Option<Log> {
    let level = match log.take("level")? {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        _ => return None,
    };
    let format = match log.take("format")? {
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        _ => return None,
    };
    Some(Log {
        level,
        format,
        access: access_log(log.node("access")?)?,
    })
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
fn access_log(access: &Read) -> Option<Option<Access>> {
    let Some(table) = access.fields() else {
        let stdout = Access {
            destination: Destination::Stdout,
            format: AccessFormat::Combined,
        };
        return Some((<&str>::from_node(access)? == "stdout").then_some(stdout));
    };
    let (path, format) = access::build(table)?;
    Some(Some(Access {
        destination: Destination::at(path),
        format,
    }))
}

fn gateway(http: &Fields) -> Option<Gateway> {
    let mut names = Names {
        upstreams: indexes(http.map("upstream")),
        filters: indexes(http.map("filter")),
    };
    // Behind all that are defined, one of which may be called the same.
    let forwarder = http.map("upstream").len();
    names.upstreams.entry(FORWARDER).or_insert(forwarder);
    Some(Gateway {
        trusted_proxies: http.take("trusted_proxies")?,
        listeners: all(http.list("listener").iter(), |each| {
            listener::build(each.fields()?)
        })?,
        upstreams: all(http.map("upstream").iter(), upstream::build)?,
        filters: all(http.map("filter").iter(), |entry| {
            filter::build(entry, &|name| names.upstreams.get(name).copied())
        })?,
        routes: all(http.list("route").iter(), |each| {
            route::build(each.fields()?, &names)
        })?,
    })
}

fn all<T, U>(items: impl Iterator<Item = T>, build: impl FnMut(T) -> Option<U>) -> Option<Vec<U>> {
    items.map(build).collect()
}

fn indexes(defined: &[Named]) -> HashMap<&str, usize> {
    let names = defined.iter().enumerate();
    names
        .map(|(index, entry)| (entry.name.as_str(), index))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::config::DEFAULT;
    use crate::config::keys::ROOT;
    use steppe_config::mistakes::Mistakes;
    use steppe_config::read::read;
    use steppe_config::table::{Support, Table};
    use steppe_config::taken;

    /// Every key of the first; kinds of tables that it has no place for, in the second.
    const FULL: [&str; 2] = ["testdata/full.toml", "testdata/full_etcd.toml"];

    /// Every key that can be used, as [`taken`] names it.
    fn served(table: &'static Table, found: &mut BTreeSet<String>) {
        for key in table.keys {
            if let Support::Served { kind, .. } = &key.support {
                found.insert(taken::full_name(table, key));
                kind.tables()
                    .into_iter()
                    .for_each(|each| served(each, found));
            }
        }
    }

    /// Every key that the file has.
    fn given(fields: &Fields, found: &mut BTreeSet<String>) {
        for field in &fields.given {
            found.insert(taken::full_name(fields.table, field.key));
            below(&field.value, found);
        }
    }

    fn below(node: &Read, found: &mut BTreeSet<String>) {
        match &node.typed {
            Typed::List(items) => items.iter().for_each(|item| below(item, found)),
            Typed::Map(entries) => entries.iter().for_each(|entry| below(&entry.value, found)),
            _ => node
                .fields()
                .into_iter()
                .for_each(|fields| given(fields, found)),
        }
    }

    fn fields(name: &str, text: &str) -> Fields {
        let mut mistakes = Mistakes::default();
        let read = read((name, text), &ROOT, &mut mistakes);
        let (_, fields) = read.expect("valid syntax");
        assert_eq!(mistakes.finish().0, [], "{name}");
        fields
    }

    fn file(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A key that is read and then used by nothing would be ignored without a word.
    #[test]
    fn every_key_that_is_given_is_taken() {
        let examples = ["first", "gateway-bench-h1", "plane"];
        let examples = examples.map(|name| file(&format!("../../examples/{name}.toml")));
        let full = FULL.map(file);
        for text in examples.iter().chain(&full).chain([&DEFAULT.to_owned()]) {
            let fields = fields("a.toml", text);
            let mut expected = BTreeSet::new();
            given(&fields, &mut expected);
            let taken = taken::during(|| {
                sections(&fields).expect("a valid configuration");
            });
            let ignored: Vec<_> = expected.difference(&taken).collect();
            assert!(ignored.is_empty(), "`build` does not take {ignored:?}");
        }
    }

    /// So that the test above sees every key.
    #[test]
    fn the_full_files_have_every_key() {
        let (mut known, mut there) = (BTreeSet::new(), BTreeSet::new());
        served(&ROOT, &mut known);
        for name in FULL {
            given(&fields(name, &file(name)), &mut there);
        }
        let lacking: Vec<_> = known.difference(&there).collect();
        assert!(lacking.is_empty(), "{FULL:?} lack {lacking:?}");
    }
}
