//! Rules between several keys.
//!
//! Invariant: a configuration that passes can be built and served. Non-goals: single values, which
//! `read` checks, and facts of the machine (whether an address can be bound).

mod addresses;
mod overlap;
mod plane;
mod routes;

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::tree::{Value, ValueKind};
use steppe_config::typed::{Fields, Typed};
use steppe_dns::config::keys as dns;
use steppe_http::config::keys::{access, check as http, gateway, listener};

use super::keys::{ADMIN, DNS, HTTP, LOG, ROOT, SITE, admin, log};
use crate::doh::FORWARDER;

/// Finds the mistakes of a file that `read` has read.
pub(super) fn check(root: &Value, file: &Fields, mistakes: &mut Mistakes) {
    if let Some(admin) = file.within(&ADMIN) {
        admin::check(admin, mistakes);
    }
    let access_log = file.within(&LOG).and_then(|log| log.within(&log::ACCESS));
    if let Some(log) = access_log {
        access::check(log, mistakes);
    }
    overlap::check(file, mistakes);
    let dns = file.within(&DNS);
    if let Some(dns) = dns {
        dns::check(dns, mistakes);
    }
    plane::check(file, mistakes);
    if let Some(gateway) = file.within(&HTTP) {
        no_listener(root, file, gateway, mistakes);
        http::check(gateway, dns.map(|_| FORWARDER), mistakes);
        proxy_protocol(gateway, dns, mistakes);
        routes::budgets(file, gateway, mistakes);
        // An unused key may be used by one that was refused.
        if mistakes.is_empty() {
            http::check_unused(gateway, mistakes);
        }
    }
}

pub(super) use addresses::{datagrams, streams};

/// Checks the folders that a file names, on this machine.
pub(super) fn check_folders(file: &Fields, mistakes: &mut Mistakes) {
    routes::folders(file, mistakes);
}

/// Reports a node that serves nothing, unless its file has a key that is not supported yet.
fn no_listener(root: &Value, file: &Fields, http: &Fields, mistakes: &mut Mistakes) {
    let ValueKind::Table(entries) = &root.kind else {
        return;
    };
    let is_later = |name: &str| ROOT.key(name).is_some_and(|key| !key.is_served());
    let is_later = entries.iter().any(|entry| is_later(&entry.name));
    let forwards = file
        .within(&DNS)
        .is_some_and(|dns| !dns.items(&dns::LISTENER).is_empty());
    // Sites that could not be expanded have been reported.
    let has_sites = file.place_of(&SITE).is_some();
    let serves_something_else = is_later || has_sites || forwards || plane::is_served(file);
    let listeners = http.value(&gateway::LISTENER.spec);
    let listeners = listeners.map(|node| &node.typed);
    let is_empty = matches!(listeners, Some(Typed::List(listeners)) if listeners.is_empty());
    if serves_something_else || !is_empty {
        return;
    }
    let span = file.place_of(&HTTP).unwrap_or(root.span);
    mistakes.push(
        Mistake::new(
            span,
            "the node would serve nothing: there is no `http.listener`",
        )
        .label("no listener")
        .help("add one, with `listen` set to \"127.0.0.1:8080\""),
    );
}

/// Reports listeners with the PROXY protocol if no proxy is trusted: no client could connect.
fn proxy_protocol(http: &Fields, dns: Option<&Fields>, mistakes: &mut Mistakes) {
    // An invalid network was meant to be trusted.
    if http.get(&gateway::TRUSTED_PROXIES) != Some(Vec::new()) {
        return;
    }
    let of_http = http.items(&gateway::LISTENER).iter();
    let of_http = of_http.filter_map(|node| node.fields()?.located(&listener::PROXY_PROTOCOL));
    let of_dns = dns.map_or(&[][..], |dns| dns.items(&dns::LISTENER)).iter();
    let of_dns = of_dns.filter_map(|node| node.fields()?.located(&dns::listener::PROXY_PROTOCOL));
    for (_, span) in of_http.chain(of_dns).filter(|(is_on, _)| *is_on) {
        mistakes.push(
            Mistake::new(
                span,
                "the PROXY protocol is accepted from trusted proxies only, and there are none",
            )
            .label("every connection would be closed")
            .help("name them in `http.trusted_proxies`"),
        );
    }
}
