//! Every key of `http.listener.tls`, and those of the listener that are about TLS.

use steppe_testkit::{
    Authority, Curl, KeyKind, Leaf, NodeConfig, Peer, RawOrigin, SClient, Scratch, Setting, Steppe,
    TlsClient, Validity,
};

use super::{GET, GET_AND_CLOSE, NAME, OK, Site, expect_count, expect_outcome};

fn status(node: &Steppe, client: &TlsClient) -> u16 {
    let mut peer = client.connect(node.gateway(), NAME);
    peer.send(GET).response().status()
}

/// The error by which the node refuses `client`, which may arrive after the client's handshake is
/// over.
fn refusal(node: &Steppe, client: &TlsClient) -> String {
    match client.try_connect(node.gateway(), NAME) {
        Err(error) => error.to_string(),
        Ok(mut peer) => peer
            .end()
            .map_or_else(String::new, |error| error.to_string()),
    }
}

#[test]
fn certificates_are_chosen_by_the_name_that_is_asked_for() {
    let authority = Authority::new("servers");
    let exact = authority.issue(&Leaf::named(&["a.example"]));
    let other = authority.issue(&Leaf::named(&["b.example"]));
    let wild = authority.issue(&Leaf::named(&["*.a.example"]));
    let origin = RawOrigin::answering(OK);
    let site = Site::serving(&exact).and(&other).and(&wild);
    let node = site.start(origin.address());
    for (name, expected) in [
        ("a.example", &exact),
        ("A.EXAMPLE", &exact),
        ("b.example", &other),
        ("x.a.example", &wild),
        ("y.x.a.example", &exact),
        ("unknown.example", &exact),
    ] {
        let peer = TlsClient::new().connect(node.gateway(), name);
        assert!(peer.server_certificate() == expected.der, "{name}");
    }
    let peer = TlsClient::new()
        .without_sni()
        .connect(node.gateway(), "b.example");
    assert!(peer.server_certificate() == exact.der);
}

#[test]
fn a_client_gets_the_certificate_whose_kind_of_key_it_can_verify() {
    let authority = Authority::new("servers");
    let ec = authority.issue(&Leaf::named(&[NAME]));
    let rsa = authority.issue(&Leaf::named(&[NAME]).key(KeyKind::Rsa2048));
    let origin = RawOrigin::answering(OK);
    let node = Site::serving(&ec).and(&rsa).start(origin.address());
    let peer = TlsClient::new().connect(node.gateway(), NAME);
    assert!(peer.server_certificate() == ec.der);
    for client in [
        TlsClient::new().rsa_only(),
        TlsClient::new().rsa_only().without_sni(),
    ] {
        let mut peer = client.connect(node.gateway(), NAME);
        assert!(peer.server_certificate() == rsa.der);
        // The name is the same: a certificate with another kind of key is the same site.
        assert_eq!(peer.send(GET).response().status(), 200);
    }
    // By the cipher suite, as old clients of TLS 1.2 select the kind of key.
    let old = [
        "-tls1_2",
        "-servername",
        NAME,
        "-cipher",
        "ECDHE-RSA-AES128-GCM-SHA256",
    ];
    let said = SClient::new(node.gateway())
        .args(old)
        .args(["-sigalgs", "RSA+SHA256"]);
    let said = said.request(GET_AND_CLOSE).run();
    assert!(said.text.contains("HTTP/1.1 200"), "{}", said.text);
    assert!(
        said.text.contains("Peer signature type: RSA"),
        "{}",
        said.text
    );
}

#[test]
fn min_version_refuses_older_ones() {
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let origin = RawOrigin::answering(OK);
    let node = Site::serving(&certificate).start(origin.address());
    assert_eq!(status(&node, &TlsClient::of_1_2()), 200);
    let site = Site::serving(&certificate).listener(|l| l.set("tls.min_version", "1.3"));
    let node = site.start(origin.address());
    let refused = refusal(&node, &TlsClient::of_1_2());
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    expect_outcome(&node, "incompatible");
    assert_eq!(status(&node, &TlsClient::new()), 200);
}

