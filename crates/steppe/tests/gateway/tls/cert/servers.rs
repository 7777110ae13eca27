//! Servers, and peers that are not servers of TLS.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use rcgen::date_time_ymd;
use steppe_testkit::Port;

use super::chain::{Chain, Server, certificates, leaf_params, pem};
use super::command::{assert_unreadable, codes, json, steppe};

#[test]
fn a_server_shows_its_handshake_and_its_chain() {
    let chain = Chain::new();
    let extra = [&chain.lower(), &chain.upper()];
    let server = chain.serve(&chain.leaf, &extra, &["-alpn", "http/1.1"]);
    let root = chain.path("root.pem");
    let args = [&server.address, "--sni", "www.example.com", "--ca", &root];
    let (report, code) = json(&args);
    assert_eq!(
        (codes(&report, "mistakes"), code),
        (Vec::new(), 0),
        "{report:#}"
    );
    let handshake = &report["handshake"];
    assert_eq!(handshake["version"], "TLS 1.3");
    assert_eq!(handshake["cipher_suite"], "TLS13_AES_256_GCM_SHA384");
    assert_eq!(handshake["group"], "X25519");
    assert_eq!(handshake["alpn"], "http/1.1");
    assert_eq!(handshake["ocsp_staple_bytes"], 0);
    assert_eq!(report["certificates"].as_array().map(Vec::len), Some(3));
    let text = steppe(&args);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("\n  version       TLS 1.3\n"), "{text}");

    // The address is not among the certificate's names.
    let (report, code) = json(&[&server.address, "--ca", &root]);
    assert_eq!(
        (codes(&report, "mistakes"), code),
        (vec!["1:name_mismatch".to_owned()], 1)
    );
}

#[test]
fn mistakes_of_a_server_are_named() {
    let chain = Chain::new();
    let root = chain.path("root.pem");
    let check = |server: &Server, mistakes: &[&str]| {
        let args = [&server.address, "--sni", "www.example.com", "--ca", &root];
        let (report, code) = json(&args);
        assert_eq!(
            (codes(&report, "mistakes"), code),
            (mistakes.iter().map(ToString::to_string).collect(), 1),
            "{report:#}"
        );
    };
    let (lower, upper) = (&chain.lower(), &chain.upper());
    check(
        &chain.serve(&chain.leaf, &[upper, lower], &[]),
        &["1:order"],
    );
    check(
        &chain.serve(&chain.leaf, &[lower], &[]),
        &["2:missing_issuer"],
    );
    let mut params = leaf_params();
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2001, 1, 1);
    let expired = chain.signed(&params);
    check(&chain.serve(&expired, &[lower, upper], &[]), &["1:expired"]);
    let own = leaf_params().self_signed(&chain.leaf_key).expect("signed");
    check(
        &chain.serve(&own.der().to_vec(), &[], &[]),
        &["1:untrusted"],
    );
}

#[test]
fn a_staple_is_seen() {
    let chain = Chain::new();
    let leaf = chain.write("leaf.pem", certificates(&[&chain.leaf]));
    let lower = chain.write("lower.pem", certificates(&[&chain.lower()]));
    let lower_key = pem("PRIVATE KEY", &chain.lower.key().serialize_der());
    let lower_key = chain.write("lower.key", lower_key);
    let index = chain.write("index.txt", "");
    let response = chain.path("ocsp.der");
    let made = Command::new("openssl")
        .args([
            "ocsp",
            "-noverify",
            "-index",
            &index,
            "-CA",
            &lower,
            "-rsigner",
            &lower,
        ])
        .args([
            "-rkey", &lower_key, "-issuer", &lower, "-cert", &leaf, "-respout", &response,
        ])
        .output()
        .expect("openssl is there");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let extra = [&chain.lower(), &chain.upper()];
    let server = chain.serve(&chain.leaf, &extra, &["-status_file", &response]);
    let (report, _) = json(&[&server.address]);
    let length = std::fs::metadata(&response).expect("it is there").len();
    assert_eq!(report["handshake"]["ocsp_staple_bytes"], length);
}

#[test]
fn a_server_that_wants_a_certificate_shows_its_own() {
    let chain = Chain::new();
    let extra = [&chain.lower(), &chain.upper()];
    let server = chain.serve(&chain.leaf, &extra, &["-tls1_2", "-Verify", "1"]);
    let root = chain.path("root.pem");
    let (report, code) = json(&[&server.address, "--sni", "www.example.com", "--ca", &root]);
    assert_eq!(
        (codes(&report, "notes"), code),
        (vec!["handshake".to_owned()], 0),
        "{report:#}"
    );
    assert_eq!(report["handshake"]["version"], "TLS 1.2");
}

/// A peer whose every connection is handled by `serve`, until the test ends.
fn peer(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    address
}

/// Reads until the client closes the connection.
fn until_it_leaves(mut stream: std::net::TcpStream) {
    _ = std::io::copy(&mut stream, &mut std::io::sink());
}

#[test]
fn a_server_without_a_handshake_is_code_2() {
    let plain = peer(|mut stream| {
        _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        until_it_leaves(stream);
    });
    assert_unreadable(&[&plain.to_string()], "does not speak TLS");
    let deaf = peer(until_it_leaves);
    assert_unreadable(
        &[&deaf.to_string(), "--timeout", "2s"],
        "no TLS handshake within 2s",
    );
    let closing = peer(drop);
    let output = steppe(&[&closing.to_string()]);
    assert_eq!(output.status.code(), Some(2));
    // The port is reserved, but without a listener.
    let port = Port::free();
    assert_unreadable(&[&port.address().to_string()], "refused");
    assert_unreadable(&["nowhere.invalid", "--timeout", "5s"], "nowhere.invalid: ");
}

/// Each byte arrives within the deadline of a read, but the handshake exceeds its own.
#[test]
fn a_handshake_that_drips_ends_at_the_timeout() {
    let slow = peer(|mut stream| {
        let record = [&[22, 3, 3, 0x40, 0][..], &[0; 100]].concat();
        for byte in record {
            _ = stream.write_all(&[byte]);
            // The pace that the test is about.
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_unreadable(
        &[&slow.to_string(), "--timeout", "2s"],
        "no TLS handshake within 2s",
    );
}
