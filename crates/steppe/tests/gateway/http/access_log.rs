//! The access log: a line for each exchange, through rotation and under load, and the cost of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use steppe_testkit::{
    Curl, Load, Nginx, NodeConfig, Peer, RawOrigin, Section, Steppe, Wrk, eventually, heavy,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A configuration that logs in this format, to a file that [`logged`] reads.
fn logging(format: &str) -> NodeConfig {
    NodeConfig::plain()
        .set("log.access.file", "{scratch}/access.log")
        .set("log.access.format", format)
}

const COMBINED: &str = "combined";
const JSON: &str = "json";

fn node(origin: impl ToString, config: &NodeConfig) -> Steppe {
    Steppe::builder().with("origin", origin).start(config)
}

fn lines(path: impl AsRef<Path>) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "a line is cut");
    text.lines().map(str::to_owned).collect()
}

/// Returns the lines of the log, once there are at least `count`; asserts that there are no more.
#[track_caller]
fn logged(node: &Steppe, count: usize) -> Vec<String> {
    let path = node.scratch().join("access.log");
    eventually("the lines are there", || lines(&path).len() >= count);
    let lines = lines(&path);
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

fn requests(node: &Steppe) -> u64 {
    let sum = node.metrics().sum("steppe_http_requests_total", &[]);
    format!("{sum:.0}").parse().expect("a count")
}

fn count(node: &Steppe, name: &str) -> u64 {
    let sum = node.metrics().sum(name, &[]);
    format!("{sum:.0}").parse().expect("a count")
}

#[test]
fn a_line_of_combined_says_what_happened() {
    let origin = RawOrigin::answering(OK);
    let node = node(origin.address(), &logging(COMBINED));
    node.exchange(
        "GET /a%20b/../c?d=\" HTTP/1.1\r\nHost: a\r\nReferer: http://r/\r\n\
         User-Agent: agent \"1\"\r\n\r\n",
    );
    let line = logged(&node, 1).remove(0);
    let parts: Vec<&str> = line.split('"').collect();
    let [who, request, outcome, referer, " ", agent, ""] = parts[..] else {
        panic!("{line}");
    };
    assert!(who.starts_with("127.0.0.1 - - [") && who.ends_with(" +0000] "));
    // The target as it was sent, though it is forwarded in its normal form.
    assert_eq!(request, r"GET /a%20b/../c?d=\x22 HTTP/1.1");
    assert_eq!(outcome, " 200 2 ");
    assert_eq!((referer, agent), ("http://r/", r"agent \x221\x22"));
    assert!(origin.received().starts_with("GET /c?d="));
}

#[test]
fn a_line_of_json_says_what_happened() {
    let origin = RawOrigin::answering(OK);
    let config = logging(JSON).set("http.trusted_proxies", ["127.0.0.0/8"]);
    let node = node(origin.address(), &config);
    node.exchange(
        "POST /p?q=1 HTTP/1.1\r\nHost: Shop.example:80\r\nX-Forwarded-For: 192.0.2.9\r\n\
         X-Request-Id: id-7\r\nUser-Agent: \u{fc}\r\nContent-Length: 5\r\n\r\nhello",
    );
    let line: Value = serde_json::from_str(&logged(&node, 1)[0]).expect("JSON");
    for (field, value) in [
        ("client", "192.0.2.9"),
        ("method", "POST"),
        ("path", "/p"),
        ("query", "q=1"),
        ("protocol", "HTTP/1.1"),
        ("host", "Shop.example:80"),
        ("route", "all"),
        ("upstream", "origin"),
        ("server", &origin.address().to_string()),
        ("request_id", "id-7"),
        ("user_agent", "\u{fc}"),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }
    let numbers = [
        &line["status"],
        &line["bytes_sent"],
        &line["bytes_received"],
    ];
    assert_eq!(numbers, [200, 2, 5]);
    assert!(line["duration_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    let time = line["time"].as_str().expect("a time");
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    assert!(line.get("close_reason").is_none() && line.get("referer").is_none());
}

#[test]
fn the_chosen_fields_are_logged_and_no_others() {
    let config = logging(JSON).set("log.access.fields", ["status", "host"]);
    let origin = RawOrigin::answering(OK);
    let node = node(origin.address(), &config);
    node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(logged(&node, 1), [r#"{"status":200,"host":"a"}"#]);
}

/// Requests that are answered without a server are logged too, with the reason.
#[test]
fn what_is_refused_is_logged() {
    let config = logging(JSON).route("all", |r| r.path("/in"));
    let node = node("127.0.0.1:1", &config);
    for (request, status, path, reason) in [
        ("GET /out HTTP/1.1\r\nHost: a\r\n\r\n", 404, "/out", None),
        (
            "GET /in HTTP/1.1\r\nHost: a\r\n\r\n",
            502,
            "/in",
            Some("connect_failed"),
        ),
        (
            "GET /in HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            400,
            "/in",
            Some("bad_request"),
        ),
    ] {
        let path_of_log = node.scratch().join("access.log");
        let before = lines(&path_of_log).len();
        let answer = node.exchange(request);
        assert_eq!(answer.status(), status);
        let line = logged(&node, before + 1).remove(before);
        let line: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            (&line["status"], &line["path"]),
            (&status.into(), &path.into())
        );
        assert_eq!(line.get("close_reason").and_then(Value::as_str), reason);
        assert_eq!(line["bytes_sent"], answer.body.len());
    }
    // A request that cannot be parsed is logged all the same.
    assert_eq!(node.exchange("\0\r\n\r\n").status(), 400);
    let line: Value = serde_json::from_str(&logged(&node, 4)[3]).expect("JSON");
    assert_eq!(
        (&line["status"], &line["client"]),
        (&400.into(), &"127.0.0.1".into())
    );
    assert!(line.get("method").is_none());
}

#[test]
fn without_the_key_nothing_is_logged() {
    let origin = RawOrigin::answering(OK);
    let node = node(origin.address(), &NodeConfig::plain());
    node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let metrics = node.metrics();
    let names = metrics.names();
    assert!(!names.iter().any(|name| name.contains("access_log")));
}

#[test]
fn standard_output_takes_lines_too() {
    let by_name = NodeConfig::plain().set("log.access", "stdout");
    let by_path = logging(JSON).set("log.access.file", "/dev/stdout");
    for (config, start) in [(by_name, "127.0.0.1 - - ["), (by_path, "{\"time\":")] {
        let origin = RawOrigin::answering(OK);
        let node = node(origin.address(), &config);
        node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("the line is there", || {
            node.said().lines().any(|line| line.starts_with(start))
        });
    }
}

/// Under load, with two workers: as many lines as requests, those of the last moment included. Lines that were dropped
/// because the file was too slow are counted.
#[test]
fn every_request_has_its_line() {
    let _one = heavy();
    let nginx = Nginx::start("location / { return 200 0123456789; }");
    let node = node(nginx.address(), &logging(COMBINED).workers(2));
    let run = Wrk::new(&node.url("/load"), 64, 3).run();
    assert_eq!((run.errors, run.refused), (0, 0), "{}", run.text);
    // wrk may leave requests under way at its end: their clients are gone, or their responses are out.
    eventually("all is counted", || {
        let open = node.metrics().sum("steppe_http_connections", &[]);
        open == 0.0
    });
    let requests = requests(&node);
    assert!(requests >= run.requests && requests > 1000, "{requests}");
    let dropped = || count(&node, "steppe_access_log_dropped_total");
    eventually("all is written", || {
        count(&node, "steppe_access_log_lines_total") + dropped() == requests
    });
    let lines = lines(node.scratch().join("access.log"));
    assert_eq!(lines.len() as u64 + dropped(), requests);
    assert!(dropped() < requests / 2, "{} of {requests}", dropped());
    let is_whole =
        |line: &String| line.contains("] \"GET /load HTTP/1.1\" ") && line.ends_with('"');
    assert!(lines.iter().all(is_whole));
}

/// Lines that wait to be written are written before the process ends.
#[test]
fn the_last_lines_are_written_when_the_node_stops() {
    let origin = RawOrigin::answering(OK);
    let node = node(origin.address(), &logging(COMBINED));
    let scratch = folder("kept");
    let kept = scratch.join("kept.log");
    let mut peer = node.connect();
    for _ in 0..10 {
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
    }
    fs::hard_link(node.scratch().join("access.log"), &kept).expect("one file system");
    drop(peer);
    assert!(node.stop().success());
    assert_eq!(lines(&kept).len(), 10);
    fs::remove_dir_all(scratch).expect("a folder");
}

/// `mv` and SIGHUP, again and again under load: no line is lost, none is there twice.
#[test]
fn rotation_loses_nothing() {
    const ROTATIONS: usize = 8;
    let _one = heavy();
    let nginx = Nginx::start("location / { return 200 0123456789; }");
    let node = node(nginx.address(), &logging(JSON));
    let path = node.scratch().join("access.log");
    let load = Load::start(&node.url("/"), 32);
    for rotation in 0..ROTATIONS {
        // A few hundred lines, so that each rotation happens among them.
        eventually("it has lines", || {
            fs::metadata(&path).is_ok_and(|file| file.len() > 100_000)
        });
        let moved = node.scratch().join(&format!("access.log.{rotation}"));
        fs::rename(&path, moved).expect("it is there");
        node.hang_up();
        eventually("a new file is there", || path.exists());
    }
    let run = load.stop();
    assert_eq!((run.errors, run.refused), (0, 0), "{}", run.text);
    eventually("all is counted", || {
        node.metrics().sum("steppe_http_connections", &[]) == 0.0
    });
    let requests = requests(&node);
    // On a busy machine the file may be too slow: such lines are counted as dropped, and not lost by a rotation.
    let dropped = || count(&node, "steppe_access_log_dropped_total");
    eventually("all is written", || {
        count(&node, "steppe_access_log_lines_total") + dropped() == requests
    });
    let rotated = (0..ROTATIONS).map(|rotation| format!("access.log.{rotation}"));
    let files: Vec<usize> = rotated
        .chain(["access.log".to_owned()])
        .map(|name| lines(node.scratch().join(&name)).len())
        .collect();
    let written = requests - dropped();
    assert_eq!(files.iter().sum::<usize>() as u64, written, "{files:?}");
    assert!(
        files[..ROTATIONS].iter().all(|&count| count > 0),
        "{files:?}"
    );
}

/// A pipe without a reader: lines are dropped and counted, and no request fails.
#[test]
fn a_log_that_takes_nothing_costs_lines_and_no_request() {
    let _one = heavy();
    let nginx = Nginx::start("location / { return 200 0123456789; }");
    let folder = folder("pipe");
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    // Opened for reading and writing, so that neither end blocks; no byte is read.
    let held = fs::OpenOptions::new().read(true).write(true).open(&pipe);
    let held = held.expect("a pipe");
    let config = NodeConfig::plain().set("log.access.file", &*pipe);
    let node = node(nginx.address(), &config);
    let mut run = Wrk::new(&node.url("/"), 32, 2).run();
    while count(&node, "steppe_access_log_dropped_total") == 0 {
        run = Wrk::new(&node.url("/"), 32, 2).run();
    }
    assert_eq!((run.errors, run.refused), (0, 0), "{}", run.text);
    drop(held);
    assert!(node.stop().success());
    fs::remove_dir_all(folder).expect("a folder");
}

/// Creates a folder beside the node's own, which is removed with the node.
fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("steppe-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a folder");
    path
}

#[test]
fn a_file_that_cannot_be_opened_keeps_the_node_from_starting() {
    let folder = folder("start");
    let config = folder.join("steppe.toml");
    let text = NodeConfig::plain()
        .set("log.access.file", "no/such/folder/access.log")
        .listener(|l| l.set("listen", "127.0.0.1:0"))
        .set("admin.listen", "unix:admin.sock")
        .upstream("origin", |u| u.servers(["127.0.0.1:1"]))
        .to_string();
    fs::write(&config, text).expect("a file");
    let output = Steppe::command().arg("run").arg("-c").arg(&config).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("log.access.file"), "{said}");
    assert!(said.contains("no/such/folder/access.log"), "{said}");
    fs::remove_dir_all(folder).expect("a folder");
}

/// A client that leaves has a line, and so has a connection that was upgraded, at its end.
#[test]
fn a_client_that_leaves_has_a_line() {
    let (origin, held) = (
        RawOrigin::answering(""),
        "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let node = node(origin.address(), &logging(JSON));
    let mut peer: Peer = node.connect();
    peer.send(held);
    eventually("the origin has it", || origin.received().contains("/slow"));
    drop(peer);
    let line: Value = serde_json::from_str(&logged(&node, 1)[0]).expect("JSON");
    assert_eq!(line["path"], "/slow");
    let status = line["status"].as_u64();
    assert!(matches!(status, Some(499 | 502)), "{line}");
    assert!(line["close_reason"].is_string(), "{line}");
}

/// An authority and a client that it signed, whose name would end a string of JSON.
fn client_of_an_authority(scratch: &steppe_testkit::Scratch) -> [String; 3] {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("random");
    let issuer = CertifiedIssuer::self_signed(params, key).expect("valid");
    let key = KeyPair::generate().expect("random");
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a valid name");
    let name = "a\",\"status\":\"0";
    params.distinguished_name.push(DnType::CommonName, name);
    let cert = params.signed_by(&key, &issuer).expect("valid");
    let file = |name, text: String| scratch.write(name, text).to_string_lossy().into_owned();
    [
        file("ca.crt", issuer.pem()),
        file("both.crt", cert.pem()),
        file("both.key", key.serialize_pem()),
    ]
}

#[test]
fn fields_of_tls_say_what_was_agreed_and_who_the_client_is() {
    let origin = RawOrigin::answering(OK);
    let builder = Steppe::builder().with("origin", origin.address());
    let scratch = steppe_testkit::Scratch::new("clients");
    let [ca, cert, key] = client_of_an_authority(&scratch);
    let fields = [
        "tls_version",
        "tls_cipher",
        "tls_group",
        "tls_sni",
        "tls_alpn",
        "tls_resumed",
        "client_subject",
        "client_fingerprint",
        "status",
    ];
    let (builder, port) = builder.with_port("plain");
    let shown = Section::new().set("cert", &cert).set("key", &key);
    let config = logging(JSON)
        .set("log.access.fields", fields)
        .listener(|l| {
            l.set("tls.certificates", [shown])
                .set("tls.client_auth", "optional")
                .set("tls.client_ca", &ca)
        })
        .add_listener("127.0.0.1:{plain}", |l| l);
    let node = builder.start(&config);
    let url = format!("https://localhost:{}/", node.gateway().port());
    let curl = || Curl::new(&url).args(["--cacert", &ca, "--ipv4"]);
    let got = curl().args(["--cert", &cert, "--key", &key]).run();
    assert_eq!(got.exit, 0, "{}", got.errors);
    let got = curl().args(["--tls-max", "1.2"]).run();
    assert_eq!(got.exit, 0, "{}", got.errors);
    Peer::connect(([127, 0, 0, 1], port).into())
        .send("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .response();
    let lines: Vec<Value> = logged(&node, 3)
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let known = &lines[0];
    assert_eq!(known["tls_version"], "TLSv1.3", "{known}");
    assert!(
        known["tls_cipher"]
            .as_str()
            .is_some_and(|name| name.starts_with("TLS_"))
    );
    assert!(
        known["tls_group"].is_string() && known["tls_alpn"] == "http/1.1",
        "{known}"
    );
    assert_eq!(
        (&known["tls_sni"], &known["tls_resumed"]),
        (&"localhost".into(), &false.into())
    );
    let subject = known["client_subject"].as_str().expect("a subject");
    assert_eq!(subject, "CN=a\\\"\\,\\\"status\\\":\\\"0", "{known}");
    assert_eq!(known["status"], 200);
    let digest = known["client_fingerprint"].as_str().expect("a digest");
    assert_eq!(digest, fingerprint(&cert));
    let unknown = &lines[1];
    assert_eq!(unknown["tls_version"], "TLSv1.2", "{unknown}");
    assert!(unknown["client_subject"].is_null() && unknown["client_fingerprint"].is_null());
    let keys = |line: &Value| line.as_object().map_or(0, |line| line.len());
    assert_eq!(keys(&lines[2]), 1, "nothing but the status: {}", lines[2]);
}

/// The SHA-256 fingerprint of the certificate, by OpenSSL.
fn fingerprint(cert: &str) -> String {
    let output = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in", cert])
        .output()
        .expect("openssl is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, digits) = text.trim().split_once('=').expect("a digest");
    digits.replace(':', "").to_lowercase()
}
