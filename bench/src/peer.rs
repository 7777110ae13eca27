//! The proxies that are compared, and the origin behind them: how each is configured and started.
//!
//! Invariant: one worker each, upstream keep-alive of 256, HTTP/1.1 to the origin, no access log
//! (but for the Steppe that is to show what one costs);
//! what else differs from a proxy's defaults says why, next to the setting.
//! With TLS each is a program of its own, so that neither CPU nor memory of one kind of connection
//! is in another's figures.

mod caddy;
mod cargo;
pub mod credentials;
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

use self::credentials::Credentials;
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

/// Where a proxy speaks TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    #[default]
    Plain,
    /// With its clients: a listener with the P-256 certificate, and one with the RSA certificate.
    TlsDownstream,
    /// With the origin, whose certificate is verified.
    TlsUpstream,
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
    /// The certificates of this run.
    pub credentials: Credentials,
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

    /// Where it listens; with TLS to its clients, with the P-256 certificate.
    pub const fn address(self, transport: Transport) -> SocketAddr {
        loopback(
            match transport {
                Transport::Plain => PORTS_PLAIN,
                Transport::TlsDownstream => PORTS_TLS,
                Transport::TlsUpstream => PORTS_TLS_UPSTREAM,
            } + self.place(),
        )
    }

    /// Where it listens with the RSA certificate.
    pub const fn rsa_address(self) -> SocketAddr {
        loopback(PORTS_TLS_RSA + self.place())
    }

    const fn place(self) -> u16 {
        match self {
            Self::Steppe => 0,
            Self::Nginx => 1,
            Self::Haproxy => 2,
            Self::Envoy => 3,
            Self::Caddy => 4,
            Self::SteppeLog => 5,
            Self::Floor => 6,
        }
    }

    /// Whether it runs with this transport: only without TLS there is a floor, and a log's cost.
    pub const fn speaks(self, transport: Transport) -> bool {
        matches!(transport, Transport::Plain) || !matches!(self, Self::SteppeLog | Self::Floor)
    }

    /// Writes its configuration, and builds or downloads it where needed.
    ///
    /// # Errors
    /// When it isn't installed and can't be.
    pub fn prepare(self, setup: &Setup, transport: Transport) -> Result<Launch> {
        match self {
            Self::Steppe => steppe::prepare(setup, transport),
            Self::SteppeLog => steppe::prepare_with_log(setup),
            Self::Floor => floor::prepare(setup),
            Self::Nginx => nginx::prepare(setup, transport),
            Self::Haproxy => haproxy::prepare(setup, transport),
            Self::Envoy => envoy::prepare(setup, transport),
            Self::Caddy => caddy::prepare(setup, transport),
        }
    }
}

impl Transport {
    /// What names of programs, configurations and logs end with.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::TlsDownstream => "-tls",
            Self::TlsUpstream => "-tls-upstream",
        }
    }

    pub const fn is_tls(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// Of the requests that a proxy gets.
    const fn scheme(self) -> &'static str {
        match self {
            Self::TlsDownstream => "https",
            Self::Plain | Self::TlsUpstream => "http",
        }
    }

    /// Where the origin is reached.
    const fn origin(self) -> SocketAddr {
        match self {
            Self::TlsUpstream => origin::TLS_ADDRESS,
            Self::Plain | Self::TlsDownstream => origin::ADDRESS,
        }
    }
}

/// The first proxy's port; the others follow.
const PORTS_PLAIN: u16 = 28080;
const PORTS_TLS: u16 = 28180;
const PORTS_TLS_RSA: u16 = 28280;
const PORTS_TLS_UPSTREAM: u16 = 28380;

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
