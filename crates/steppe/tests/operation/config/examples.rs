//! The configurations of `examples/`, and the embedded one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::expect;
use steppe_dns::config::{Introduction, Protocol};
use steppe_http::config::{
    ClientCertMatch, FilterKind, H1, H2, HealthRequest, ListenerLimits, ListenerTimeouts,
    ListenerTls, Outlier, Servers, Target, UpstreamKind,
};
use steppe_net::ListenAddress;
use steppe_net::tls::config::{
    CertificateFiles, ClientAuth, ClientTrust, ListenerConfig, MinVersion, RevocationPolicy,
    ServerTrust,
};
use steppe_node::config::{
    self, Amendments, Config, DEFAULT, DEFAULT_NAME, Drawing, MemoryBudget, Workers,
};
use steppe_plane::config::{
    Listener as PlaneListener, Peers, Plane, Queue, Rule, Services, Workers as PlaneWorkers,
};
use steppe_plane::{DialedWorker, Directory};
use steppe_testkit::{NodeConfig, Section};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(example(name)).expect("an example")
}

fn valid(name: &str, text: &str) -> Config {
    let outcome = config::read(name, text);
    assert_eq!(outcome.report.mistakes(), [], "{}", outcome.report);
    outcome.config.expect("without mistakes")
}

