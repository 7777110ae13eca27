//! TLS to servers (`protocol = "h1s"`), with servers of other authors: nginx, Node.js and `openssl
//! s_server`. Scripted servers are for connections that end in the wrong way.

mod connections;
mod ends;
mod introduced;
mod servers;
mod trust;

use std::net::SocketAddr;

use steppe_testkit::{
    Authority, Issued, Leaf, Message, Nginx, NodeConfig, Port, Scratch, Setting, Steppe, eventually,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A certificate for the names of this machine.
fn local() -> Leaf {
    Leaf::named(&["localhost", "127.0.0.1"])
}

/// nginx with TLS at an address of its own.
struct TlsNginx {
    nginx: Nginx,
    files: Scratch,
    port: Port,
}

impl TlsNginx {
    /// Starts nginx with `issued`; `{files}` in `lines` stands for a directory with `ca.pem` of
    /// `authority`.
    fn start(authority: &Authority, issued: &Issued, lines: &str) -> Self {
        Self::listening("ssl", (authority, issued), lines)
    }

    fn listening(
        parameters: &str,
        (authority, issued): (&Authority, &Issued),
        lines: &str,
    ) -> Self {
        let (port, files) = (Port::free(), Scratch::new("nginx-tls"));
        let cert = files.write("cert.pem", &issued.cert);
        let key = files.write("key.pem", &issued.key);
        files.write("ca.pem", authority.pem());
        let lines = lines.replace("{files}", &files.path().to_string_lossy());
        let server = format!(
            "listen {} {parameters}; ssl_certificate {}; ssl_certificate_key {}; {lines}",
            port.address(),
            cert.display(),
            key.display()
        );
        Self {
            nginx: Nginx::start(&server),
            files,
            port,
        }
    }

    /// Replaces the certificate.
    fn renew(&self, issued: &Issued) {
        self.files.write("cert.pem", &issued.cert);
        self.files.write("key.pem", &issued.key);
        self.nginx.reload();
    }

    fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

/// A node whose upstream speaks TLS, with these keys in its `tls` table and these further ones.
///
/// `{scratch}` has `ca.pem` of `authority`.
fn node(authority: &Authority, server: impl Into<Setting>, (tls, further): (&str, &str)) -> Steppe {
    start(authority, [server], &config(tls, further))
}

fn start(authority: &Authority, servers: impl Into<Setting>, config: &NodeConfig) -> Steppe {
    let config = config.clone().upstream("origin", |u| u.servers(servers));
    let builder = Steppe::builder().with_file("ca.pem", &authority.pem());
    builder.start(&config)
}

/// The deadline of handshakes is generous, since machines of tests stall.
fn config(tls: &str, further: &str) -> NodeConfig {
    NodeConfig::plain().upstream("origin", |u| {
        let u = u
            .set("protocol", "h1s")
            .with_toml(&format!("tls = {{ {tls} }}\n{further}"));
        match further.contains("timeouts") {
            true => u,
            false => u.set("timeouts.connect", "15s"),
        }
    })
}

const CA: &str = "ca = \"{scratch}/ca.pem\"";

fn get(node: &Steppe) -> Message {
    node.exchange(GET)
}

/// The entry of the only server in `/upstreams`.
fn server(node: &Steppe) -> serde_json::Value {
    node.admin_json("/upstreams")["upstreams"][0]["servers"][0].take()
}

fn reason(node: &Steppe) -> String {
    server(node)["reason"].as_str().unwrap_or("none").to_owned()
}
