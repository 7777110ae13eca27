//! The banner of a started node: its addresses, and commands to try.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use steppe_net::ListenAddress;

use super::prepare::Prepared;
use super::sample::Sample;
use crate::demo::Certificate;
use crate::services::{self, Endpoint};

/// The text of the banner: a table of addresses, and a few commands.
pub(super) fn banner(node: &Prepared) -> String {
    let mut text = String::new();
    let workers = node.workers;
    let mebibytes = node.budget.root().limit_bytes() >> 20;
    let _ = writeln!(
        text,
        "steppe: {workers} workers, memory budget {mebibytes} MiB\n"
    );
    let endpoints = services::endpoints(&node.config);
    for endpoint in &endpoints {
        let address = endpoint.address.to_string();
        let serves = match endpoint.scheme {
            "https" => format!("{}, https", endpoint.serves),
            _ => endpoint.serves.clone(),
        };
        row(&mut text, endpoint.service, &address, &serves);
    }
    if let Some(admin) = &node.config.admin {
        let serves = "/metrics /memory /config /healthz /readyz";
        let serves = match &admin.tls {
            Some(_) => format!("{serves}, https"),
            None => serves.to_owned(),
        };
        row(&mut text, "admin", &admin.listen.to_string(), &serves);
        if let Some(probes) = &admin.probes {
            row(&mut text, "probes", &probes.to_string(), "/healthz /readyz");
        }
    }
    if let Some(demo) = &node.demo {
        let address = demo.address().to_string();
        row(
            &mut text,
            "demo origin",
            &address,
            "upstream of the gateway",
        );
    }
    try_this(&mut text, node, &endpoints);
    text
}

fn row(text: &mut String, what: &str, address: &str, more: &str) {
    let _ = writeln!(text, "  {what:<12} {address:<22} {more}");
}

fn try_this(text: &mut String, node: &Prepared, endpoints: &[Endpoint]) {
    let is_demo = node.demo.is_some();
    let mut commands = Vec::new();
    let tried = if is_demo { endpoints.len() } else { 1 };
    let forwarder = endpoints
        .iter()
        .skip(tried)
        .find(|each| each.scheme == "dns");
    for endpoint in endpoints.iter().take(tried).chain(forwarder) {
        if endpoint.scheme == "dns" {
            let name = if is_demo { DEMO_NAME } else { "example.com" };
            commands.extend(dig(&endpoint.address, name));
            continue;
        }
        if endpoint.scheme == "plane" {
            continue;
        }
        let origin = Origin::of(endpoint, node.certificate.as_ref());
        let sample = Sample::at(&endpoint.address, &node.config.http);
        commands.extend(sample.map(|sample| origin.curl_sample(&sample)));
    }
    let web = endpoints
        .iter()
        .find(|each| matches!(each.scheme, "http" | "https"));
    if let Some(first) = web.filter(|_| is_demo) {
        commands.push(
            Origin::of(first, None)
                .curl("/events")
                .replacen(' ', " -N ", 1),
        );
    }
    if let Some(admin) = &node.config.admin {
        let (scheme, trust) = match &admin.tls {
            Some(_) => ("https", "-k "),
            None => ("http", ""),
        };
        let admin = Origin {
            scheme,
            address: reachable(&admin.listen),
            trust: trust.to_owned(),
        };
        commands.push(admin.curl("/memory"));
        if !is_demo {
            commands.push(admin.curl("/metrics"));
        }
    }
    let _ = writeln!(text, "\nTry:");
    for command in commands {
        let _ = writeln!(text, "  {command}");
    }
    let _ = writeln!(text, "\nCtrl-C drains and stops.");
}

/// A name that the embedded default has an address for.
const DEMO_NAME: &str = "demo.home.arpa";

/// A `dig` command that queries the forwarder.
fn dig(address: &ListenAddress, name: &str) -> Option<String> {
    let ListenAddress::Tcp(tcp) = address else {
        return None;
    };
    let ip = match tcp.ip() {
        ip if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    Some(format!("dig @{ip} -p {} {name}", tcp.port()))
}

/// An origin for curl commands.
struct Origin {
    scheme: &'static str,
    address: String,
    /// The option for trust in its certificate, with a space behind it.
    trust: String,
}

impl Origin {
    fn of(endpoint: &Endpoint, certificate: Option<&Certificate>) -> Self {
        let trust = match (endpoint.scheme, certificate) {
            ("https", Some(made)) => format!("--cacert {} ", made.cert()),
            // The names of the certificate are hardly those of this machine.
            ("https", None) => "-k ".to_owned(),
            _ => String::new(),
        };
        Self {
            scheme: endpoint.scheme,
            address: reachable(&endpoint.address),
            trust,
        }
    }

    /// A curl command with a request that a route takes.
    fn curl_sample(&self, sample: &Sample) -> String {
        let Some(host) = &sample.host else {
            return self.curl(&sample.path);
        };
        let Self {
            scheme,
            address,
            trust,
        } = self;
        let path = &sample.path;
        match address.rsplit_once(':') {
            Some((ip, port)) if !address.starts_with("unix:") => {
                format!("curl {trust}--resolve {host}:{port}:{ip} {scheme}://{host}:{port}{path}")
            }
            _ => {
                let socket = address.trim_start_matches("unix:");
                format!("curl {trust}--unix-socket {socket} {scheme}://{host}{path}")
            }
        }
    }

    fn curl(&self, path: &str) -> String {
        let Self {
            scheme,
            address,
            trust,
        } = self;
        match address.strip_prefix("unix:") {
            Some(socket) => {
                format!("curl {trust}--unix-socket {socket} {scheme}://localhost{path}")
            }
            None => format!("curl {trust}{scheme}://{address}{path}"),
        }
    }
}

/// The address of a listener, as reached from this machine.
fn reachable(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(tcp) if tcp.ip().is_unspecified() => format!("127.0.0.1:{}", tcp.port()),
        other => other.to_string(),
    }
}
