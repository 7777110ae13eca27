//! Steppe on the repository's own `examples/gateway-bench-h1.toml`: the file that people copy is
//! the file that is measured. With TLS, the settings of TLS are added to the same file.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::credentials::Certificate;
use super::{Proxy, Setup, Transport, cargo, origin, version, write_config};
use crate::before::Build;
use crate::server::{Launch, ensure_free};

/// Name of the Steppe with an access log.
pub const WITH_LOG: &str = "steppe+log";

pub fn prepare(setup: &Setup, build: Build, transport: Transport) -> Result<Launch> {
    let admin_port = match transport {
        Transport::Plain => ADMIN_PORT,
        Transport::TlsDownstream => ADMIN_PORT_TLS,
        Transport::TlsUpstream => ADMIN_PORT_TLS_UPSTREAM,
        Transport::Http2 => ADMIN_PORT_H2,
        Transport::H2cUpstream => ADMIN_PORT_H2C_UPSTREAM,
        Transport::Grpc => ADMIN_PORT_GRPC,
        Transport::Cached => ADMIN_PORT_CACHED,
    };
    let (proxy, admin_port) = match build {
        Build::Now => (Proxy::Steppe, admin_port),
        Build::Before => (Proxy::Before, admin_port + BEFORE_PORTS_ON),
    };
    let named = Named {
        proxy,
        transport,
        admin_port,
    };
    launch(setup, named, |text| match transport {
        Transport::Plain => text.to_owned(),
        Transport::TlsDownstream => with_tls_listeners(setup, proxy, text),
        Transport::TlsUpstream => with_tls_upstream(setup, text),
        Transport::Cached => with_cache(text),
        Transport::Http2 | Transport::H2cUpstream | Transport::Grpc => {
            with_http2(setup, named, text)
        }
    })
}

/// The same file but for its ports, and a line of `combined` for each request.
pub fn prepare_with_log(setup: &Setup) -> Result<Launch> {
    let log = setup.run_dir.join("access.log");
    let access = format!("access = {{ file = \"{}\" }}", log.display());
    // Each run begins with an empty log.
    fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    let named = Named {
        proxy: Proxy::SteppeLog,
        transport: Transport::Plain,
        admin_port: ADMIN_PORT_WITH_LOG,
    };
    launch(setup, named, |text| {
        text.replace("access = \"off\"", &access)
    })
}

fn listener(address: SocketAddr, protocols: &str) -> String {
    format!("[[http.listener]]\nlisten = \"{address}\"\nprotocols = [{protocols}]\n")
}

fn certificate(own: &Certificate) -> String {
    let (cert, key) = (own.cert.display(), own.key.display());
    format!(
        "[http.listener.tls]\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" }}]\n\
         min_version = \"1.2\"\n"
    )
}

/// Limits of a listener beside the first one: the first one has the idle connections, and needs the
/// open files.
const FEW: &str = "limits = { connections = 256 }\n";

/// Adds the P-256 certificate to the listener, and a second listener with the RSA certificate.
fn with_tls_listeners(setup: &Setup, proxy: Proxy, text: &str) -> String {
    let plain = listener(proxy.address(Transport::TlsDownstream), H1);
    let both = [
        plain.clone(),
        certificate(&setup.credentials.p256),
        listener(proxy.rsa_address(), H1),
        FEW.to_owned(),
        certificate(&setup.credentials.rsa),
    ];
    text.replace(&plain, &both.concat())
}

const H1: &str = "\"h1\"";

/// HTTP/2 with clients, over TLS and without, or without alone. An idle connection is charged 45 KiB
/// (ADR 0017), so that 10,000 of them need more than the example's budget.
fn with_http2(setup: &Setup, named: Named, text: &str) -> String {
    let Named {
        proxy, transport, ..
    } = named;
    let clear = |address| listener(address, "\"h1\", \"h2c\"");
    let (first, beside) = (proxy.address(transport), proxy.clear_address(transport));
    let listeners = if transport.has_h2_listeners() {
        let first = listener(first, "\"h1\", \"h2\"");
        first + &certificate(&setup.credentials.p256) + &clear(beside) + FEW
    } else {
        clear(first)
    };
    let protocol = match transport.is_h2c_upstream() {
        true => "protocol = \"h2c\"\n",
        false => "",
    };
    let servers = |address: SocketAddr| format!("servers = [\"{address}\"]\n");
    let upstream = servers(transport.origin()) + protocol;
    text.replace(&listener(first, H1), &listeners)
        .replace(&servers(origin::ADDRESS), &upstream)
        .replace(
            "keepalive = 256\n",
            &format!("keepalive = {}\n", transport.keepalive()),
        )
        .replace("memory_budget = \"256MiB\"", "memory_budget = \"1GiB\"")
}

