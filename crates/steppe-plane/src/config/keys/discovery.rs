//! Keys of `[discovery]`: workers that the relay dials.

use std::time::Duration;

use steppe_config::key::{Key, OptionalKey, duration, key, list, multimap, table, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table, Tagged, Variant};
use steppe_config::typed::{Fields, Node, Typed};
use steppe_etcd::Endpoint;
use steppe_etcd::limits::{ENDPOINTS_MAX, LEASE};
use steppe_net::ServerAddress;
use steppe_net::config::forms::{SERVER, SERVICE};
use steppe_net::config::tls;
use steppe_net::tls::config::ServerTrust;

use super::forms;
use crate::config::Workers;
use crate::{ALPN, DialedWorker, Directory};

/// `[discovery]`.
pub static TABLE: Tagged = Tagged {
    name: "discovery",
    doc: "Workers that the relay dials, instead of workers that connect. Lost ones are dialed again with \
          a back-off. A worker gets the services that it both names and is listed for.",
    tag: "kind",
    tag_doc: "Source of the workers' addresses.",
    variants: &[
        Variant::new("static", &STATIC, &Source::Static),
        Variant::new("etcd", &ETCD, &Source::Etcd),
    ],
};

/// TLS to workers.
pub static TLS: OptionalKey<ServerTrust> = key(
    "tls",
    table(&TLS_TABLE, |tls| tls::servers(tls, ALPN)),
    TLS_TABLE.doc,
);

static TLS_TABLE: Table = Table::new(
    "discovery.tls",
    "TLS to workers that are dialed, with the keys of upstreams. Without it, connections to workers are \
     not encrypted.",
    tls::SERVER_KEYS,
);

static STATIC: Table = Table::new(
    "discovery",
    "Workers that are listed in this file.",
    keys! { SERVED, TLS },
);

static SERVED: Key<Vec<(String, ServerAddress)>> = key(
    "services",
    multimap(&SERVICE, &list(&text(&SERVER), 1)),
    "Addresses of workers, by service: `{ embed = [\"10.0.0.7:7701\"] }`. A reload dials new ones; open \
     calls at removed ones are finished.",
)
.or(Absent::Table);

static ETCD: Table = Table::new(
    "discovery",
    "Workers that register themselves in etcd.",
    keys! { ENDPOINTS, PREFIX, LEASE_TIME, TLS },
);

static ENDPOINTS: Key<Vec<Endpoint>> = key(
    "endpoints",
    list(&text(&forms::ENDPOINT), 1),
    "URLs (http or https) of the cluster's members, at most 16; the next is asked if one does not answer. \
     Certificates are verified by the system's authorities. Users of etcd are not supported.",
)
.or(Absent::Texts(&["http://127.0.0.1:2379"]));

static PREFIX: Key<String> = key(
    "prefix",
    text(&forms::PREFIX),
    "Prefix of the keys. `PREFIX/workers/SERVICE/HOST:PORT` names a worker; at most 1,024 such keys are \
     read.",
)
.or(Absent::Text("/steppe"));

static LEASE_TIME: Key<Duration> = key(
    "lease",
    duration(LEASE.0, LEASE.1),
    "Time that workers stay in etcd without a sign of life. During an outage of etcd, the last list stays \
     in use; a worker that is missing from the first list after it is kept for this time.",
)
.or(Absent::Text("10s"));

/// Values of `discovery.kind`.
#[derive(Clone, Copy)]
enum Source {
    Static,
    Etcd,
}

/// Settings of `[discovery]`.
#[derive(Debug)]
pub struct Discovery {
    /// The workers.
    pub workers: Workers,
    /// TLS to the workers. `None`: without TLS.
    pub tls: Option<ServerTrust>,
}

/// Builds the settings of `[discovery]`. `None` if a value is invalid; its mistake was reported.
#[must_use]
pub fn build(discovery: &Node) -> Option<Discovery> {
    Some(Discovery {
        workers: workers(discovery)?,
        tls: discovery.fields()?.get(&TLS)?,
    })
}

pub(super) fn workers(discovery: &Node) -> Option<Workers> {
    match discovery.variant()? {
        (Source::Static, discovery) => listed(discovery),
        (Source::Etcd, discovery) => found(discovery),
    }
}

fn found(etcd: &Fields) -> Option<Workers> {
    Some(Workers::Found(Directory {
        endpoints: etcd.get(&ENDPOINTS)?,
        prefix: etcd.get(&PREFIX)?,
        lease: etcd.get(&LEASE_TIME)?,
    }))
}

/// The workers of the file: each address once, with all of its services.
fn listed(listed: &Fields) -> Option<Workers> {
    let mut workers: Vec<DialedWorker> = Vec::new();
    for (service, address) in listed.get(&SERVED)? {
        let address = address.to_string();
        match workers.iter_mut().find(|worker| worker.address == address) {
            Some(worker) => worker.services.push(service),
            None => workers.push(DialedWorker {
                address,
                services: vec![service],
            }),
        }
    }
    Some(Workers::Static(workers))
}

/// Reports mistakes in combinations of keys of `[discovery]`.
pub fn check(discovery: &Node, mistakes: &mut Mistakes) {
    let Some((source, discovery)) = discovery.variant() else {
        return;
    };
    if let Some(tls) = discovery.within(&TLS) {
        tls::check_servers(tls, mistakes);
    }
    match source {
        Source::Static => no_unix_worker(discovery, mistakes),
        Source::Etcd => few_endpoints(discovery, mistakes),
    }
}

fn no_unix_worker(listed: &Fields, mistakes: &mut Mistakes) {
    let is_unix = |node: &&Node| matches!(node.typed.value(), Some(ServerAddress::Unix(_)));
    let services = listed.entries(&SERVED).iter();
    let addresses = services.flat_map(|entry| match &entry.value.typed {
        Typed::List(addresses) => &addresses[..],
        _ => &[],
    });
    for node in addresses.filter(is_unix) {
        let mistake = Mistake::new(node.span, "workers can't be dialed over a Unix socket");
        let mistake = mistake.label("not an address and a port");
        mistakes.push(mistake.help("write one such as \"10.0.0.7:7701\""));
    }
}

fn few_endpoints(etcd: &Fields, mistakes: &mut Mistakes) {
    if let Some(extra) = etcd.items(&ENDPOINTS).get(ENDPOINTS_MAX) {
        let message = format!("more than {ENDPOINTS_MAX} endpoints of etcd");
        let mistake = Mistake::new(extra.span, message).label("one too many");
        mistakes.push(mistake.help("a cluster has seven members at most"));
    }
}
