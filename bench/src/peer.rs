//! The proxies that are compared, and the origin behind them: configuration and start of each.
//!
//! Invariant: one worker each, upstream keep-alive of 256, HTTP/1.1 to the origin, no access log
//! (but for the Steppe that shows the cost of one); with HTTP/2 to clients, as many kept-alive
//! connections to the origin as there are streams, so that none is closed to be opened again;
//! any other deviation from a proxy's defaults has its reason next to the setting.
//! With TLS each is a program of its own, so that neither CPU nor memory of one kind of connection
//! is in another's figures.

mod caddy;
pub mod cargo;
pub mod credentials;
mod envoy;
pub mod floor;
pub mod go;
mod haproxy;
pub mod nginx;
pub mod origin;
pub mod pypi;
pub mod steppe;
mod varnish;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use self::credentials::Credentials;
use crate::before::Build;
use crate::server::Launch;

/// A proxy under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Proxy {
    #[value(skip)]
    Steppe,
    /// The same with an access log.
    #[value(skip)]
    SteppeLog,
    /// The steppe of another commit, named by `--before`.
    #[value(skip)]
    Before,
    /// The minimal proxy that forwards.
    Floor,
    /// The minimal proxy that forwards HTTP/2, on Steppe's codec.
    FloorSteppeH2,
    /// The nginx of the distribution, which is the reference.
    Nginx,
    /// The newest nginx that PyPI has, which speaks HTTP/2 to servers too.
    NginxWheel,
    Haproxy,
    Envoy,
    Caddy,
    /// Varnish, which answers out of its cache only.
    Varnish,
}

/// The sides on which a proxy speaks TLS and HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    #[default]
    Plain,
    /// TLS with clients: a listener with the P-256 certificate, and one with the RSA certificate.
    TlsDownstream,
    /// TLS with the origin, whose certificate is verified.
    TlsUpstream,
    /// HTTP/2 with clients: a listener with TLS, and one without that takes HTTP/1.1 too.
    Http2,
    /// As `Http2`, and HTTP/2 without TLS to the origin.
    H2cUpstream,
    /// HTTP/2 without TLS on both sides, before a server of gRPC.
    Grpc,
    /// As `Plain`, and answered out of a cache, once it is warm.
    Cached,
}

/// The inputs of a proxy's configuration.
pub struct Setup {
    /// Configurations, logs and bodies of this run.
    pub run_dir: PathBuf,
    /// Target folder of the workspace's builds.
    pub target_dir: PathBuf,
    /// Downloaded programs, kept between runs.
    pub cache_dir: PathBuf,
    /// The workspace.
    pub root: PathBuf,
    /// Connections that a proxy has to carry at once, with room to spare.
    pub connections_max: u64,
    /// Connections that the origin has to keep for all proxies together.
    pub origin_connections_max: u64,
    /// Open files that a proxy may have.
    pub files_max: u64,
    /// The `steppe` to run; `None` builds it.
    pub steppe: Option<PathBuf>,
    /// The `steppe` of another commit.
    pub before: Option<PathBuf>,
    /// The certificates of this run.
    pub credentials: Credentials,
}

