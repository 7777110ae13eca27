//! HAProxy with one thread, connections to the origin shared by all clients.

use anyhow::Result;

use super::{Proxy, Setup, origin, version, write_config};
use crate::machine;
use crate::server::Launch;

pub fn prepare(setup: &Setup) -> Result<Launch> {
    let program = machine::program("haproxy")?;
    let version = version(&program, &["-v"])?;
    let config = write_config(setup, "haproxy.cfg", &config(setup))?;
    Ok(Launch {
        name: "haproxy",
        version: shortened(&version),
        program,
        arguments: vec!["-db".into(), "-f".into(), config.into()],
        environment: Vec::new(),
        address: Proxy::Haproxy.address(),
    })
}

/// HAProxy wants two files a connection and refuses to start without; here a connection to the
/// origin is shared, so `no strict-limits` lets it start with fewer.
fn config(setup: &Setup) -> String {
    let (listen, origin) = (Proxy::Haproxy.address(), origin::ADDRESS);
    let connections = setup.connections_max;
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
  bind {listen}
  maxconn {connections}
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  http-request set-header X-Forwarded-Proto http
  default_backend origin
backend origin
  server origin {origin} pool-max-conn 256
"
    )
}

/// Without the address of its home page.
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
