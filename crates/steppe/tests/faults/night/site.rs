//! A node, five servers of HTTP/1.1 and three of HTTP/2, and their faults.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use steppe_testkit::{
    Authority, Leaf, NameServer, Namespace, Nginx, NodeConfig, Port, Section, SteadyClient,
    SteadyLoad, SteadyProtocol, Steppe, TlsClient, Wire, observe_until, skip,
};

use crate::bench::{good, servers, settings};
use crate::peers::{Mood, Moody};

pub const CONTENT: &str = "hello";
const NAME: &str = "app.steppe.test";
const NAMED: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 3);

/// A fault of the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Killed,
    Hung,
    Slow,
    Lossy,
    Resetting,
    Garbage,
    Leaving,
    NamesGone,
    Reload,
    BrokenReload,
    StreamsRefused,
    GoingAway,
}

impl Fault {
    pub const ALL: [Self; 12] = [
        Self::Killed,
        Self::Slow,
        Self::Resetting,
        Self::Reload,
        Self::Hung,
        Self::StreamsRefused,
        Self::Lossy,
        Self::Garbage,
        Self::NamesGone,
        Self::Leaving,
        Self::GoingAway,
        Self::BrokenReload,
    ];

    /// The duration of the fault, in halves of that of the gentle ones.
    pub fn halves(self) -> u32 {
        match self {
            Self::Slow | Self::Lossy | Self::NamesGone => 2,
            _ => 1,
        }
    }
}

pub struct Site {
    pub node: Steppe,
    plain: NodeConfig,
    /// The address of the listener over TLS.
    secure: SocketAddr,
    moody: Moody,
    moody_h2: Moody,
    /// The servers that fail: one of HTTP/1.1, one of HTTP/2.
    ill: [Nginx; 2],
    _good: [Nginx; 2],
    // Servers end before the namespace does.
    _far: Option<Nginx>,
    line: Option<Namespace>,
    _named: Nginx,
    names: Option<NameServer>,
    _port: Port,
}

/// A configuration with upstreams of both versions, and a listener of TLS besides that of the test run.
fn config(servers: Vec<String>, servers_of_h2: [SocketAddr; 3]) -> NodeConfig {
    let settings = |u: Section| settings(u).set("balance", "least-request");
    let shown = Section::new()
        .set("cert", "{scratch}/night.crt")
        .set("key", "{scratch}/night.key");
    let version_2 = match Wire::of_run() {
        Wire::Plain => "h2c",
        Wire::Tls => "h2",
    };
    NodeConfig::plain()
        .workers(2)
        .protocols(["h1", version_2])
        .add_listener("127.0.0.1:{secure}", |l| {
            l.protocols(["h1", "h2"]).set("tls.certificates", [shown])
        })
        .upstream("origin", |u| settings(u.servers(servers)))
        .add_upstream("streams", |u| {
            settings(u.servers(servers_of_h2)).set("protocol", "h2c")
        })
        .add_route("streams", |r| r.path("/streams").upstream("streams"))
}

impl Site {
    /// Builds the site; parts that this machine can't provide are left out, and reported.
    pub fn build() -> Self {
        let (line, names) = (Namespace::new(), NameServer::start(&[(NAME, NAMED)]));
        let reasons = [line.as_ref().err(), names.as_ref().err()];
        let reasons: Vec<_> = reasons.into_iter().flatten().cloned().collect();
        if !reasons.is_empty() {
            skip("a_night, some faults of it", &reasons.join("; "));
        }
        let (line, names) = (line.ok(), names.ok());
        let page = "location / { return 200 hello; }";
        let far = line.as_ref().map(|line| Nginx::start_within(line, page));
        let port = Port::free();
        let named = Nginx::start_at((NAMED, port.number()).into(), page);
        let (ill, other, moody) = (good(), good(), Moody::start());
        let good_h2 = || Nginx::start_h2c(page);
        let (ill_h2, other_h2, moody_h2) = (good_h2(), good_h2(), Moody::start_h2c());
        let of_h2 = [
            ill_h2.address(),
            other_h2.address(),
            moody_h2.origin.address(),
        ];
        let mut addresses = vec![ill.address(), other.address(), moody.origin.address()];
        addresses.extend(far.iter().map(Nginx::address));
        let mut addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        if names.is_some() {
            addresses.push(format!("{NAME}:{}", port.number()));
        }
        let plain = config(addresses, of_h2);
        let issued = Authority::new("night").issue(&Leaf::named(&["localhost"]));
        let builder = Steppe::builder()
            .with_file("night.crt", &issued.cert)
            .with_file("night.key", &issued.key);
        let (mut builder, secure) = builder.with_port("secure");
        if let Some(names) = &names {
            builder = builder.asking(names);
        }
        let node = builder.start(&plain);
        Self {
            plain,
            node,
            secure: (Ipv4Addr::LOCALHOST, secure).into(),
            moody,
            moody_h2,
            ill: [ill, ill_h2],
            _good: [other, other_h2],
            _far: far,
            line,
            _named: named,
            names,
            _port: port,
        }
    }

