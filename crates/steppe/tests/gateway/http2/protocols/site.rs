//! A node with listeners and upstreams of every protocol, and its servers.

use std::net::SocketAddr;

use steppe_testkit::{
    Authority, Leaf, Message, NodeConfig, Peer, Port, Process, Scratch, Section, Steppe, eventually,
};

use super::*;

/// One program of Node.js with servers of all protocols.
struct Origin {
    process: Process,
    /// In the order of `Upstream::ALL`.
    ports: [Port; 4],
    files: Scratch,
}

pub struct Site {
    pub node: Steppe,
    pub config: NodeConfig,
    origin: Origin,
    tls_port: u16,
}

fn config() -> NodeConfig {
    let shown = Section::new()
        .set("cert", "{scratch}/cert.pem")
        .set("key", "{scratch}/key.pem");
    NodeConfig::bare()
        .listener(|l| {
            l.protocols(["h1", "h2c"])
                .set("limits.body_bytes", "977KiB")
        })
        .add_listener("127.0.0.1:{tls}", |l| {
            l.protocols(["h1", "h2"])
                .set("tls.certificates", [shown])
                .set("limits.body_bytes", "977KiB")
        })
        .add_route("read-only", |r| {
            r.set("host", "get.example")
                .set("methods", ["GET", "HEAD"])
                .upstream("h1")
        })
        .add_route("by-address", |r| r.set("host", "127.0.0.1").upstream("h1"))
}

/// Adds an upstream and its routes. Deadlines of handshakes are generous, since machines of tests
/// stall.
fn add_upstream(config: NodeConfig, (&up, port): (&Upstream, &Port)) -> NodeConfig {
    let (name, host) = (up.protocol(), up.host());
    config
        .add_upstream(name, |u| {
            let u = u
                .servers([port.address()])
                .set("protocol", name)
                .set("timeouts.connect", "15s")
                .set("keepalive", 100);
            match up {
                Upstream::H1s | Upstream::H2 => u.set("tls.ca", "{scratch}/ca.pem"),
                Upstream::H1 | Upstream::H2c => u,
            }
        })
        .add_route(name, |r| r.set("host", &host).upstream(name))
        .add_route(&format!("tunnels-{name}"), |r| {
            r.set("host", &host)
                .set("methods", ["CONNECT"])
                .upstream(name)
        })
}

impl Origin {
    fn start(authority: &Authority) -> Self {
        let files = Scratch::new("node-js");
        let issued = authority.issue(&Leaf::named(&["localhost", "127.0.0.1"]));
        files.write("cert.pem", &issued.cert);
        files.write("key.pem", &issued.key);
        files.write("ca.pem", authority.pem());
        let ports = [(); 4].map(|()| Port::free());
        let mut command = Command::new("node");
        command
            .arg(testdata("origin.js"))
            .args(ports.iter().map(|port| port.number().to_string()))
            .current_dir(files.path());
        let process = Process::start("node", command);
        let listening = || process.said().matches("listens on").count();
        eventually("it listens on four ports", || listening() == 4);
        Self {
            process,
            ports,
            files,
        }
    }
}

impl Site {
    /// Starts the site; `None`, and a skipped `test`, if Node.js is not installed.
    pub fn start(test: &str) -> Option<Self> {
        is_there(test, "node").then(Self::new)
    }

    fn new() -> Self {
        let authority = Authority::new("protocols");
        let origin = Origin::start(&authority);
        let hosts = Upstream::ALL.map(Upstream::host);
        let mut names: Vec<&str> = hosts.iter().map(String::as_str).collect();
        names.extend(["get.example", "other.example"]);
        let issued = authority.issue(&Leaf::named(&names).serial(2));
        let builder = Steppe::builder()
            .with_file("ca.pem", &authority.pem())
            .with_file("cert.pem", &issued.cert)
            .with_file("key.pem", &issued.key);
        let (builder, tls_port) = builder.with_port("tls");
        let upstreams = Upstream::ALL.iter().zip(&origin.ports);
        let config = upstreams.fold(config(), add_upstream);
        Self {
            node: builder.start(&config),
            config,
            origin,
            tls_port,
        }
    }

    pub fn address(&self, down: Downstream) -> SocketAddr {
        let mut address = self.node.gateway();
        if down.is_tls() {
            address.set_port(self.tls_port);
        }
        address
    }

    pub fn port(&self, down: Downstream) -> u16 {
        self.address(down).port()
    }

    /// The path of the authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.origin.files.join("ca.pem")
    }

    pub fn url(&self, down: Downstream, host: &str, path: &str) -> String {
        format!("{}://{host}:{}{path}", down.scheme(), self.port(down))
    }

    pub fn curl(&self, down: Downstream, host: &str, path: &str) -> Curl {
        let resolve = format!("{host}:{}:127.0.0.1", self.port(down));
        let ca = self.ca();
        let ca = ca.to_str().expect("a path in ASCII");
        Curl::new(&self.url(down, host, path))
            .args([down.option(), "--resolve", &resolve, "--cacert", ca])
            .args(["--path-as-is"])
    }

    /// Runs the client of Node.js, with fields, trailers and content in JSON; returns the response
    /// as JSON.
    #[track_caller]
    pub fn node_js(&self, down: Downstream, request: [&str; 2], further: [&str; 3]) -> Value {
        let [method, url] = request;
        let protocol = if down.is_http2() { "h2" } else { "h1" };
        let mut command = Command::new("node");
        command
            .arg(testdata("client.js"))
            .args([protocol, url, method])
            .arg(self.ca())
            .args(further);
        let output = command.output().expect("it was looked for");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).expect("it writes JSON")
    }

    /// Writes a file that clients send.
    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        self.origin.files.write(name, content)
    }

    /// Ends the wait of the exchange with this word.
    #[track_caller]
    pub fn go(&self, word: &str) {
        let answer = self.ask_origin(&format!("/go?{word}"));
        assert_eq!(answer.status(), 200, "{}", self.origin.process.said());
    }

    /// The number of requests that the servers have answered with a description of the request.
    #[track_caller]
    pub fn echoed(&self) -> u64 {
        let answer = self.ask_origin("/echoed");
        let seen: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        seen["echoed"].as_u64().expect("a number")
    }

    /// Sends a request to the servers directly, past the node.
    fn ask_origin(&self, target: &str) -> Message {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut peer = Peer::connect(self.origin.ports[0].address());
        peer.send(request).response()
    }
}