/// Adds a cache of 64 MiB, as the others have, and the origin whose responses may be stored.
fn with_cache(text: &str) -> String {
    let servers = |address| format!("servers = [\"{address}\"]\n");
    let filter = "[http.filter.store]\nkind = \"cache\"\nbytes = \"64MiB\"\n[[http.route]]\nfilters = [\"store\"]\n";
    text.replace(&servers(origin::ADDRESS), &servers(origin::CACHED_ADDRESS))
        .replace("[[http.route]]\n", filter)
}

fn with_tls_upstream(setup: &Setup, text: &str) -> String {
    let servers = |address| format!("servers = [\"{address}\"]\n");
    let (ca, name) = (setup.credentials.ca.display(), setup.credentials.p256.name);
    let tls = format!("tls = {{ ca = \"{ca}\", server_name = \"{name}\" }}\n");
    let over_tls = servers(origin::TLS_ADDRESS) + "protocol = \"h1s\"\n" + &tls;
    text.replace(&servers(origin::ADDRESS), &over_tls)
}

/// The identity of a Steppe in a run: its kind, its transport and its admin port.
#[derive(Clone, Copy)]
struct Named {
    proxy: Proxy,
    transport: Transport,
    admin_port: u16,
}

impl Named {
    /// The example with the ports of this Steppe.
    fn renumbered(self, example: &str) -> String {
        let quoted = |address: SocketAddr| format!("\"{address}\"");
        let listen = |proxy: Proxy, transport| quoted(proxy.address(transport));
        let admin = |port| quoted(super::loopback(port));
        example
            .replace(
                &listen(Proxy::Steppe, Transport::Plain),
                &listen(self.proxy, self.transport),
            )
            .replace(&admin(ADMIN_PORT), &admin(self.admin_port))
    }

    /// Every address that the file has to name.
    fn addresses(self) -> Vec<SocketAddr> {
        let mut addresses = vec![
            self.proxy.address(self.transport),
            self.transport.origin(),
            super::loopback(self.admin_port),
        ];
        if self.transport == Transport::TlsDownstream {
            addresses.push(self.proxy.rsa_address());
        }
        if self.transport.has_h2_listeners() {
            addresses.push(self.proxy.clear_address(self.transport));
        }
        addresses
    }
}

/// The `steppe` of the setup, or one that is built now.
pub fn program(setup: &Setup) -> Result<PathBuf> {
    match &setup.steppe {
        Some(program) => fs::canonicalize(program)
            .with_context(|| format!("no program at {}", program.display())),
        None => cargo::built(&setup.root, &setup.target_dir, "steppe"),
    }
}

/// Copies both builds to paths of one length; builds today's if none was named.
///
/// # Errors
/// When one of them is missing, or does not start.
pub fn place_builds(setup: &mut Setup, before: &Path) -> Result<()> {
    ensure_runs(before)?;
    let now = program(setup)?;
    setup.steppe = Some(Build::Now.copied(&now, &setup.run_dir)?);
    setup.before = Some(Build::Before.copied(before, &setup.run_dir)?);
    Ok(())
}

/// Checks the program of another commit, before anything is built.
///
/// # Errors
/// When there is no file, or it does not say its version.
pub fn ensure_runs(before: &Path) -> Result<String> {
    ensure!(
        before.is_file(),
        "--before: no file at {}",
        before.display()
    );
    version(&std::path::absolute(before)?, &["version"]).context("--before")
}

fn launch(setup: &Setup, named: Named, edit: impl Fn(&str) -> String) -> Result<Launch> {
    let name = format!("{}{}", named.proxy.name(), named.transport.suffix());
    let program = match (named.proxy, &setup.before) {
        (Proxy::Before, Some(before)) => before.clone(),
        (Proxy::Before, None) => bail!("no program of before"),
        _ => program(setup)?,
    };
    ensure_free(super::loopback(named.admin_port), "steppe's admin")?;
    let example = setup.root.join("examples/gateway-bench-h1.toml");
    let text = fs::read_to_string(&example)
        .with_context(|| format!("cannot read {}", example.display()))?;
    let text = edit(&named.renumbered(&text));
    for address in named.addresses() {
        let is_named = text.contains(&format!("\"{address}\""));
        ensure!(
            is_named,
            "{} names no \"{address}\", which this bench needs",
            example.display()
        );
    }
    let config = write_config(setup, &format!("{name}.toml"), &text)?;
    Ok(Launch {
        name,
        version: version(&program, &["version"])?,
        program,
        arguments: vec!["run".into(), "-c".into(), config.into()],
        environment: Vec::new(),
        address: named.proxy.address(named.transport),
    })
}

const ADMIN_PORT: u16 = 28900;
const ADMIN_PORT_WITH_LOG: u16 = 28901;
const ADMIN_PORT_TLS: u16 = 28902;
const ADMIN_PORT_TLS_UPSTREAM: u16 = 28903;
const ADMIN_PORT_H2: u16 = 28904;
const ADMIN_PORT_H2C_UPSTREAM: u16 = 28905;
const ADMIN_PORT_GRPC: u16 = 28906;
const ADMIN_PORT_CACHED: u16 = 28907;
/// Offset from an admin port to that of the other build.
const BEFORE_PORTS_ON: u16 = 20;

