//! HTTP/2 and TLS, against a real nginx.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use steppe_lab::load::{Interval, check};
use steppe_lab::scenario::{HttpLoad, Load, LoadKind, Pace};

use crate::servers::{Nginx, Scratch};
use crate::{errors_of, http, load, open, run_until, start};

const TLS: &str = "ssl_certificate server.pem; ssl_certificate_key server.key;";

/// Encodes a certificate or key as PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are a line of 64 characters.
    for line in der.chunks(48) {
        text.push_str(&STANDARD.encode(line));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// nginx with a certificate for 127.0.0.1, issued by the authority in `ca.pem`.
fn secured(listen: &str, server: &str) -> Nginx {
    let scratch = Scratch::new();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    scratch.write("ca.pem", pem("CERTIFICATE", authority.der()));
    scratch.write("server.pem", pem("CERTIFICATE", certificate.der()));
    scratch.write("server.key", pem("PRIVATE KEY", &key.serialize_der()));
    Nginx::start_in(scratch, listen, &format!("{TLS} {server}"))
}

fn trusting(nginx: &Nginx, path: &str, connections: u32) -> HttpLoad {
    let mut load = http(&format!("https://{}{path}", nginx.addr), connections);
    load.ca = Some(nginx.scratch.path().join("ca.pem"));
    load
}

fn until(load: &Load, count: u64) -> Interval {
    let mut driver = start(load);
    run_until(&mut driver, 0, |sum| sum.operations + sum.errors >= count)
}

#[test]
fn prior_knowledge_speaks_to_a_plain_port() {
    let server = "if ($server_protocol != 'HTTP/2.0') { return 400; } \
                  if ($http_host != 'else.where') { return 421; } return 200 'hello';";
    let nginx = Nginx::start("http2", &format!("location / {{ {server} }}"));
    let mut http = http(&nginx.url("/"), 2);
    http.streams = 8;
    http.headers = vec![("Host".to_owned(), "else.where".to_owned())];
    let interval = until(&load(LoadKind::Http2(http), Pace::Closed), 1000);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
    assert_eq!(interval.service.len(), interval.operations);
}

#[test]
fn streams_share_a_connection() {
    let server = "location / { if ($connection_requests = 1) { return 200; } return 202; }";
    let nginx = Nginx::start("http2", server);
    let mut http = http(&nginx.url("/"), 3);
    http.streams = 4;
    http.expect[0].from = 202;
    let mut shared = load(LoadKind::Http2(http), open(500.0));
    shared.threads = 2;
    let interval = until(&shared, 100);
    // The first request of each connection, and of no other.
    assert_eq!(errors_of(&interval, "status 200"), 3);
    assert_eq!(interval.errors, 3, "{:?}", interval.error_kinds);
}

/// nginx sends GOAWAY after every thousand requests by default.
#[test]
fn a_connection_that_says_goodbye_is_followed_by_the_next() {
    let server = "keepalive_requests 50; location / { return 200; }";
    let nginx = Nginx::start("http2", server);
    let mut http = http(&nginx.url("/"), 2);
    http.streams = 8;
    let interval = until(&load(LoadKind::Http2(http), Pace::Closed), 2000);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
}

#[test]
fn https_agrees_on_the_protocol() {
    let nginx = secured(
        "ssl http2",
        "location /one { if ($server_protocol = 'HTTP/1.1') { return 200; } return 400; } \
         location /two { if ($server_protocol = 'HTTP/2.0') { return 200; } return 400; }",
    );
    let one = load(LoadKind::Http1(trusting(&nginx, "/one", 2)), Pace::Closed);
    let two = load(LoadKind::Http2(trusting(&nginx, "/two", 2)), Pace::Closed);
    for load in [one, two] {
        let interval = until(&load, 100);
        assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
    }
}

#[test]
fn a_certificate_is_verified_unless_told_otherwise() {
    let nginx = secured("ssl", "location / { return 200; }");
    let mut http = trusting(&nginx, "/", 1);
    http.ca = None;
    let interval = until(&load(LoadKind::Http1(http.clone()), Pace::Closed), 1);
    let kind = &interval.error_kinds[0].0;
    assert!(kind.contains("UnknownIssuer"), "{kind}");
    http.verify = false;
    let interval = until(&load(LoadKind::Http1(http.clone()), Pace::Closed), 20);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
    let interval = until(&load(LoadKind::Http2(http), Pace::Closed), 1);
    assert_eq!(interval.operations, 0);
    assert!(interval.errors > 0);
}

#[test]
fn a_server_without_http2_is_an_error_and_no_reason_to_spin() {
    let nginx = Nginx::start("", "location / { return 200; }");
    let load = load(LoadKind::Http2(http(&nginx.url("/"), 1)), Pace::Closed);
    let interval = until(&load, 3);
    assert_eq!(interval.operations, 0);
    assert!(interval.errors < 50, "{interval:?}");
}

#[test]
fn keys_that_contradict_each_other_are_refused() {
    let plain = http("http://127.0.0.1:1/", 1);
    let with = |change: &dyn Fn(&mut HttpLoad)| {
        let mut http = plain.clone();
        change(&mut http);
        let refused = check(&load(LoadKind::Http1(http), Pace::Closed));
        refused.unwrap_err().to_string()
    };
    let said = [
        with(&|http| http.verify = false),
        with(&|http| http.ca = Some("ca.pem".into())),
        with(&|http| http.streams = 2),
        with(&|http| {
            http.url = "https://127.0.0.1/".to_owned();
            http.ca = Some("ca.pem".into());
            http.verify = false;
        }),
    ];
    expect_test::expect![[r#"
        [
            "load `it`: `ca` and `verify` are for https",
            "load `it`: `ca` and `verify` are for https",
            "load `it`: 2 streams: HTTP/1.1 has one request at a time",
            "load `it`: `ca` and `verify = false` exclude each other",
        ]
    "#]]
    .assert_debug_eq(&said);
}
