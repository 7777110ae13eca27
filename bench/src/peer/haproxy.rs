//! HAProxy with one thread, connections to the origin shared by all clients.

use anyhow::Result;

use super::{Proxy, Setup, Transport, version, write_config};
use crate::machine;
use crate::server::Launch;

pub fn prepare(setup: &Setup, transport: Transport) -> Result<Launch> {
    let program = machine::program("haproxy")?;
    let version = version(&program, &["-v"])?;
    let name = format!("haproxy{}", transport.suffix());
    let text = config(setup, transport);
    let config = write_config(setup, &format!("{name}.cfg"), &text)?;
    Ok(Launch {
        name,
        version: shortened(&version),
        program,
        arguments: vec!["-db".into(), "-f".into(), config.into()],
        environment: Vec::new(),
        address: Proxy::Haproxy.address(transport),
    })
}

/// HAProxy wants two files a connection and refuses to start without; here a connection to the
/// origin is shared, so `no strict-limits` lets it start with fewer.
fn config(setup: &Setup, transport: Transport) -> String {
    let (origin, scheme) = (transport.origin(), transport.scheme());
    // The two listeners of HTTP/2 have a scheme each.
    let proto = match transport.has_h2_listeners() {
        true => "%[ssl_fc,iif(https,http)]",
        false => scheme,
    };
    let (binds, verify) = (binds(setup, transport), verify(setup, transport));
    let connections = setup.connections_max;
    let kept = transport.keepalive();
    format!(
        "global
  nbthread 1
  maxconn {connections}
  no strict-limits
defaults
  mode http
  no log
  option http-keep-alive
  option forwardfor
  http-reuse always
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout http-keep-alive 1h
frontend front
{binds}  maxconn {connections}
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  http-request set-header X-Forwarded-Proto {proto}
  default_backend origin
backend origin
  server origin {origin} pool-max-conn {kept}{verify}
"
    )
}

fn binds(setup: &Setup, transport: Transport) -> String {
    let address = Proxy::Haproxy.address(transport);
    if transport.has_h2_listeners() {
        let bundle = setup.credentials.p256.bundle.display();
        let clear = Proxy::Haproxy.clear_address(transport);
        // Without TLS, HAProxy recognizes HTTP/2 by its preface.
        return format!(
            "  bind {address} ssl crt {bundle} ssl-min-ver TLSv1.2 alpn h2,http/1.1\n  bind {clear}\n"
        );
    }
    if transport != Transport::TlsDownstream {
        return format!("  bind {address}\n");
    }
    [
        (address, &setup.credentials.p256),
        (Proxy::Haproxy.rsa_address(), &setup.credentials.rsa),
    ]
    .map(|(address, own)| {
        let bundle = own.bundle.display();
        format!("  bind {address} ssl crt {bundle} ssl-min-ver TLSv1.2\n")
    })
    .concat()
}

/// The end of a `server` line: HTTP/2 or TLS with the origin.
fn verify(setup: &Setup, transport: Transport) -> String {
    if transport.is_h2c_upstream() {
        return " proto h2".to_owned();
    }
    if transport != Transport::TlsUpstream {
        return String::new();
    }
    let (ca, name) = (setup.credentials.ca.display(), setup.credentials.p256.name);
    format!(" ssl verify required ca-file {ca} sni str({name}) verifyhost {name}")
}

/// The version without the address of HAProxy's home page.
fn shortened(version: &str) -> String {
    version.split(" - ").next().unwrap_or(version).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_ends_before_the_home_page() {
        let line = "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/";
        assert_eq!(
            shortened(line),
            "HAProxy version 2.6.12-1+deb12u4 2026/10/17"
        );
        assert_eq!(shortened("HAProxy"), "HAProxy");
    }
}
