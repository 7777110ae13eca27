//! What a person sees when the node has started: what listens where, and what to try.

use std::fmt::Write;

use steppe_http::config::UpstreamKind;
use steppe_mem::Budget;

use super::reachable;
use crate::config::Config;

/// The table, and three commands.
pub(super) fn banner(config: &Config, budget: &Budget, workers: usize, is_default: bool) -> String {
    let mut text = String::new();
    let mebibytes = budget.root().limit_bytes() >> 20;
    let _ = writeln!(
        text,
        "steppe: {workers} workers, memory budget {mebibytes} MiB\n"
    );
    for listener in &config.http.listeners {
        row(
            &mut text,
            "gateway",
            &listener.address.to_string(),
            &routes(config),
        );
    }
    if let Some(admin) = &config.admin {
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
    if is_default {
        for server in servers(config) {
            row(
                &mut text,
                "demo origin",
                &server,
                "what stands behind the gateway",
            );
        }
    }
    try_this(&mut text, config, is_default);
    text
}

fn row(text: &mut String, what: &str, address: &str, more: &str) {
    let _ = writeln!(text, "  {what:<12} {address:<22} {more}");
}

fn routes(config: &Config) -> String {
    let routes = &config.http.routes;
    match routes.as_slice() {
        [only] => format!("route {} {}", only.name, only.path),
        _ => format!("{} routes", routes.len()),
    }
}

fn servers(config: &Config) -> Vec<String> {
    let servers = |kind: &UpstreamKind| match kind {
        UpstreamKind::Servers(servers) => {
            let servers = servers.servers.iter();
            servers.map(|server| server.address.to_string()).collect()
        }
        UpstreamKind::Respond(_) => Vec::new(),
    };
    config
        .http
        .upstreams
        .iter()
        .flat_map(|upstream| servers(&upstream.kind))
        .collect()
}

fn try_this(text: &mut String, config: &Config, is_default: bool) {
    let gateway = config
        .http
        .listeners
        .first()
        .map(|listener| reachable(&listener.address));
    let admin = config.admin.as_ref().map(|admin| reachable(&admin.listen));
    let mut commands = Vec::new();
    if let Some(gateway) = gateway {
        commands.push(curl(&gateway, "/"));
        if is_default {
            commands.push(format!("curl -N http://{gateway}/events"));
        }
    }
    if let Some(admin) = admin {
        commands.push(curl(&admin, "/memory"));
        if !is_default {
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
