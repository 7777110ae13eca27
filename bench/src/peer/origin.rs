//! The origin behind every proxy: one nginx worker with a 1 kB answer from memory, a 1 MB file,
//! and a sink that reads a whole upload before it answers. All of it over TLS and by HTTP/2 too.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::nginx::{arguments, certificate, preamble};
use super::{Setup, loopback, version, write_config};
use crate::machine;
use crate::server::Launch;

/// Address of the origin; `examples/gateway-bench-h1.toml` names it too.
pub const ADDRESS: SocketAddr = loopback(28001);
/// The same over TLS, with the P-256 certificate.
pub const TLS_ADDRESS: SocketAddr = loopback(28002);
/// The same by HTTP/2 without TLS, and by nothing else: this nginx tells them apart by TLS alone.
pub const H2C_ADDRESS: SocketAddr = loopback(28003);
/// The same, with responses that caches may store.
pub const CACHED_ADDRESS: SocketAddr = loopback(28005);
/// A small body.
pub const SMALL_PATH: &str = "/";
pub const SMALL_BYTES: usize = 1024;
/// A large body to download.
pub const LARGE_PATH: &str = "/large";
/// Path that large bodies are posted to.
pub const UPLOAD_PATH: &str = "/upload";
/// Content of the sink's response after it has read an upload.
pub const UPLOAD_ANSWER: &str = "read";
const ANSWER_SOCKET: &str = "answer.sock";
/// 1 MB, in both directions.
pub const LARGE_BYTES: usize = 1_000_000;

/// Path of the file of [`LARGE_BYTES`].
pub fn large(setup: &Setup) -> PathBuf {
    setup.run_dir.join("large")
}

pub fn prepare(setup: &Setup) -> Result<Launch> {
    let program = machine::program("nginx")?;
    let version = version(&program, &["-v"])?;
    fs::create_dir_all(setup.run_dir.join("origin-temp"))?;
    let large = large(setup);
    fs::write(&large, vec![b'.'; LARGE_BYTES])
        .with_context(|| format!("cannot write {}", large.display()))?;
    // A run that was killed leaves its socket behind, which nginx would not bind again.
    let _ = fs::remove_file(setup.run_dir.join(ANSWER_SOCKET));
    let config = write_config(setup, "origin.conf", &config(setup))?;
    Ok(Launch {
        name: "origin".to_owned(),
        version,
        program,
        arguments: arguments(setup, &config),
        environment: Vec::new(),
        address: ADDRESS,
    })
}

/// Another origin, which has the small body at any path.
///
/// # Errors
/// When its configuration can't be written.
pub fn any_path(setup: &Setup, address: SocketAddr) -> Result<Launch> {
    let program = machine::program("nginx")?;
    let version = version(&program, &["-v"])?;
    let role = "any-path";
    fs::create_dir_all(setup.run_dir.join(format!("{role}-temp")))?;
    let preamble = preamble(setup, role, setup.origin_connections_max);
    let small = ".".repeat(SMALL_BYTES);
    let text = format!(
        "{preamble}\n  server {{ listen {address} backlog=4096; location / {{ return 200 \"{small}\"; }} }}\n}}\n"
    );
    let config = write_config(setup, &format!("{role}.conf"), &text)?;
    Ok(Launch {
        name: role.to_owned(),
        version,
        program,
        arguments: arguments(setup, &config),
        environment: Vec::new(),
        address,
    })
}

/// `return` alone would answer an upload before it read it, which lets a proxy stop early: so an
/// upload is buffered whole in memory, dropped, and answered by a second server of the same nginx.
/// Over TLS there is one cipher suite: OpenSSL's clients would choose another than the others.
fn config(setup: &Setup) -> String {
    let preamble = preamble(setup, "origin", setup.origin_connections_max);
    let small = ".".repeat(SMALL_BYTES);
    let root = setup.run_dir.display();
    let certificate = certificate(&setup.credentials.p256);
    let locations = format!(
        r#"location = {SMALL_PATH} {{ return 200 "{small}"; }}
    location = {LARGE_PATH} {{ root "{root}"; }}
    location = {UPLOAD_PATH} {{
      client_body_buffer_size 2m;
      proxy_pass http://answer;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_method GET;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
    }}"#
    );
    format!(
        r#"{preamble}
  default_type application/octet-stream;
  open_file_cache max=16 inactive=1h;
  open_file_cache_valid 1h;
  upstream answer {{ server unix:{root}/{ANSWER_SOCKET}; keepalive 64; }}
  server {{
    listen unix:{root}/{ANSWER_SOCKET};
    location / {{ return 200 "{UPLOAD_ANSWER}"; }}
  }}
  server {{
    listen {ADDRESS} backlog=4096;
    listen {TLS_ADDRESS} ssl backlog=4096;
    listen {H2C_ADDRESS} http2 backlog=4096;
    {certificate}
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    {locations}
  }}
  server {{
    listen {CACHED_ADDRESS} backlog=4096;
    add_header Cache-Control "max-age=86400";
    {locations}
  }}
}}
"#
    )
}