/// The largest example has one mistake: a protocol that is not supported yet.
#[test]
fn what_is_not_supported_yet_is_named_and_nothing_else() {
    let report = config::parse("gateway.toml", &text("gateway.toml")).expect_err("not yet");
    let messages: Vec<_> = report
        .mistakes()
        .iter()
        .map(|each| each.message.as_str())
        .collect();
    expect![[r#"
        "h3" in `protocols` is not supported yet"#]]
    .assert_eq(&messages.join("\n"));
}

#[test]
fn the_benchmark_of_h1_is_fine() {
    let config = valid("gateway-bench-h1.toml", &text("gateway-bench-h1.toml"));
    expect![[r#"
        {
          "node": {
            "workers": 1,
            "memory_budget": "256MiB",
            "client_share": "25%",
            "share_exempt": [],
            "drain_delay": "0s",
            "drain_timeout": "30s",
            "watch": true
          },
          "admin": {
            "listen": "127.0.0.1:28900"
          },
          "log": {
            "level": "warn",
            "format": "text",
            "access": "off"
          },
          "http": {
            "trusted_proxies": [],
            "listener": [
              {
                "listen": "127.0.0.1:28080",
                "protocols": [
                  "h1"
                ],
                "redirect_https": false,
                "proxy_protocol": false,
                "underscores": "drop",
                "limits": {
                  "header_bytes": "16KiB",
                  "header_count": 100,
                  "body_bytes": "64MiB",
                  "connections": 10000,
                  "streams": 100,
                  "handshakes": 1000
                },
                "timeouts": {
                  "handshake": "10s",
                  "header": "10s",
                  "idle": "1m",
                  "write_stall": "30s"
                }
              }
            ],
            "upstream": {
              "origin": {
                "servers": [
                  "127.0.0.1:28001"
                ],
                "protocol": "h1",
                "balance": "round-robin",
                "slow_start": "0s",
                "keepalive": 256,
                "timeouts": {
                  "connect": "1s",
                  "first_byte": "1m",
                  "idle": "1m"
                }
              }
            },
            "filter": {},
            "route": [
              {
                "name": "all",
                "path": "/{rest*}",
                "headers": {},
                "query": {},
                "filters": [],
                "upstream": "origin",
                "timeouts": {}
              }
            ]
          }
        }"#]]
    .assert_eq(&format!("{:#}", config.effective()));
}

#[test]
fn the_first_and_the_embedded_configuration_are_fine() {
    let first = valid("first.toml", &text("first.toml"));
    assert_eq!(first.http.routes.len(), 2);
    let embedded = valid(DEFAULT_NAME, DEFAULT);
    assert_eq!(embedded.node.memory_budget, MemoryBudget::Bytes(64 << 20));
    assert_eq!(
        embedded.http.listeners[0].address.to_string(),
        "127.0.0.1:8080"
    );
    let admin = embedded.admin.expect("admin");
    assert_eq!(admin.listen.to_string(), "127.0.0.1:9900");
}

/// The table of keys has the defaults as text, `steppe-http` as values.
#[test]
fn defaults_are_those_of_the_gateway() {
    let least = NodeConfig::default()
        .add_listener("[::]:0", |l| l)
        .add_upstream("a", |u| u.servers(["a:1"]))
        .add_route("a", |r| r.upstream("a"));
    let config = valid("a.toml", &least.to_string());
    assert_eq!(config.node.workers, Workers::Auto);
    assert_eq!(config.node.memory_budget, MemoryBudget::Share(0.75));
    assert_eq!(config.node.drain_timeout, Duration::from_secs(30));
    assert!(config.admin.is_none());
    let listener = &config.http.listeners[0];
    assert_eq!(listener.limits, ListenerLimits::default());
    assert_eq!(listener.timeouts, ListenerTimeouts::default());
    let UpstreamKind::Servers(servers) = &config.http.upstreams[0].kind else {
        panic!("it has servers");
    };
    assert_eq!(*servers, Servers::of([servers.servers[0].address.clone()]));
    assert_eq!(config.http.routes[0].path.to_string(), "/{rest*}");
    let with_outlier = least.upstream("a", |u| u.set("outlier", Section::new()));
    let config = valid("a.toml", &with_outlier.to_string());
    let UpstreamKind::Servers(servers) = &config.http.upstreams[0].kind else {
        panic!("it has servers");
    };
    assert_eq!(servers.outlier, Some(Outlier::default()));
}

/// Every key that there is.
const FULL: &str = include_str!("../../../../steppe-node/testdata/full.toml");

#[test]
fn every_key_arrives() {
    let config = valid("/etc/steppe/steppe.toml", FULL);
    let admin = config.admin.as_ref().expect("admin");
    assert_eq!(admin.listen.to_string(), "unix:/etc/steppe/admin.sock");
    assert_eq!(
        admin.token_file.as_deref(),
        Some(Path::new("/etc/steppe/secret/token"))
    );
    let FilterKind::Transform(transform) = &config.http.filters[0].kind else {
        panic!("not a transform")
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        transform.request.append,
        [pair("via-a", "1"), pair("via-a", "2")]
    );
    assert_eq!(transform.response.remove, ["server"]);
    assert_eq!(config.http.routes[0].filters, [0, 0]);
    assert_eq!(config.http.routes[0].total, Some(Duration::from_secs(20)));
    assert_eq!(config.http.routes[1].target, Target::Upstream(1));
    expect_test::expect_file!["../../data/full.effective.json"]
        .assert_eq(&format!("{:#}\n", config.effective()));
}

/// A certificate of `FULL`, in its folder.
fn certificate(cert: &str, key: &str, ocsp: Option<&str>) -> CertificateFiles {
    let path = |name: &str| Path::new("/etc/steppe/tls").join(name);
    CertificateFiles {
        cert: path(cert),
        key: path(key),
        ocsp: ocsp.map(path),
    }
}

const HTTP_1_1: &[u8] = b"http/1.1";

#[test]
fn every_key_of_tls_with_clients_arrives() {
    let config = valid("/etc/steppe/steppe.toml", FULL);
    let admin = config.admin.expect("admin").tls;
    assert_eq!(admin, Some(certificate("admin.crt", "admin.key", None)));
    // The other listeners are those of sites and of the forwarder.
    let [plain, tls, redirecting, ..] = &config.http.listeners[..] else {
        panic!("three listeners");
    };
    let redirects = [plain, tls, redirecting].map(|each| each.redirect_https.map(u16::from));
    assert_eq!(redirects, [Some(8443), None, Some(443)]);
    assert_eq!((&plain.tls, &redirecting.tls), (&None, &None));
    assert_eq!(plain.limits.handshakes, 6);
    assert_eq!(plain.limits.streams, 7);
    assert_eq!(plain.timeouts.handshake, Duration::from_secs(4));
    let session = ListenerConfig {
        certificates: vec![
            certificate("a.crt", "a.key", Some("a.ocsp")),
            certificate("b.crt", "/b.key", None),
        ],
        min_version: MinVersion::Tls13,
        client: ClientAuth::Optional(ClientTrust {
            ca: "/etc/steppe/tls/clients.crt".into(),
            crls: vec!["/etc/steppe/tls/clients.crl".into()],
            expired_crl: RevocationPolicy::Accept,
            unknown_status: RevocationPolicy::Accept,
        }),
        ticket_keys: Some("/etc/steppe/tls/tickets".into()),
        alpn: vec![HTTP_1_1.to_vec()],
    };
    let expected = ListenerTls {
        session,
        strict_transport_security: Some("max-age=31536000; includeSubDomains".to_owned()),
    };
    assert_eq!(tls.tls, Some(expected));
    let client_cert = ClientCertMatch {
        subject: Some("CN=api,O=Example".to_owned()),
        san: Some("spiffe://example/api".to_owned()),
        fingerprint: Some(*b"0123456789abcdefghijklmnopqrstuv"),
    };
    let mut routes = config.http.routes.iter().rev();
    let route = routes.find(|route| route.listeners.is_empty());
    let route = route.expect("a route");
    assert_eq!(route.client_cert, Some(client_cert));
    assert_eq!(config.http.routes[0].client_cert, None);
}

#[test]
fn every_key_of_listeners_of_the_forwarder_arrives() {
    let config = valid("/etc/steppe/steppe.toml", FULL);
    let [plain, over_tls, over_https] = &config.dns.listeners[..] else {
        panic!("three listeners");
    };
    assert_eq!(plain.address.to_string(), "127.0.0.1:5300");
    assert_eq!(plain.protocols, [Protocol::Udp, Protocol::Tcp]);
    assert_eq!(
        (&plain.tls, plain.introduction),
        (&None, Introduction::None)
    );
    assert_eq!(over_tls.protocols, [Protocol::Tls]);
    assert_eq!(over_tls.introduction, Introduction::ByProxy);
    assert_eq!(config.dns.trusted_proxies, config.http.trusted_proxies);
    let session = ListenerConfig {
        certificates: vec![certificate("a.crt", "a.key", Some("a.ocsp"))],
        min_version: MinVersion::Tls13,
        client: ClientAuth::Required(ClientTrust {
            ca: "/etc/steppe/tls/clients.crt".into(),
            crls: vec!["/etc/steppe/tls/clients.crl".into()],
            expired_crl: RevocationPolicy::Accept,
            unknown_status: RevocationPolicy::Accept,
        }),
        ticket_keys: Some("/etc/steppe/tls/tickets".into()),
        alpn: vec![b"dot".to_vec()],
    };
    assert_eq!(over_tls.tls, Some(session));
    assert_eq!(over_https.protocols, [Protocol::Https]);
    // A listener with DNS over HTTPS is one of the gateway, which has two routes for it.
    let listener = config.http.listeners.last().expect("a listener");
    let tls = listener.tls.as_ref().expect("TLS");
    assert_eq!(Some(&tls.session), over_https.tls.as_ref());
    assert_eq!(tls.session.alpn, [b"h2".to_vec(), HTTP_1_1.to_vec()]);
    let routes = config.http.routes.iter();
    let own = routes.filter(|route| route.listeners.contains(&listener.address));
    let paths: Vec<_> = own.map(|route| route.path.to_string()).collect();
    assert_eq!(paths, ["/dns-query", "/dns-query/{id}"]);
}

#[test]
fn every_key_of_tls_with_servers_arrives() {
    let config = valid("/etc/steppe/steppe.toml", FULL);
    let servers = |name: &str| {
        let upstream = config.http.upstreams.iter().find(|each| each.name == name);
        match &upstream.expect("it is there").kind {
            UpstreamKind::Servers(servers) => servers,
            UpstreamKind::Respond(_) | UpstreamKind::Guest(_) => panic!("{name} has servers"),
        }
    };
    assert_eq!(servers("a").tls, None);
    let expected = ServerTrust {
        ca: Some("/etc/steppe/tls/ca.crt".into()),
        server_name: Some("c.internal".to_owned()),
        identity: Some(certificate("node.crt", "node.key", None)),
        verify: false,
        pins: vec![*b"0123456789abcdefghijklmnopqrstuv"],
        min_version: MinVersion::Tls13,
        alpn: vec![HTTP_1_1.to_vec()],
    };
    assert_eq!(servers("c").tls, Some(expected));
    let default = ServerTrust {
        ca: None,
        server_name: None,
        identity: None,
        verify: true,
        pins: Vec::new(),
        min_version: MinVersion::Tls12,
        alpn: vec![b"h2".to_vec()],
    };
    assert_eq!(servers("d").tls, Some(default));
    let protocols = ["c", "a", "d"].map(|name| servers(name).protocol);
    assert_eq!(protocols, [H1, H1, H2]);
    let asks = servers("d")
        .health
        .as_ref()
        .map(|health| health.asks.clone());
    assert_eq!(asks, Some(HealthRequest::Grpc("a.Service".to_owned())));
}

/// A Unix socket has no name that a certificate could be verified for.
#[test]
fn a_server_on_a_unix_socket_has_a_name_or_is_not_verified() {
    let text = |tls: &str| {
        format!(
            "[[http.listener]]\nlisten = \"[::]:0\"\n\
             [http.upstream.a]\nservers = [\"unix:/a\"]\nprotocol = \"h1s\"\ntls = {{ {tls} }}\n\
             [[http.route]]\nname = \"a\"\nupstream = \"a\"\n"
        )
    };
    valid("a.toml", &text("server_name = \"a.internal\""));
    valid("a.toml", &text("verify = false"));
    let report = config::parse("a.toml", &text("ca = \"ca.crt\"")).expect_err("no name");
    assert_eq!(
        report.mistakes()[0].message,
        "`unix:/a` is not a name that certificates are verified for"
    );
}

#[test]
fn tls_of_a_listener_has_defaults() {
    let listener = |keys: &str| {
        let text = format!(
            "[[http.listener]]\nlisten = \"[::]:0\"\n\
             [http.listener.tls]\ncertificates = [{{ cert = \"a\", key = \"b\" }}]\n{keys}"
        );
        // A listener without routes is only a warning.
        let mut config = config::parse("a.toml", &text).expect("valid");
        let tls = config.http.listeners.remove(0).tls;
        tls.expect("it has TLS")
    };
    let tls = listener("");
    assert_eq!(tls.session.min_version, MinVersion::Tls12);
    assert_eq!(tls.session.client, ClientAuth::None);
    assert_eq!(tls.session.ticket_keys, None);
    assert_eq!(tls.strict_transport_security, None);
    let tls = listener("client_auth = \"required\"\nclient_ca = \"ca\"\n");
    let trust = ClientTrust {
        ca: "ca".into(),
        crls: Vec::new(),
        expired_crl: RevocationPolicy::Refuse,
        unknown_status: RevocationPolicy::Refuse,
    };
    assert_eq!(tls.session.client, ClientAuth::Required(trust));
}

/// The effective configuration has the keys of a file, and JSON reads as TOML does.
#[test]
fn the_effective_configuration_reads_back() {
    for text in [
        FULL,
        DEFAULT,
        &text("first.toml"),
        &text("gateway-bench-h1.toml"),
    ] {
        let config = valid("/etc/steppe.toml", text);
        let effective = config.effective();
        let again = valid("/etc/steppe.json", &effective.to_string());
        assert_eq!(again.effective(), effective);
    }
}

/// Options of the command line replace addresses, and the limit on open files lowers
/// `limits.connections`.
#[test]
fn what_the_process_changes_is_in_force_and_shown() {
    let at = |port: u16| Some(([127, 0, 0, 1], port).into());
    let outcome = config::embedded(&Amendments {
        listen: at(1),
        listen_tls: at(4),
        listen_dns: at(5),
        admin: at(2),
        demo: at(3),
        certificate: Some(["/a/cert.pem", "/a/key.pem"].map(str::to_owned)),
    });
    let mut config = outcome.config.expect("valid");
    config.set_connections(|listener| listener.limits.connections / 10);
    let [listener, over_tls] = &config.http.listeners[..] else {
        panic!("two listeners: {:?}", config.http.listeners);
    };
    assert_eq!(listener.address.to_string(), "127.0.0.1:1");
    assert_eq!(over_tls.address.to_string(), "127.0.0.1:4");
    assert_eq!(listener.limits.connections, 1_000);
    assert_eq!(config.dns.listeners[0].address.to_string(), "127.0.0.1:5");
    let tls = over_tls.tls.as_ref().expect("it has TLS");
    let [certificate] = &tls.session.certificates[..] else {
        panic!("one certificate: {tls:?}");
    };
    assert_eq!(certificate.cert, Path::new("/a/cert.pem"));
    assert_eq!(certificate.key, Path::new("/a/key.pem"));
    let shown = config.effective();
    assert_eq!(shown["http"]["listener"][0]["listen"], "127.0.0.1:1");
    assert_eq!(shown["http"]["listener"][0]["limits"]["connections"], 1_000);
    assert_eq!(shown["http"]["listener"][0]["limits"]["header_count"], 100);
    assert_eq!(shown["admin"]["listen"], "127.0.0.1:2");
    let upstreams = shown["http"]["upstream"].as_object().expect("a map");
    let servers = upstreams.values().filter_map(|each| each.get("servers"));
    let servers: Vec<_> = servers.map(ToString::to_string).collect();
    assert_eq!(servers, ["[\"127.0.0.1:3\"]"]);
    valid("shown.json", &shown.to_string());
}

#[test]
fn without_a_certificate_the_embedded_default_has_no_listener_over_tls() {
    let outcome = config::embedded(&Amendments::default());
    let listeners = outcome.config.expect("valid").http.listeners;
    assert_eq!(listeners.len(), 1);
    assert_eq!(listeners[0].tls, None);
}

/// An amended value is checked like one of a file.
#[test]
fn an_amendment_may_be_a_mistake() {
    let everywhere = ([0, 0, 0, 0], 9900).into();
    let outcome = config::embedded(&Amendments {
        admin: Some(everywhere),
        ..Amendments::default()
    });
    assert!(outcome.config.is_none());
    expect![[r#"
          × admin on 0.0.0.0:9900 is reachable from other machines without a token
           ╭─[default.toml:7:10]
         6 │ [admin]
         7 │ listen = "0.0.0.0:9900"
           ·          ───────┬──────
           ·                 ╰── neither loopback nor a Unix socket
         8 │ 
           ╰────
          help: set `token_file`, or listen on 127.0.0.1

        default.toml: 1 error
    "#]]
    .assert_eq(&outcome.report.render(Drawing::Plain));
}

#[test]
fn secrets_are_masked() {
    let shown = valid("a.toml", FULL).effective().to_string();
    for secret in ["Bearer", "0123", "a=1", "b=2"] {
        assert!(
            FULL.contains(secret) && !shown.contains(secret),
            "{secret}: {shown}"
        );
    }
    assert!(shown.contains("secret/token"), "paths are shown: {shown}");
}

#[test]
fn content_of_a_response_is_bounded() {
    let most = steppe_http::limits::RESPOND_BYTES_MAX;
    let responding = |bytes: usize| {
        format!(
            "[[http.listener]]\nlisten = \"[::]:0\"\n\
             [http.upstream.a]\nrespond.body = \"{}\"\n\
             [[http.route]]\nname = \"a\"\nupstream = \"a\"\n",
            "x".repeat(bytes)
        )
    };
    valid("a.toml", &responding(most));
    let report = config::parse("a.toml", &responding(most + 1)).expect_err("too long");
    assert_eq!(
        report.mistakes()[0].message,
        format!("`body` has {} bytes: at most {most}", most + 1)
    );
    // A line this long is not quoted.
    assert!(report.to_string().len() < 200, "{report}");
}

/// The request plane's part of [`FULL`].
#[test]
fn every_key_of_the_plane_arrives() {
    let config = valid("/etc/steppe/steppe.toml", FULL);
    let expected = Plane {
        listeners: vec![PlaneListener {
            address: ListenAddress::Tcp(([127, 0, 0, 1], 7700).into()),
            tls: Some(ListenerConfig {
                certificates: vec![CertificateFiles {
                    cert: "/etc/steppe/tls/a.crt".into(),
                    key: "/etc/steppe/tls/a.key".into(),
                    ocsp: Some("/etc/steppe/tls/a.ocsp".into()),
                }],
                min_version: MinVersion::Tls13,
                client: ClientAuth::Required(ClientTrust {
                    ca: "/etc/steppe/tls/clients.crt".into(),
                    crls: vec!["/etc/steppe/tls/clients.crl".into()],
                    expired_crl: RevocationPolicy::Accept,
                    unknown_status: RevocationPolicy::Accept,
                }),
                ticket_keys: Some("/etc/steppe/tls/tickets".into()),
                alpn: vec![b"steppe-plane".to_vec()],
            }),
        }],
        rules: vec![
            Rule {
                peers: Peers::ClientCert("embed.example".to_owned()),
                offer: vec![
                    Services::Named("embed".to_owned()),
                    Services::Prefixed("rank/".to_owned()),
                ],
                call: Vec::new(),
            },
            Rule {
                peers: Peers::Network("10.0.0.0/8".parse().expect("a network")),
                offer: Vec::new(),
                call: vec![Services::Prefixed(String::new())],
            },
        ],
        budget: Some(64 << 20),
        response_permille: 400,
        max_payload: 1 << 30,
        queue: Queue {
            bytes: 2 << 20,
            wait: Duration::from_millis(250),
        },
        workers: PlaneWorkers::Static(
            ["10.0.0.7:7701", "workers.example:7701"]
                .map(|address| DialedWorker {
                    address: address.to_owned(),
                    services: vec!["embed".to_owned()],
                })
                .to_vec(),
        ),
        worker_tls: Some(ServerTrust {
            ca: Some("/etc/steppe/tls/ca.crt".into()),
            server_name: Some("workers.internal".to_owned()),
            identity: Some(CertificateFiles {
                cert: "/etc/steppe/tls/node.crt".into(),
                key: "/etc/steppe/tls/node.key".into(),
                ocsp: None,
            }),
            verify: false,
            pins: vec![*b"0123456789abcdefghijklmnopqrstuv"],
            min_version: MinVersion::Tls13,
            alpn: vec![b"steppe-plane".to_vec()],
        }),
    };
    assert_eq!(config.plane, expected);
    let UpstreamKind::Guest(guest) = &config.http.upstreams[4].kind else {
        panic!("a service of the plane");
    };
    assert_eq!((guest.guest, &*guest.resource), ("plane", "embed"));
}

/// Workers that are found in etcd, with and without the defaults.
#[test]
fn every_key_of_etcd_arrives() {
    let config = valid(
        "a.toml",
        include_str!("../../../../steppe-node/testdata/full_etcd.toml"),
    );
    let endpoint = |text: &str| text.parse().expect("a URL");
    let expected = Directory {
        endpoints: vec![
            endpoint("http://10.0.0.1:2379"),
            endpoint("https://etcd.example:2379"),
        ],
        prefix: "/edge".to_owned(),
        lease: Duration::from_secs(30),
    };
    assert_eq!(config.plane.workers, PlaneWorkers::Found(expected));
    let config = valid("a.toml", "[discovery]\nkind = \"etcd\"\n");
    let expected = Directory {
        endpoints: vec![endpoint("http://127.0.0.1:2379")],
        prefix: "/steppe".to_owned(),
        lease: Duration::from_secs(10),
    };
    assert_eq!(config.plane.workers, PlaneWorkers::Found(expected));
}

/// The table of keys has the defaults as text, `steppe-plane` as values.
#[test]
fn the_plane_is_fine_and_its_defaults_are_those_of_its_crate() {
    let config = valid("plane.toml", &text("plane.toml"));
    let defaults = Plane::default();
    assert_eq!(config.plane.budget, Some(64 << 20));
    let listeners = config.plane.listeners.clone();
    let expected = Plane {
        listeners,
        budget: Some(64 << 20),
        ..defaults.clone()
    };
    assert_eq!(config.plane, expected);
    let config = valid("a.toml", "[[plane.listener]]\nlisten = \"[::]:0\"\n");
    let listeners = config.plane.listeners.clone();
    let expected = Plane {
        listeners,
        ..defaults.clone()
    };
    assert_eq!(config.plane, expected);
}
