//! Keys of the forwarder in a configuration: their tables, checks across several keys, and the types that are built.
//!
//! Invariant: every key of a table here is read by its builder here. Non-goals: checks across keys of other sections,
//! which `steppe-node` has.

mod cache;
mod forms;
mod hosts;
mod limits;
mod list;
pub mod listener;
pub mod log;
mod resolv_conf;
pub mod rule;
pub mod upstream;

use ipnet::IpNet;
use steppe_config::key::{Key, key, list, section, table, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::{Fields, Node};

use crate::config::{Cache, Forwarder, Hosts, InProcess, Limits, Listener};

pub use cache::SNAPSHOT;
pub use forms::record_type;
pub use hosts::FILES as HOSTS_FILES;
pub use list::{FILES as LIST_FILES, LIST};
pub use log::LOG;
pub use rule::RULE;
pub use upstream::UPSTREAM;

/// `[dns]`.
pub static TABLE: Table = Table::new(
    "dns",
    "The DNS forwarder.",
    keys! { LISTENER, ACCESS, CACHE, UPSTREAM, LIST, HOSTS, LIMITS, LOG, RULE },
);

/// `[[dns.listener]]`.
pub static LISTENER: Key<Vec<Listener>> = key(
    "listener",
    list(&table(&listener::TABLE, listener::build), 0),
    listener::TABLE.doc,
)
.or(Absent::Texts(&[]));

static ACCESS: Key<Vec<IpNet>> = key(
    "access",
    table(&ACCESS_TABLE, |access| Some(access.get(&ALLOW)?.concat())),
    ACCESS_TABLE.doc,
)
.or(Absent::Table);

static ACCESS_TABLE: Table =
    Table::new("dns.access", "Clients that are answered.", keys! { ALLOW });

static ALLOW: Key<Vec<Vec<IpNet>>> = key(
    "allow",
    list(&text(&forms::CLIENTS), 1),
    "Networks of clients, such as \"10.0.0.0/8\", \"loopback\" or \"private\" (RFC 1918 and 4193, \
     link-local). Other clients are refused.",
)
.or(Absent::Texts(&["loopback", "private"]));

/// `[dns.cache]`.
pub static CACHE: Key<Cache> = section("cache", &cache::TABLE, cache::build).or(Absent::Table);

/// `[dns.hosts]`.
pub static HOSTS: Key<Hosts> = section("hosts", &hosts::TABLE, hosts::build).or(Absent::Table);

static LIMITS: Key<Limits> = section("limits", &limits::TABLE, limits::build).or(Absent::Table);

/// The forwarder that `[dns]` describes; `None`: a value of it is invalid, and its mistake was reported.
#[must_use]
pub fn build(dns: &Fields) -> Option<Forwarder> {
    let listeners = dns.get(&LISTENER)?;
    let upstreams = dns.entries(&UPSTREAM).iter();
    let rules = dns.items(&RULE).iter();
    Some(Forwarder {
        access: dns.get(&ACCESS)?,
        // `steppe-node` sets these to `http.trusted_proxies`.
        trusted_proxies: Vec::new(),
        cache: dns.get(&CACHE)?,
        upstreams: upstreams
            .map(|entry| upstream::build(entry, &listeners))
            .collect::<Option<_>>()?,
        listeners,
        lists: dns
            .entries(&LIST)
            .iter()
            .map(list::build)
            .collect::<Option<_>>()?,
        hosts: dns.get(&HOSTS)?,
        rules: rules
            .map(|each| rule::build(each.fields()?, dns))
            .collect::<Option<_>>()?,
        limits: dns.get(&LIMITS)?,
        query_log: dns.get(&LOG)?,
        // `steppe-node` changes this if a route of the gateway sends queries.
        in_process: InProcess::Silent,
    })
}

/// Finds the mistakes in combinations of keys of `[dns]`.
pub fn check(dns: &Fields, mistakes: &mut Mistakes) {
    for listener in dns.items(&LISTENER).iter().filter_map(Node::fields) {
        listener::check(listener, mistakes);
    }
    for upstream in dns.entries(&UPSTREAM) {
        if let Some(fields) = upstream.value.fields() {
            upstream::check(fields, mistakes);
        }
    }
    for list in dns.entries(&LIST) {
        if let Some(fields) = list.value.fields() {
            list::check(fields, mistakes);
        }
    }
    rule::check(dns, mistakes);
    if !dns.items(&LISTENER).is_empty() && dns.items(&RULE).is_empty() {
        let mistake = Mistake::new(dns.span, "every query is refused: there is no `dns.rule`");
        let help = "add one that matches everything, with `forward` set to an upstream";
        mistakes.push(mistake.label("no rule").help(help));
    }
}