#[test]
fn client_auth_says_who_must_show_a_certificate() {
    let authority = Authority::new("servers");
    let clients = Authority::new("clients");
    let certificate = authority.issue(&Leaf::named(&[NAME]));
    let known = TlsClient::new().showing(&clients.issue(&Leaf::named(&["client"])));
    let stranger = TlsClient::new().showing(&authority.issue(&Leaf::named(&["client"])));
    let origin = RawOrigin::answering(OK);
    let start = |policy: &str| {
        let site = Site::serving(&certificate).asking(policy, &clients.pem());
        site.start(origin.address())
    };
    let node = start("optional");
    assert_eq!(status(&node, &TlsClient::new()), 200);
    assert_eq!(status(&node, &known), 200);
    let refused = refusal(&node, &stranger);
    assert!(refused.contains("UnknownCA"), "{refused}");
    expect_outcome(&node, "client_certificate");
    let node = start("required");
    assert_eq!(status(&node, &known), 200);
    let refused = refusal(&node, &TlsClient::new());
    assert!(refused.contains("CertificateRequired"), "{refused}");
    let refused = refusal(&node, &stranger);
    assert!(refused.contains("UnknownCA"), "{refused}");
    // By default no client is asked for a certificate.
    let node = Site::serving(&certificate).start(origin.address());
    assert_eq!(status(&node, &known), 200);
    assert!(
        !origin
            .received()
            .split("\r\n\r\n")
            .last()
            .expect("text")
            .contains("client-cert")
    );
}

#[test]
fn a_client_certificate_must_be_current() {
    let clients = Authority::new("clients");
    let certificate = clients.issue(&Leaf::named(&[NAME]));
    let origin = RawOrigin::answering(OK);
    let site = Site::serving(&certificate).asking("required", &clients.pem());
    let node = site.start(origin.address());
    for (valid, alert) in [
        (Validity::Expired, "CertificateExpired"),
        (Validity::NotYet, "CertificateExpired"),
    ] {
        let client = clients.issue(&Leaf::named(&["client"]).valid(valid));
        let refused = refusal(&node, &TlsClient::new().showing(&client));
        assert!(refused.contains(alert), "{valid:?} {refused}");
    }
    expect_count(&node, "client_certificate", 2.0);
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn client_crl_revokes() {
    let clients = Authority::new("clients");
    let certificate = clients.issue(&Leaf::named(&[NAME]));
    let good = clients.issue(&Leaf::named(&["good"]).serial(2));
    let revoked = clients.issue(&Leaf::named(&["bad"]).serial(3));
    let list = clients.revocation_list(&[&revoked], Validity::Current);
    let origin = RawOrigin::answering(OK);
    let site = Site::serving(&certificate)
        .asking("required", &clients.pem())
        .file("revoked.crl", &list)
        .listener(|l| l.set("tls.client_crl", ["{scratch}/revoked.crl"]));
    let node = site.start(origin.address());
    assert_eq!(status(&node, &TlsClient::new().showing(&good)), 200);
    let refused = refusal(&node, &TlsClient::new().showing(&revoked));
    assert!(refused.contains("CertificateRevoked"), "{refused}");
    expect_outcome(&node, "client_certificate");
}

#[test]
fn crl_expired_says_what_an_old_list_is_worth() {
    let clients = Authority::new("clients");
    let certificate = clients.issue(&Leaf::named(&[NAME]));
    let client = TlsClient::new().showing(&clients.issue(&Leaf::named(&["good"]).serial(2)));
    let list = clients.revocation_list(&[], Validity::Expired);
    let origin = RawOrigin::answering(OK);
    let start = |line: &str| {
        let site = Site::serving(&certificate)
            .asking("required", &clients.pem())
            .file("old.crl", &list)
            .listener(|l| l.set("tls.client_crl", ["{scratch}/old.crl"]));
        site.listener(|l| l.with_toml(line)).start(origin.address())
    };
    let node = start("");
    assert!(!refusal(&node, &client).is_empty());
    expect_outcome(&node, "client_certificate");
    assert_eq!(status(&start("tls.crl_expired = \"accept\""), &client), 200);
}

#[test]
fn crl_unknown_says_what_no_list_is_worth() {
    let (clients, others) = (Authority::new("clients"), Authority::new("others"));
    let certificate = clients.issue(&Leaf::named(&[NAME]));
    let client = TlsClient::new().showing(&clients.issue(&Leaf::named(&["good"]).serial(2)));
    let list = others.revocation_list(&[], Validity::Current);
    let origin = RawOrigin::answering(OK);
    let start = |line: &str| {
        let site = Site::serving(&certificate)
            .asking("required", &(clients.pem() + &others.pem()))
            .file("others.crl", &list)
            .listener(|l| l.set("tls.client_crl", ["{scratch}/others.crl"]));
        site.listener(|l| l.with_toml(line)).start(origin.address())
    };
    let node = start("");
    assert!(!refusal(&node, &client).is_empty());
    expect_outcome(&node, "client_certificate");
    assert_eq!(status(&start("tls.crl_unknown = \"accept\""), &client), 200);
}

#[test]
fn strict_transport_security_is_in_every_response() {
    const VALUE: &str = "max-age=31536000; includeSubDomains";
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let other = Authority::new("servers").issue(&Leaf::named(&["b.example"]));
    let answer = "HTTP/1.1 200 OK\r\nstrict-transport-security: max-age=1\r\n\
                  content-length: 2\r\n\r\nok";
    let origin = RawOrigin::answering(answer);
    let node = Site::serving(&certificate)
        .and(&other)
        .listener(|l| l.set("tls.strict_transport_security", VALUE))
        .configured(|config| config.route("all", |r| r.path("/")))
        .start(origin.address());
    let mut peer = TlsClient::new().connect(node.gateway(), NAME);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 200),
        ("GET /nowhere HTTP/1.1\r\nHost: a.example\r\n\r\n", 404),
        ("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", 421),
    ] {
        let answer = peer.send(request).response();
        assert_eq!(answer.status(), status);
        let values = answer.all("strict-transport-security");
        assert_eq!(values, [VALUE], "{status}");
    }
    // Without the key, the server's own field is forwarded.
    let node = Site::serving(&certificate).start(origin.address());
    let mut peer = TlsClient::new().connect(node.gateway(), NAME);
    let answer = peer.send(GET).response();
    assert_eq!(answer.all("strict-transport-security"), ["max-age=1"]);
}

