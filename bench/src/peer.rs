//! The proxies that are compared, and the origin behind them: how each is configured and started.
//!
//! Invariant: one worker each, upstream keep-alive of 256, HTTP/1.1 to the origin, no access log
//! (but for the Steppe that is to show what one costs);
//! what else differs from a proxy's defaults says why, next to the setting.

mod caddy;
mod cargo;
mod envoy;
mod floor;
mod haproxy;
mod nginx;
pub mod origin;
pub mod pypi;
pub mod steppe;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::server::Launch;

/// A proxy under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Proxy {
    #[value(skip)]
    Steppe,
    /// The same with an access log.
    #[value(skip)]
    SteppeLog,
    /// The least that forwards.
    Floor,
    Nginx,
    Haproxy,
    Envoy,
    Caddy,
}

/// What a proxy's configuration depends on.
pub struct Setup {
    /// Configurations, logs and bodies of this run.
    pub run_dir: PathBuf,
    /// Downloaded programs, kept between runs.
    pub cache_dir: PathBuf,
    /// The workspace.
    pub root: PathBuf,
    /// Connections that a proxy has to carry at once, with room to spare.
    pub connections_max: u64,
    /// Open files that a proxy may have.
    pub files_max: u64,
    /// The `steppe` to run; none builds it.
    pub steppe: Option<PathBuf>,
}

impl Proxy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steppe => "steppe",
            Self::SteppeLog => steppe::WITH_LOG,
            Self::Floor => "floor",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Caddy => "caddy",
        }
    }

    /// Where it listens.
    pub const fn address(self) -> SocketAddr {
        loopback(match self {
            Self::Steppe => 28080,
            Self::Nginx => 28081,
            Self::Haproxy => 28082,
            Self::Envoy => 28083,
            Self::Caddy => 28084,
            Self::SteppeLog => 28085,
            Self::Floor => 28086,
        })
    }

    /// Writes its configuration, and builds or downloads it where needed.
    ///
    /// # Errors
    /// When it isn't installed and can't be.
    pub fn prepare(self, setup: &Setup) -> Result<Launch> {
        match self {
            Self::Steppe => steppe::prepare(setup),
            Self::SteppeLog => steppe::prepare_with_log(setup),
            Self::Floor => floor::prepare(setup),
            Self::Nginx => nginx::prepare(setup),
            Self::Haproxy => haproxy::prepare(setup),
            Self::Envoy => envoy::prepare(setup),
            Self::Caddy => caddy::prepare(setup),
        }
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn write_config(setup: &Setup, file: &str, text: &str) -> Result<PathBuf> {
    let path = setup.run_dir.join(file);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The first line that `program arguments…` prints, on either stream.
fn version(program: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.with_context(|| format!("{} says nothing about itself", program.display()))?;
    ensure!(
        output.status.success(),
        "{} does not run: {line}",
        program.display()
    );
    Ok(line.to_owned())
}