    /// Begins a fault; false if this machine can't.
    pub fn begin(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Killed => self.ill.iter_mut().for_each(Nginx::kill),
            Fault::Hung => self.ill.iter().for_each(Nginx::hang),
            Fault::Resetting => self.be(Mood::Reset),
            Fault::Garbage => self.be(Mood::Garbage),
            Fault::Leaving => self.be(Mood::Leave),
            Fault::StreamsRefused => self.moody_h2.be(Mood::Refuse),
            Fault::GoingAway => self.moody_h2.be(Mood::GoAway),
            Fault::Reload => self.reload(&self.other_routes(), 200),
            Fault::BrokenReload => {
                let broken = self.plain.clone();
                self.reload(&broken.route("all", |r| r.upstream("orgin")), 422);
            }
            Fault::Slow | Fault::Lossy => {
                let Some(line) = &mut self.line else {
                    return false;
                };
                match fault {
                    Fault::Slow => line.delay(Duration::from_millis(300)),
                    _ => line.lose(2),
                }
            }
            Fault::NamesGone => match &mut self.names {
                Some(names) => names.kill(),
                None => return false,
            },
        }
        true
    }

    /// Ends the fault that [`Site::begin`] began.
    pub fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Killed => self.ill.iter_mut().for_each(Nginx::restart),
            Fault::Hung => self.ill.iter().for_each(Nginx::go_on),
            Fault::Resetting | Fault::Garbage | Fault::Leaving => self.be(Mood::Well),
            Fault::StreamsRefused | Fault::GoingAway => self.moody_h2.be(Mood::Well),
            Fault::Reload | Fault::BrokenReload => self.reload(&self.plain, 200),
            Fault::Slow | Fault::Lossy => self.line.as_mut().expect("it was there").mend(),
            Fault::NamesGone => self.names.as_mut().expect("it was there").restart(),
        }
        // The origins keep every byte that reached them.
        self.moody.origin.forget();
        self.moody_h2.origin.forget();
    }

    fn be(&self, mood: Mood) {
        self.moody.be(mood);
        self.moody_h2.be(mood);
    }

    /// Clients of each protocol, over TCP and over TLS, of servers of each protocol.
    pub fn clients(&self) -> Vec<SteadyClient> {
        let tls = Some(TlsClient::new());
        let run = match Wire::of_run() {
            Wire::Plain => None,
            Wire::Tls => tls.clone(),
        };
        let mut clients = Vec::new();
        for (address, tls) in [(self.node.gateway(), run), (self.secure, tls)] {
            for protocol in [SteadyProtocol::Http1, SteadyProtocol::Http2] {
                for path in ["/", "/streams"] {
                    clients.push(SteadyClient {
                        address,
                        protocol,
                        tls: tls.clone(),
                        path,
                    });
                }
            }
        }
        clients
    }

    fn other_routes(&self) -> NodeConfig {
        let plain = self.plain.clone();
        plain.add_route("more", |r| r.path("/more").upstream("origin"))
    }

    fn reload(&self, config: &NodeConfig, status: u16) {
        self.node.set_config(config);
        let answer = self.node.admin_post("/reload");
        assert_eq!(answer.status(), status, "{}", answer.text());
    }

    /// Waits until each server is back, and gets requests again.
    pub fn wait_until_well(&self, load: &SteadyLoad) {
        let asked = |server: &serde_json::Value| server["requests"].as_u64().expect("a number");
        let before: Vec<_> = servers(&self.node).iter().map(asked).collect();
        let is_well = |(server, before): (&serde_json::Value, &u64)| {
            server["state"] == "healthy" && asked(server) > before + 20
        };
        observe_until(
            "all are well",
            || (servers(&self.node), load.failures()),
            |(now, _)| now.iter().zip(&before).all(is_well),
        );
    }
}
