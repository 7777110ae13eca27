//! nginx, tuned: the reference that every ratio is taken to.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use super::{Proxy, Setup, origin, version, write_config};
use crate::machine;
use crate::server::Launch;

/// Directives that origin and proxy share.
///
/// Temporary files go to the run's folder, since the compiled-in one may need privileges.
pub fn preamble(setup: &Setup, role: &str) -> String {
    // nginx closes idle connections as soon as fewer than a sixteenth of its slots are free.
    let connections = setup.connections_max * 9 / 8;
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

/// How nginx is called on a configuration in the run's folder.
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

pub fn prepare(setup: &Setup) -> Result<Launch> {
    let program = machine::program("nginx")?;
    let version = version(&program, &["-v"])?;
    std::fs::create_dir_all(setup.run_dir.join("nginx-temp"))?;
    let config = write_config(setup, "nginx.conf", &config(setup))?;
    Ok(Launch {
        name: "nginx",
        version,
        program,
        arguments: arguments(setup, &config),
        environment: Vec::new(),
        address: Proxy::Nginx.address(),
    })
}

/// The origin is told who the client is, as the other proxies tell it. Large bodies stream, as
/// they do in the others: without the two settings nginx would write them to disk.
fn config(setup: &Setup) -> String {
    let preamble = preamble(setup, "nginx");
    let (listen, origin, upload) = (Proxy::Nginx.address(), origin::ADDRESS, origin::UPLOAD_PATH);
    format!(
        r#"{preamble}
  upstream origin {{
    server {origin};
    keepalive 256;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
  }}
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Host $http_host;
  proxy_set_header X-Forwarded-Proto $scheme;
  proxy_max_temp_file_size 0;
  server {{
    listen {listen} backlog=4096;
    location / {{ proxy_pass http://origin; }}
    location = {upload} {{
      proxy_pass http://origin;
      proxy_request_buffering off;
    }}
  }}
}}
"#
    )
}
