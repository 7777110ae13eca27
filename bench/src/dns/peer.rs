//! The forwarders under comparison, each with one thread, a cache of 64 MiB and the same server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::before::Build;
use crate::machine;
use crate::peer::{cargo, loopback, steppe, version};
use crate::server::Launch;

/// A forwarder under comparison.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Steppe
    Steppe,
    /// unbound as a forwarder, without DNSSEC
    Unbound,
    /// dnsdist with a packet cache
    Dnsdist,
    /// Knot Resolver as a forwarder, without DNSSEC
    Knot,
    /// dnsmasq
    Dnsmasq,
    /// A minimal server that answers by itself, without cache or forwarding
    Floor,
    /// The steppe of another commit, named by `--before`
    #[value(skip)]
    Before,
}

/// The steppe programs to run; without `now`, today's is built.
#[derive(Debug, Default)]
pub struct Builds {
    pub now: Option<PathBuf>,
    pub before: Option<PathBuf>,
}

impl Builds {
    /// Copies both builds to paths of one length; builds today's if none is named.
    ///
    /// # Errors
    /// When one of them is missing, or does not start.
    pub fn placed(now: Option<&Path>, before: &Path, folder: &Path) -> Result<Self> {
        steppe::ensure_runs(before)?;
        let now = named_or_built(now)?;
        Ok(Self {
            now: Some(Build::Now.copied(&now, folder)?),
            before: Some(Build::Before.copied(before, folder)?),
        })
    }
}

fn named_or_built(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = named {
        return fs::canonicalize(program)
            .with_context(|| format!("no program at {}", program.display()));
    }
    let (root, target) = machine::workspace()?;
    cargo::built(&root, &target, "steppe")
}

/// Address of the server behind every forwarder.
pub const SERVER: SocketAddr = loopback(28053);

impl Peer {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steppe => "steppe",
            Self::Unbound => "unbound",
            Self::Dnsdist => "dnsdist",
            Self::Knot => "knot-resolver",
            Self::Dnsmasq => "dnsmasq",
            Self::Floor => "floor",
            Self::Before => Build::Before.name(),
        }
    }

    /// Address that the forwarder answers on.
    pub const fn address(self) -> SocketAddr {
        loopback(28054 + self as u16)
    }

    /// Admin address of a steppe.
    const fn admin(self) -> SocketAddr {
        match self {
            Self::Before => loopback(28927),
            _ => loopback(28907),
        }
    }

    /// Writes the forwarder's configuration into `folder`, and builds a program of this workspace.
    ///
    /// # Errors
    /// When it isn't installed.
    pub fn prepare(self, folder: &Path, builds: &Builds) -> Result<Launch> {
        let listen = self.address();
        let port = listen.port().to_string();
        let write = |name: &str, text: String| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        let (program, version, arguments): (_, _, Vec<std::ffi::OsString>) = match self {
            Self::Steppe | Self::Before => {
                let program = match (self, &builds.before) {
                    (Self::Before, Some(before)) => before.clone(),
                    _ => named_or_built(builds.now.as_deref())?,
                };
                let text = steppe_config(listen, self.admin());
                let config = write(&format!("{}.toml", self.name()), text)?;
                let said = version(&program, &["version"])?;
                let arguments = vec!["run".into(), "-c".into(), config.into()];
                (program, said, arguments)
            }
            Self::Unbound => {
                let program = machine::program("unbound")?;
                let config = write("unbound.conf", unbound_config(&port, folder))?;
                let said = version(&program, &["-V"])?;
                (
                    program,
                    said,
                    vec!["-d".into(), "-p".into(), "-c".into(), config.into()],
                )
            }
            Self::Dnsdist => {
                let program = machine::program("dnsdist")?;
                let config = write("dnsdist.conf", dnsdist_config(listen))?;
                let said = version(&program, &["--version"])?;
                let arguments = vec!["--supervised".into(), "-C".into(), config.into()];
                (program, said, arguments)
            }
            Self::Knot => {
                let program = machine::program("kresd")?;
                let config = write("kresd.conf", knot_config(&port))?;
                let said = version(&program, &["--version"])?;
                let cache = folder.join("kresd");
                fs::create_dir_all(&cache)?;
                (
                    program,
                    said,
                    vec!["-n".into(), "-c".into(), config.into(), cache.into()],
                )
            }
            Self::Dnsmasq => {
                let program = machine::program("dnsmasq")?;
                let said = version(&program, &["--version"])?;
                let server = format!("--server={}#{}", SERVER.ip(), SERVER.port());
                let arguments = [
                    "--keep-in-foreground",
                    "--conf-file=/dev/null",
                    "--no-resolv",
                    "--no-hosts",
                    "--bind-interfaces",
                    "--listen-address=127.0.0.1",
                    "--user=",
                    "--group=",
                    "--pid-file=",
                    // The maximum of dnsmasq.
                    "--cache-size=10000",
                    "--dns-forward-max=10000",
                    &format!("--port={port}"),
                    &server,
                ];
                (program, said, arguments.iter().map(Into::into).collect())
            }
            Self::Floor => return floor(self.name(), listen),
        };
        Ok(Launch {
            name: self.name().to_owned(),
            version,
            program,
            arguments,
            environment: Vec::new(),
            address: listen,
        })
    }
}

/// The launch of `steppe-bench floor-dns`, the minimal server, at `listen`.
///
/// # Errors
/// When this program can't be found.
pub fn floor(name: &str, listen: SocketAddr) -> Result<Launch> {
    Ok(Launch {
        name: name.to_owned(),
        version: "steppe-bench floor-dns".to_owned(),
        program: std::env::current_exe().context("where is this program?")?,
        arguments: vec![
            "floor-dns".into(),
            "--listen".into(),
            listen.to_string().into(),
        ],
        environment: Vec::new(),
        address: listen,
    })
}

fn steppe_config(listen: SocketAddr, admin: SocketAddr) -> String {
    format!(
        r#"[node]
workers = 1
memory_budget = "160MiB"
[admin]
listen = "{admin}"
[[dns.listener]]
listen = "{listen}"
protocols = ["udp", "tcp"]
[dns.cache]
bytes = "64MiB"
[dns.upstream.u]
servers = ["udp://{SERVER}"]
policy = "failover"
[[dns.rule]]
forward = "u"
"#
    )
}

/// Makes unbound a forwarder like the others: one thread, and no DNSSEC validation.
fn unbound_config(port: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"server:
  directory: "{folder}"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  num-threads: 1
  interface: 127.0.0.1
  port: {port}
  do-not-query-localhost: no
  module-config: "iterator"
  msg-cache-size: 32m
  rrset-cache-size: 32m
  outgoing-range: 4096
  num-queries-per-thread: 2048
  so-rcvbuf: 0
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: {}@{}
"#,
        SERVER.ip(),
        SERVER.port()
    )
}

fn dnsdist_config(listen: SocketAddr) -> String {
    format!(
        r#"setLocal("{listen}")
newServer({{address="{SERVER}", healthCheckMode="up"}})
setMaxUDPOutstanding(10240)
local cache = newPacketCache(200000)
getPool(""):setCache(cache)
setSecurityPollSuffix("")
"#
    )
}

fn knot_config(port: &str) -> String {
    format!(
        r#"net.listen("127.0.0.1", {port}, {{ kind = "dns" }})
net.ipv6 = false
trust_anchors.remove(".")
cache.size = 64 * MB
modules = {{ "policy" }}
policy.add(policy.all(policy.FORWARD("{}@{}")))
"#,
        SERVER.ip(),
        SERVER.port()
    )
}
