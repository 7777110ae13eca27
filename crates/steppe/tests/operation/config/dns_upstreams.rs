//! Every key of `[dns.upstream]` reaches the forwarder's configuration.

use std::path::Path;
use std::time::Duration;

use steppe_dns::config::{
    Addresses, CaseRandomization, ClientSubnet, Policy, Server, Transport, Truncated, Trust,
    Upstream,
};
use steppe_net::ServerAddress;
use steppe_node::config;

/// The rest of a file.
const REST: &str = r#"
[[dns.listener]]
listen = "127.0.0.1:5300"
[[dns.rule]]
block = "refused"
"#;

/// The upstreams of a file.
fn upstreams(text: &str) -> Vec<Upstream> {
    let outcome = config::read("/etc/steppe/dns.toml", &format!("{text}{REST}"));
    assert_eq!(outcome.report.mistakes(), [], "{}", outcome.report);
    outcome.config.expect("without mistakes").dns.upstreams
}

fn at(transport: Transport, address: &str) -> Server {
    Server::at(transport, address.parse().expect("an address"))
}

fn secure(transport: Transport, name: &str, address: &str, path: &str) -> Server {
    Server {
        name: Some(name.to_owned()),
        path: path.to_owned(),
        ..at(transport, address)
    }
}

#[test]
fn every_key_arrives() {
    let text = r#"
[dns.upstream.all]
servers = [
    "udp://192.0.2.1", "tcp://[2001:db8::1]:54", "tls://dns.example@192.0.2.2",
    "https://dns.example@192.0.2.3/q", "https://Dns.Example",
]
policy = "race"
concurrent = 3
timeout = "3s"
retry_tcp = false
case_randomization = false
ecs = { add = "20/48" }
private = true
bootstrap = ["192.0.2.53", "[2001:db8::53]:54"]
tls = { ca = "ca.pem", verify = false, pins = ["sha256/MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="] }
cache = { max_ttl = "30s" }
"#;
    let named = Server {
        address: ServerAddress::Name {
            host: "dns.example".to_owned(),
            port: 443,
        },
        name: None,
        ..secure(Transport::Https, "", "192.0.2.1:443", "/dns-query")
    };
    let want = Upstream {
        name: "all".to_owned(),
        servers: vec![
            at(Transport::Udp, "192.0.2.1:53"),
            at(Transport::Tcp, "[2001:db8::1]:54"),
            secure(Transport::Tls, "dns.example", "192.0.2.2:853", ""),
            secure(Transport::Https, "dns.example", "192.0.2.3:443", "/q"),
            named,
        ],
        policy: Policy::Race,
        concurrent: 3,
        timeout: Duration::from_secs(3),
        truncated: Truncated::Pass,
        case: CaseRandomization::Off,
        addresses: Addresses::Any,
        max_ttl: Some(Duration::from_secs(30)),
        trust: Trust {
            ca: Some(Path::new("/etc/steppe/ca.pem").to_owned()),
            verify: false,
            pins: vec![*b"0123456789abcdefghijklmnopqrstuv"],
        },
        bootstrap: ["192.0.2.53:53", "[2001:db8::53]:54"]
            .map(|text| text.parse().expect("an address"))
            .to_vec(),
        client_subnet: ClientSubnet::Add { ipv4: 20, ipv6: 48 },
    };
    assert_eq!(upstreams(text), [want]);
}

#[test]
fn what_is_absent_has_defaults_and_choices_arrive() {
    let servers = vec![at(Transport::Udp, "192.0.2.1:53")];
    let plain = upstreams("[dns.upstream.plain]\nservers = [\"udp://192.0.2.1\"]\n");
    assert_eq!(plain, [Upstream::of("plain", servers.clone())]);
    let pass = "[dns.upstream.plain]\nservers = [\"udp://192.0.2.1\"]\necs = \"pass\"\n";
    let want = Upstream {
        client_subnet: ClientSubnet::Pass,
        ..Upstream::of("plain", servers.clone())
    };
    assert_eq!(upstreams(pass), [want]);
    for (name, policy) in [
        ("hedge", Policy::Hedge),
        ("fastest", Policy::Fastest),
        ("round-robin", Policy::RoundRobin),
        ("failover", Policy::Failover),
    ] {
        let text =
            format!("[dns.upstream.plain]\nservers = [\"udp://192.0.2.1\"]\npolicy = \"{name}\"\n");
        let want = Upstream {
            policy,
            ..Upstream::of("plain", servers.clone())
        };
        assert_eq!(upstreams(&text), [want]);
    }
}

#[test]
fn name_servers_of_a_file_follow_those_that_are_listed() {
    let scratch = steppe_testkit::Scratch::new("resolv-conf");
    let file = scratch.write(
        "resolv.conf",
        "nameserver 192.0.2.7\nnameserver 127.0.0.1\n",
    );
    let file = file.display();
    let text =
        format!("[dns.upstream.both]\nservers = [\"tcp://192.0.2.1\"]\nresolv_conf = \"{file}\"\n");
    let want = |others: &[&str]| {
        let mut servers = vec![at(Transport::Tcp, "192.0.2.1:53")];
        servers.extend(others.iter().map(|it| at(Transport::Udp, it)));
        [Upstream::of("both", servers)]
    };
    let both = want(&["192.0.2.7:53", "127.0.0.1:53"]);
    assert_eq!(upstreams(&text), both);
    // The forwarder does not forward to itself.
    let all = "[[dns.listener]]\nlisten = \"0.0.0.0:53\"\nprotocols = [\"udp\"]\n";
    let others = want(&["192.0.2.7:53"]);
    assert_eq!(upstreams(&format!("{text}{all}")), others);
}