#[cfg(test)]
mod tests {
    use super::super::credentials::Credentials;
    use super::*;

    const EXAMPLE: &str = include_str!("../../../examples/gateway-bench-h1.toml");

    fn setup() -> Setup {
        let certificate = |name: &'static str| Certificate {
            name,
            cert: format!("{name}.crt").into(),
            key: format!("{name}.key").into(),
            bundle: format!("{name}.pem").into(),
        };
        Setup {
            run_dir: "run".into(),
            target_dir: "target".into(),
            cache_dir: "cache".into(),
            root: ".".into(),
            connections_max: 1,
            origin_connections_max: 1,
            files_max: 1,
            steppe: None,
            before: None,
            credentials: Credentials {
                ca: "ca.crt".into(),
                p256: certificate("p256"),
                rsa: certificate("rsa"),
            },
        }
    }

    fn named(transport: Transport) -> Named {
        Named {
            proxy: Proxy::Steppe,
            transport,
            admin_port: ADMIN_PORT_TLS,
        }
    }

    #[test]
    fn the_example_gets_a_listener_for_each_certificate() {
        let text = named(Transport::TlsDownstream).renumbered(EXAMPLE);
        let text = with_tls_listeners(&setup(), Proxy::Steppe, &text);
        let expected = r#"[[http.listener]]
listen = "127.0.0.1:28180"
protocols = ["h1"]
[http.listener.tls]
certificates = [{ cert = "p256.crt", key = "p256.key" }]
min_version = "1.2"
[[http.listener]]
listen = "127.0.0.1:28280"
protocols = ["h1"]
limits = { connections = 256 }
[http.listener.tls]
certificates = [{ cert = "rsa.crt", key = "rsa.key" }]
min_version = "1.2"
[http.upstream.origin]
servers = ["127.0.0.1:28001"]
"#;
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("listen = \"127.0.0.1:28902\""), "{text}");
    }

    #[test]
    fn the_example_gets_http2_on_both_sides() {
        let both = named(Transport::H2cUpstream);
        let text = with_http2(&setup(), both, &both.renumbered(EXAMPLE));
        let expected = r#"[[http.listener]]
listen = "127.0.0.1:28680"
protocols = ["h1", "h2"]
[http.listener.tls]
certificates = [{ cert = "p256.crt", key = "p256.key" }]
min_version = "1.2"
[[http.listener]]
listen = "127.0.0.1:28780"
protocols = ["h1", "h2c"]
limits = { connections = 256 }
[http.upstream.origin]
servers = ["127.0.0.1:28003"]
protocol = "h2c"
keepalive = 256
"#;
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("memory_budget = \"1GiB\""), "{text}");
        let grpc = named(Transport::Grpc);
        let text = with_http2(&setup(), grpc, &grpc.renumbered(EXAMPLE));
        assert!(!text.contains("tls"), "{text}");
        assert!(text.contains("servers = [\"127.0.0.1:28004\"]"), "{text}");
    }

    #[test]
    fn the_other_build_has_the_same_configuration_at_other_ports() {
        let before = Named {
            proxy: Proxy::Before,
            transport: Transport::TlsDownstream,
            admin_port: ADMIN_PORT_TLS + BEFORE_PORTS_ON,
        };
        let text = before.renumbered(EXAMPLE);
        let text = with_tls_listeners(&setup(), before.proxy, &text);
        for address in before.addresses() {
            assert!(
                text.contains(&format!("\"{address}\"")),
                "{address}: {text}"
            );
        }
        let now = named(Transport::TlsDownstream).renumbered(EXAMPLE);
        let now = with_tls_listeners(&setup(), Proxy::Steppe, &now);
        assert_eq!(now.len(), text.len());
    }

    #[test]
    fn the_example_gets_a_cache() {
        let text = with_cache(&named(Transport::Cached).renumbered(EXAMPLE));
        let expected = r#"[http.filter.store]
kind = "cache"
bytes = "64MiB"
[[http.route]]
filters = ["store"]
name = "all"
"#;
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("servers = [\"127.0.0.1:28005\"]"), "{text}");
    }

    #[test]
    fn the_example_gets_tls_to_its_upstream() {
        let text = named(Transport::TlsUpstream).renumbered(EXAMPLE);
        let text = with_tls_upstream(&setup(), &text);
        let expected = r#"[[http.listener]]
listen = "127.0.0.1:28380"
protocols = ["h1"]
[http.upstream.origin]
servers = ["127.0.0.1:28002"]
protocol = "h1s"
tls = { ca = "ca.crt", server_name = "p256" }
keepalive = 256
"#;
        assert!(text.contains(expected), "{text}");
    }
}
