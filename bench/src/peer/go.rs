//! Programs of Go's module proxy: a server of gRPC, and ghz, which loads it.
//!
//! Both are others' own: the interoperability server of grpc-go, and the load generator that most
//! published figures of gRPC come from.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Setup, loopback};
use crate::machine;
use crate::server::Launch;

/// Where the server of gRPC listens.
pub const GRPC_ADDRESS: SocketAddr = loopback(28004);

/// Its module has no program of a better name than `server`.
const SERVER: &str = "google.golang.org/grpc/interop/server";
const SERVER_RELEASE: &str = "v1.60.1";
const GHZ: &str = "github.com/bojand/ghz/cmd/ghz";
const GHZ_RELEASE: &str = "v0.121.0";

/// The interoperability server of grpc-go, `GOMAXPROCS=1`.
///
/// # Errors
/// Where it isn't there and can't be built.
pub fn prepare_grpc(setup: &Setup) -> Result<Launch> {
    let port = GRPC_ADDRESS.port().to_string();
    Ok(Launch {
        name: "grpc-server".to_owned(),
        version: format!("{SERVER} {SERVER_RELEASE}"),
        program: installed(setup, SERVER, SERVER_RELEASE)?,
        arguments: ["-port", &port].map(Into::into).into(),
        environment: vec![("GOMAXPROCS", "1".to_owned())],
        address: GRPC_ADDRESS,
    })
}

/// The one that is installed, or one that is built.
///
/// # Errors
/// Where it isn't there and can't be built.
pub fn ghz(setup: &Setup) -> Result<PathBuf> {
    machine::program("ghz").or_else(|_| installed(setup, GHZ, GHZ_RELEASE))
}

/// Builds a program unless it is there.
fn installed(setup: &Setup, package: &str, release: &str) -> Result<PathBuf> {
    let name = package.rsplit('/').next().unwrap_or(package);
    let folder = setup.cache_dir.join(format!("go-{name}-{release}"));
    let program = folder.join(name);
    if program.exists() {
        return Ok(program);
    }
    eprintln!("building {package} {release} into {}", folder.display());
    let output = Command::new("go")
        .args(["install", &format!("{package}@{release}")])
        .env("GOBIN", &folder)
        .stdin(Stdio::null())
        .output()
        .context("cannot run go (Debian: apt-get install golang)")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let reason = text.lines().last().unwrap_or("no reason given");
    ensure!(
        output.status.success(),
        "go cannot install {package} {release}: {reason}"
    );
    Ok(program)
}
