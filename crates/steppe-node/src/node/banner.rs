//! What a person sees when the node has started: what listens where, and what to try.

use std::fmt::Write;

use steppe_net::ListenAddress;

use super::prepare::Prepared;
use crate::services::{self, Endpoint};

/// The table, and three commands.
pub(super) fn banner(node: &Prepared) -> String {
    let mut text = String::new();
    let workers = node.workers;
    let mebibytes = node.budget.root().limit_bytes() >> 20;
    let _ = writeln!(
        text,
        "steppe: {workers} workers, memory budget {mebibytes} MiB\n"
    );
    let endpoints = services::endpoints(&node.config);
    for endpoint in &endpoints {
        let address = endpoint.address.to_string();
        row(&mut text, endpoint.service, &address, &endpoint.serves);
    }
    if let Some(admin) = &node.config.admin {
        row(
            &mut text,
            "admin",
            &admin.listen.to_string(),
            "/metrics /memory /config /healthz /readyz",
        );
        if let Some(probes) = &admin.probes {
            row(&mut text, "probes", &probes.to_string(), "/healthz /readyz");
        }
    }
    if let Some(demo) = &node.demo {
        let address = demo.address().to_string();
        row(
            &mut text,
            "demo origin",
            &address,
            "what stands behind the gateway",
        );
    }
    try_this(&mut text, node, &endpoints);
    text
}

fn row(text: &mut String, what: &str, address: &str, more: &str) {
    let _ = writeln!(text, "  {what:<12} {address:<22} {more}");
}

fn try_this(text: &mut String, node: &Prepared, endpoints: &[Endpoint]) {
    let is_demo = node.demo.is_some();
    let mut commands = Vec::new();
    if let Some(first) = endpoints.first() {
        let gateway = reachable(&first.address);
        commands.push(curl(&gateway, "/"));
        if is_demo {
            commands.push(format!("curl -N http://{gateway}/events"));
        }
    }
    if let Some(admin) = &node.config.admin {
        let admin = reachable(&admin.listen);
        commands.push(curl(&admin, "/memory"));
        if !is_demo {
            commands.push(curl(&admin, "/metrics"));
        }
    }
    let _ = writeln!(text, "\nTry:");
    for command in commands {
        let _ = writeln!(text, "  {command}");
    }
    let _ = writeln!(text, "\nCtrl-C drains and stops.");
}

fn curl(address: &str, path: &str) -> String {
    match address.strip_prefix("unix:") {
        Some(socket) => format!("curl --unix-socket {socket} http://localhost{path}"),
        None => format!("curl http://{address}{path}"),
    }
}

/// Where a listener can be reached from this machine.
fn reachable(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(tcp) if tcp.ip().is_unspecified() => format!("127.0.0.1:{}", tcp.port()),
        other => other.to_string(),
    }
}
