//! What several keys say together.
//!
//! Invariant: what passes here can be built and served. Non-goals: single values, which `read`
//! judges, and what only the machine can tell (whether an address can be bound).

mod addresses;
mod overlap;
mod plane;
mod routes;

use std::collections::HashMap;
use std::net::IpAddr;

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::tree::{Value, ValueKind};
use steppe_config::typed::{Fields, Node, Typed};
use steppe_dns::config::keys as dns;
use steppe_http::config::keys::{access, filter, listener, route, upstream};
use steppe_net::ListenAddress;

use super::keys::ROOT;
use crate::config::typed::ByName;

/// Finds the mistakes of a file that `read` has read.
pub(super) fn check(root: &Value, file: &Fields, mistakes: &mut Mistakes) {
    admin_token(file, mistakes);
    access_log(file, mistakes);
    overlap::check(file, mistakes);
    if let Some(dns) = file.table("dns") {
        dns::check(dns, mistakes);
        for listener in dns.items(&dns::LISTENER).iter().filter_map(Node::fields) {
            if let Some(http) = file.table("http") {
                proxy_protocol(http, listener, mistakes);
            }
        }
    }
    plane::check(file, mistakes);
    if let Some(http) = file.table("http") {
        no_listener(root, file, http, mistakes);
        for listener in http.list("listener").iter().filter_map(Node::fields) {
            listener::check(listener, mistakes);
            proxy_protocol(http, listener, mistakes);
        }
        for upstream in http.map("upstream") {
            if let Some(upstream) = upstream.value.fields() {
                upstream::check(upstream, mistakes);
            }
        }
        filters(http, mistakes);
        routes::check(file, http, mistakes);
        // A key that was refused may have named what looks unused.
        if mistakes.is_empty() {
            routes::none(http, mistakes);
            routes::unused(http, mistakes);
        }
    }
}

pub(super) use addresses::{datagrams, streams};

/// Finds what is wrong with the folders that a file names, by looking at them.
pub(super) fn check_folders(file: &Fields, mistakes: &mut Mistakes) {
    routes::folders(file, mistakes);
}

fn admin_token(file: &Fields, mistakes: &mut Mistakes) {
    let Some(admin) = file.table("admin") else {
        return;
    };
    let Some(listen) = admin.take::<ListenAddress>("listen") else {
        return;
    };
    if is_local(&listen) || admin.node("token_file").is_some() {
        return;
    }
    let span = admin.node("listen").map_or(admin.span, |node| node.span);
    mistakes.push(
        Mistake::new(
            span,
            format!("admin on {listen} is reachable from other machines without a token"),
        )
        .label("neither loopback nor a Unix socket")
        .help("set `token_file`, or listen on 127.0.0.1"),
    );
}

fn access_log(file: &Fields, mistakes: &mut Mistakes) {
    let log = file.table("log").and_then(|log| log.table("access"));
    if let Some(log) = log {
        access::check(log, mistakes);
    }
}

/// The keys of each filter, and the order of those of a route.
fn filters(http: &Fields, mistakes: &mut Mistakes) {
    let filters = http.map("filter");
    filter::check(filters, mistakes);
    let named = filters.iter().map(|entry| (&*entry.name, &entry.value));
    let named: HashMap<_, _> = named.collect();
    for route in http.list("route").iter().filter_map(Node::fields) {
        filter::check_order(&named, route.items(&route::FILTERS), mistakes);
    }
}

fn is_local(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Unix(_) => true,
        ListenAddress::Tcp(address) => match address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => {
                let mapped = ip.to_ipv4_mapped();
                ip.is_loopback() || mapped.is_some_and(|ip| ip.is_loopback())
            }
        },
    }
}

/// A node that serves nothing is hardly meant, unless what it shall serve is not supported yet.
fn no_listener(root: &Value, file: &Fields, http: &Fields, mistakes: &mut Mistakes) {
    let ValueKind::Table(entries) = &root.kind else {
        return;
    };
    let is_later = |name: &str| ROOT.key(name).is_some_and(|key| !key.is_served());
    let is_later = entries.iter().any(|entry| is_later(&entry.name));
    let forwards = file
        .table("dns")
        .is_some_and(|dns| !dns.items(&dns::LISTENER).is_empty());
    let serves_something_else = is_later || forwards || plane::is_served(file);
    let listeners = http.node("listener").map(|node| &node.typed);
    let is_empty = matches!(listeners, Some(Typed::List(listeners)) if listeners.is_empty());
    if serves_something_else || !is_empty {
        return;
    }
    let span = file.given("http").unwrap_or(root.span);
    mistakes.push(
        Mistake::new(
            span,
            "the node would serve nothing: there is no `http.listener`",
        )
        .label("no listener")
        .help("add one, with `listen` set to \"127.0.0.1:8080\""),
    );
}

/// Nobody could connect.
fn proxy_protocol(http: &Fields, listener: &Fields, mistakes: &mut Mistakes) {
    let is_on = listener.take::<bool>("proxy_protocol") == Some(true);
    let Some(node) = listener.node("proxy_protocol").filter(|_| is_on) else {
        return;
    };
    // One that is invalid was meant to name somebody.
    let trusts_nobody = matches!(
        http.node("trusted_proxies").map(|node| &node.typed),
        Some(Typed::List(networks)) if networks.is_empty()
    );
    if trusts_nobody {
        mistakes.push(
            Mistake::new(
                node.span,
                "the PROXY protocol is accepted from trusted proxies only, and there are none",
            )
            .label("every connection would be closed")
            .help("name them in `http.trusted_proxies`"),
        );
    }
}