#[test]
fn redirect_https_sends_clients_there() {
    let origin = RawOrigin::answering(OK);
    for (redirect, port) in [(Setting::from(true), ""), (8443.into(), ":8443")] {
        let config = NodeConfig::plain().listener(|l| l.set("redirect_https", redirect));
        let builder = Steppe::builder().with("origin", origin.address());
        let node = builder.start(&config);
        let answer = Curl::new(&node.url("/p?q=1"))
            .args(["-H", "Host: a.example:80"])
            .run();
        assert_eq!(answer.head.status(), 308);
        let location = format!("https://a.example{port}/p?q=1");
        assert_eq!(answer.head.all("location"), [location]);
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn limits_handshakes_ends_those_that_stall() {
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let origin = RawOrigin::answering(OK);
    let site = Site::serving(&certificate).listener(|l| l.set("limits.handshakes", 4));
    let node = site.start(origin.address());
    // Two may be in progress, since all are of one address.
    let mut silent: Vec<Peer> = (0..5).map(|_| node.connect()).collect();
    expect_count(&node, "evicted", 3.0);
    silent[..3].iter_mut().for_each(Peer::expect_close);
    // Established connections do not count as handshakes.
    let peers: Vec<Peer> = (0..5)
        .map(|_| TlsClient::new().connect(node.gateway(), NAME))
        .collect();
    for mut peer in peers {
        assert_eq!(peer.send(GET).response().status(), 200);
    }
}

#[test]
fn timeouts_handshake_ends_those_that_dawdle() {
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let origin = RawOrigin::answering(OK);
    let site = Site::serving(&certificate).listener(|l| l.set("timeouts.handshake", "2s"));
    let node = site.start(origin.address());
    // Established first: if the timeout still applied, it would have closed this one before the
    // others.
    let mut established = TlsClient::new().connect(node.gateway(), NAME);
    let mut silent = node.connect();
    let mut half_open = node.connect();
    half_open.send(TlsClient::new().hello(NAME));
    silent.expect_close();
    assert!(!half_open.rest().is_empty(), "it was answered");
    expect_count(&node, "timeout", 2.0);
    assert_eq!(established.send(GET).response().status(), 200);
}

#[test]
fn ocsp_is_stapled() {
    let authority = Authority::new("servers");
    let certificate = authority.issue(&Leaf::named(&[NAME]).serial(0x1234));
    let scratch = Scratch::new("ocsp");
    scratch.write("ca.crt", authority.pem());
    scratch.write("ca.key", authority.key_pem());
    scratch.write("leaf.crt", &certificate.cert);
    scratch.write(
        "index",
        "V\t30000101000000Z\t\t1234\tunknown\t/CN=a.example\n",
    );
    let made = std::process::Command::new("openssl")
        .args([
            "ocsp", "-index", "index", "-CA", "ca.crt", "-rsigner", "ca.crt", "-rkey",
        ])
        .args([
            "ca.key", "-issuer", "ca.crt", "-cert", "leaf.crt", "-ndays", "1",
        ])
        .args(["-respout", "response.der"])
        .current_dir(scratch.path())
        .output()
        .expect("openssl is there");
    let response = scratch.join("response.der");
    assert!(
        response.exists(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let origin = RawOrigin::answering(OK);
    let plain = authority.issue(&Leaf::named(&["b.example"]));
    let node = Site::serving(&plain)
        .and_with(&certificate, |table| table.set("ocsp", &*response))
        .start(origin.address());
    for (name, is_stapled) in [(NAME, true), ("b.example", false)] {
        let said = SClient::new(node.gateway())
            .args(["-status", "-servername", name])
            .run();
        let good = said.text.contains("OCSP Response Status: successful")
            && said.text.contains("Cert Status: good");
        assert_eq!(good, is_stapled, "{}", said.text);
    }
}

#[test]
fn routes_are_taken_by_what_the_client_certificate_says() {
    let clients = Authority::new("clients");
    let certificate = clients.issue(&Leaf::named(&[NAME]));
    let issue = |name: &str, san: &str| clients.issue(&Leaf::named(&[san]).common_name(name));
    let by_subject = issue("the api", "x.example");
    let by_san = issue("another", "api.example");
    let by_fingerprint = issue("a third", "y.example");
    let fingerprint = fingerprint(&by_fingerprint.cert);
    let origin = RawOrigin::replying(|request| {
        let path = request.target().trim_start_matches('/');
        let bytes = path.len();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n{path}").into_bytes()
    });
    let predicates = [
        ("subject", "CN=the api"),
        ("san", "api.example"),
        ("fingerprint", &*fingerprint),
    ];
    let add = |config: NodeConfig, (name, value): (&str, &str)| {
        let filter = format!("mark-{name}");
        config
            .add_filter(&filter, |f| {
                f.set("kind", "transform")
                    .set("response_headers.set.x-route", name)
            })
            .add_route(name, |r| {
                r.path("/{rest*}")
                    .upstream("origin")
                    .set(&format!("client_cert.{name}"), value)
                    .filters([&*filter])
            })
    };
    let node = Site::serving(&certificate)
        .asking("optional", &clients.pem())
        .configured(|config| predicates.into_iter().fold(config, add))
        .start(origin.address());
    let taken = |client: TlsClient| {
        let mut peer = client.connect(node.gateway(), NAME);
        let answer = peer.send(GET).response();
        assert_eq!(answer.status(), 200);
        answer.all("x-route").join(",")
    };
    let showing = |issued| TlsClient::new().showing(issued);
    assert_eq!(taken(showing(&by_subject)), "subject");
    assert_eq!(taken(showing(&by_san)), "san");
    assert_eq!(taken(showing(&by_fingerprint)), "fingerprint");
    assert_eq!(taken(showing(&issue("nobody", "z.example"))), "");
    assert_eq!(taken(TlsClient::new()), "");
}

/// The SHA-256 fingerprint, as `openssl x509 -fingerprint -sha256` prints it.
fn fingerprint(cert: &str) -> String {
    let scratch = Scratch::new("fingerprint");
    let path = scratch.write("cert.pem", cert);
    let output = std::process::Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(path)
        .output()
        .expect("openssl is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, digest) = text.trim().split_once('=').expect("it prints one");
    digest.to_owned()
}

#[test]
fn certificates_that_clients_refuse_by_their_dates_are_told() {
    let authority = Authority::new("servers");
    let cases = [
        (Validity::Current, None),
        (Validity::Expired, Some("has expired: clients refuse it")),
        (
            Validity::NotYet,
            Some("is not valid yet: clients refuse it"),
        ),
    ];
    for (valid, told) in cases {
        let origin = RawOrigin::answering(OK);
        let certificate = authority.issue(&Leaf::named(&[NAME]).valid(valid));
        let Site {
            builder, config, ..
        } = Site::serving(&certificate);
        let builder = builder.with("origin", origin.address());
        let (status, checked) = builder.run(&["check"], &config);
        assert!(status.success(), "{checked}");
        let node = Site::serving(&certificate).start(origin.address());
        for said in [node.said(), checked] {
            let line = said.lines().find(|line| line.contains("clients refuse it"));
            assert_eq!(line.is_some(), told.is_some(), "{valid:?}: {said}");
            let is_told = told.is_none_or(|told| line.is_some_and(|line| line.contains(told)));
            assert!(is_told, "{valid:?}: {said}");
        }
    }
}