impl Proxy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steppe => "steppe",
            Self::SteppeLog => steppe::WITH_LOG,
            Self::Before => Build::Before.name(),
            Self::Floor => "floor",
            Self::FloorSteppeH2 => floor::ON_STEPPE_H2,
            Self::Nginx => "nginx",
            Self::NginxWheel => nginx::OF_PYPI,
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Caddy => "caddy",
            Self::Varnish => "varnish",
        }
    }

    /// Address of the listener; with TLS to clients, of the one with the P-256 certificate.
    pub const fn address(self, transport: Transport) -> SocketAddr {
        loopback(
            match transport {
                Transport::Plain => PORTS_PLAIN,
                Transport::TlsDownstream => PORTS_TLS,
                Transport::TlsUpstream => PORTS_TLS_UPSTREAM,
                Transport::Http2 => PORTS_H2,
                Transport::H2cUpstream => PORTS_H2C_UPSTREAM,
                Transport::Grpc => PORTS_GRPC,
                Transport::Cached => PORTS_CACHED,
            } + self.place(),
        )
    }

    /// Address of the listener without TLS, which is another one only beside HTTP/2 over TLS.
    pub const fn clear_address(self, transport: Transport) -> SocketAddr {
        match transport {
            Transport::Http2 => loopback(PORTS_H2_CLEAR + self.place()),
            Transport::H2cUpstream => loopback(PORTS_H2C_UPSTREAM_CLEAR + self.place()),
            _ => self.address(transport),
        }
    }

    /// Address of the listener with the RSA certificate.
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
            Self::Varnish => 7,
            Self::Before => 8,
            Self::FloorSteppeH2 => 9,
            Self::NginxWheel => 10,
        }
    }

    /// True if the proxy is meant to run with this transport: a log's cost is shown without TLS only, and there are
    /// floors of HTTP/1.1, of HTTP/2 with clients, and of HTTP/2 on both sides on Steppe's codec alone; the others have
    /// no cache to compare.
    pub const fn speaks(self, transport: Transport) -> bool {
        match self {
            Self::Steppe | Self::Before | Self::Nginx => true,
            Self::Varnish => matches!(transport, Transport::Cached),
            _ if matches!(transport, Transport::Cached) => false,
            Self::SteppeLog => matches!(transport, Transport::Plain),
            Self::Floor => matches!(transport, Transport::Plain | Transport::Http2),
            Self::FloorSteppeH2 => transport.has_streams(),
            _ => true,
        }
    }

    /// The reason why the proxy can't run with a transport that [`Self::speaks`] allows.
    pub const fn lacks(self, transport: Transport) -> Option<&'static str> {
        match (self, transport) {
            (Self::Nginx, Transport::H2cUpstream) => {
                Some("this release speaks HTTP/1.1 only to servers, but for gRPC's")
            }
            _ => None,
        }
    }

    /// Writes the proxy's configuration, and builds or downloads the program where needed.
    ///
    /// # Errors
    /// When it isn't installed and can't be.
    pub fn prepare(self, setup: &Setup, transport: Transport) -> Result<Launch> {
        match self {
            Self::Steppe => steppe::prepare(setup, Build::Now, transport),
            Self::Before => steppe::prepare(setup, Build::Before, transport),
            Self::SteppeLog => steppe::prepare_with_log(setup),
            Self::Floor => floor::prepare(setup, transport),
            Self::FloorSteppeH2 => floor::prepare_on_steppe_h2(setup, transport),
            Self::Nginx | Self::NginxWheel => nginx::prepare(setup, self, transport),
            Self::Haproxy => haproxy::prepare(setup, transport),
            Self::Envoy => envoy::prepare(setup, transport),
            Self::Caddy => caddy::prepare(setup, transport),
            Self::Varnish => varnish::prepare(setup),
        }
    }
}

impl Transport {
    /// The suffix of names of programs, configurations and logs.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::TlsDownstream => "-tls",
            Self::TlsUpstream => "-tls-upstream",
            Self::Http2 => "-h2",
            Self::H2cUpstream => "-h2c-upstream",
            Self::Grpc => "-grpc",
            Self::Cached => "-cached",
        }
    }

    /// True if clients may have many requests on a connection at once.
    pub const fn has_streams(self) -> bool {
        matches!(self, Self::Http2 | Self::H2cUpstream | Self::Grpc)
    }

    /// True if there is a listener with HTTP/2 over TLS, and one without TLS beside it.
    const fn has_h2_listeners(self) -> bool {
        matches!(self, Self::Http2 | Self::H2cUpstream)
    }

    /// True if the proxy speaks HTTP/2 without TLS to the origin.
    const fn is_h2c_upstream(self) -> bool {
        matches!(self, Self::H2cUpstream | Self::Grpc)
    }

    /// Kept-alive connections to the origin: HTTP/1.1 has one request on each.
    pub const fn keepalive(self) -> u16 {
        if matches!(self, Self::Http2) {
            4_096
        } else {
            256
        }
    }

    /// The scheme of the requests that a proxy gets.
    const fn scheme(self) -> &'static str {
        match self {
            Self::TlsDownstream => "https",
            _ => "http",
        }
    }

    /// Address of the origin.
    const fn origin(self) -> SocketAddr {
        match self {
            Self::Plain | Self::TlsDownstream | Self::Http2 => origin::ADDRESS,
            Self::TlsUpstream => origin::TLS_ADDRESS,
            Self::H2cUpstream => origin::H2C_ADDRESS,
            Self::Grpc => go::GRPC_ADDRESS,
            Self::Cached => origin::CACHED_ADDRESS,
        }
    }
}

/// The first proxy's port; the others follow.
const PORTS_PLAIN: u16 = 28080;
const PORTS_TLS: u16 = 28180;
const PORTS_TLS_RSA: u16 = 28280;
const PORTS_TLS_UPSTREAM: u16 = 28380;
const PORTS_H2: u16 = 28480;
const PORTS_H2_CLEAR: u16 = 28580;
const PORTS_H2C_UPSTREAM: u16 = 28680;
const PORTS_H2C_UPSTREAM_CLEAR: u16 = 28780;
const PORTS_GRPC: u16 = 28880;
const PORTS_CACHED: u16 = 28980;

pub const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

pub fn write_config(setup: &Setup, file: &str, text: &str) -> Result<PathBuf> {
    let path = setup.run_dir.join(file);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The first line that `program arguments…` prints, on either stream.
///
/// # Errors
/// When it does not run, or is silent.
pub fn version(program: &Path, arguments: &[&str]) -> Result<String> {
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
