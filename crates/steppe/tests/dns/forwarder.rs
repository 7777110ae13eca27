//! The forwarder of the node, with a real server behind it.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::SystemTime;

use expect_test::expect;
use steppe_testkit::{
    Authority, Forwarder, Leaf, NodeConfig, Port, Process, Scratch, Section, Steppe, ask_dns,
    eventually,
};

/// dnsmasq, which answers from a file of hosts. `None` if it is not installed.
fn dnsmasq(port: &Port) -> Option<(Process, Scratch)> {
    let version = Command::new("dnsmasq").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: dnsmasq is not installed");
        return None;
    }
    let scratch = Scratch::new("dns");
    scratch.write(
        "hosts",
        "192.0.2.7 www.example.org\n10.1.2.3 inside.example.org\n",
    );
    let mut command = Command::new("dnsmasq");
    command
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
        ])
        .args(["--no-resolv", "--no-hosts", "--log-facility=-"])
        .args([
            "--bind-interfaces",
            "--local-ttl=60",
            "--listen-address=127.0.0.1",
        ])
        .args(["--local=/example.org/", "--user="])
        .arg(format!("--port={}", port.number()))
        .arg(format!("--addn-hosts={}", scratch.join("hosts").display()));
    let mut process = Process::start("dnsmasq", command);
    eventually("dnsmasq listens", || {
        assert!(process.is_running(), "dnsmasq ended: {}", process.said());
        TcpStream::connect(port.address()).is_ok()
    });
    Some((process, scratch))
}

/// Queries a name's IPv4 address. Returns the response code and the number of answers.
pub(super) fn ask(server: SocketAddr, name: &str) -> (u8, u8) {
    let response = ask_dns(server, name);
    (response[3] & 0x0f, response[7])
}

#[test]
fn a_real_server_answers_through_it_and_a_reload_changes_its_rules() {
    let port = Port::free();
    let Some(_server) = dnsmasq(&port) else {
        return;
    };
    let forwarder = Steppe::builder()
        .with("server", port.address())
        .start_forwarder(CONFIG);
    let Forwarder {
        node,
        plain: listen,
    } = forwarder;
    assert_eq!(ask(listen, "www.example.org"), (0, 1));
    assert_eq!(ask(listen, "no.example.org"), (3, 0));
    assert_eq!(ask(listen, "ads.example.org"), (3, 0));
    assert_eq!(
        ask(listen, "inside.example.org"),
        (5, 0),
        "a private address"
    );
    let metrics = node.metrics();
    let blocked = metrics.sum("steppe_dns_events_total", &[("event", "blocked")]);
    assert!((blocked - 1.0).abs() < f64::EPSILON);
    let rules = [
        Section::new()
            .set("suffix", "www.example.org")
            .set("block", "nxdomain"),
        Section::new().set("forward", "real"),
    ];
    node.set_config(NodeConfig::parse(&node.config()).set("dns.rule", rules));
    assert_eq!(node.admin_post("/reload").status(), 200);
    assert_eq!(ask(listen, "www.example.org"), (3, 0));
    assert!(node.stop().success());
}

/// The output of `steppe dns explain` about a name.
fn explain(node: &Steppe, arguments: &[&str]) -> String {
    let mut command = Steppe::command();
    command.args(["dns", "explain"]).args(arguments);
    command.arg("-c").arg(node.scratch().join("steppe.toml"));
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.replace(&format!("{}/", node.scratch().path().display()), "")
}

/// Two days of the week that are neither today nor tomorrow, as a configuration lists them.
#[expect(clippy::disallowed_methods, reason = "rules go by the wall's clock")]
fn far_days() -> String {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let days = since_epoch.expect("after 1970").as_secs() / 86_400;
    // The Unix epoch began on a Thursday.
    let names = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"];
    let name = |ahead: u64| names[usize::try_from((days + ahead) % 7).expect("below seven")];
    format!("\"{}\", \"{}\"", name(3), name(4))
}

/// A configuration in which each key of lists, hosts and rules decides about a name.
#[test]
fn lists_hosts_and_rules_decide_and_explain_says_what_does() {
    let forwarder = Steppe::builder()
        .with("far", far_days())
        .with_file("ads.txt", "# ads\n||ads.example^\n@@||ok.ads.example^\n")
        .with_file("exact.txt", "exact.example\n")
        .with_file("hosts", "192.168.7.9 printer.home.arpa\n")
        .start_forwarder(DECIDES);
    let Forwarder {
        node,
        plain: listen,
    } = forwarder;
    for (name, expected) in [
        ("x.ads.example", (3, 0)),
        ("ok.ads.example", (0, 1)),
        ("exact.example", (5, 0)),
        ("x.exact.example", (0, 1)),
        ("printer.home.arpa", (0, 1)),
        ("nas.home.arpa", (0, 1)),
        ("other.home.arpa", (3, 0)),
        ("old.example", (0, 2)),
        ("for-a-tablet.example", (0, 1)),
        ("banner12.example", (5, 0)),
        ("banner.example", (0, 1)),
        ("timed.example", (3, 0)),
    ] {
        assert_eq!(ask(listen, name), expected, "{name}");
    }
    expect![[r#"
        x.ads.example. A from 127.0.0.1
          rule 3 (steppe.toml:26) decides: block = "nxdomain"
          because the name is on list `ads`
          list lines that match the name:
            ads.txt:2: ||ads.example^
    "#]]
    .assert_eq(&explain(&node, &["x.ads.example"]));
    expect![[r#"
        old.example. AAAA from 10.0.0.1
          refused: the client's address is not in `dns.access.allow`
    "#]]
    .assert_eq(&explain(
        &node,
        &["old.example", "AAAA", "--client", "10.0.0.1"],
    ));
    expect![[r#"
        old.example. A from 127.0.0.1
          rule 5 (steppe.toml:32) decides: rewrite to nas.home.arpa.
          because the rule names the name or a parent of it
        nas.home.arpa. A
          answered locally, from hosts:
            A 192.168.7.10 (dns.hosts.records)
    "#]]
    .assert_eq(&explain(&node, &["old.example"]));
    expect![[r#"
        a.dyn.example. A from 127.0.0.1
          rule 10 (steppe.toml:48) decides: records
          because the rule has no condition on names
          rule 1 (steppe.toml:19) sets: cache = { max_ttl = "10s" }
          rule 2 (steppe.toml:23) sets: log = false
          rule 1 (steppe.toml:19) sets: rate = { qps = 1000, of = "client" }
    "#]]
    .assert_eq(&explain(&node, &["a.dyn.example"]));
    let json = explain(
        &node,
        &["for-a-tablet.example", "--client-id", "tablet", "--json"],
    );
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["decisions"][0]["decision"]["rule"], 6);
    let log = &json["decisions"][0]["settings"]["log"];
    assert_eq!((&log["rule"], &log["says"]), (&2.into(), &"false".into()));
    assert_eq!(
        json["decisions"][0]["decision"]["action"],
        "block = \"nodata\""
    );
    // Files are read again without a reload.
    node.scratch().write("ads.txt", "new.example\n");
    node.scratch()
        .write("hosts", "192.168.7.9 scanner.home.arpa\n");
    eventually("the files are read again", || {
        ask(listen, "new.example") == (3, 0) && ask(listen, "scanner.home.arpa") == (0, 1)
    });
    assert_eq!(ask(listen, "x.ads.example"), (0, 1));
    assert!(node.stop().success());
}

/// The gateway serves a list by https, and redirects to it by http.
#[test]
fn a_list_is_fetched_by_https_and_kept() {
    let authority = Authority::new("lists");
    let certificate = authority.issue(&Leaf::named(&["localhost"]));
    let forwarder = Steppe::builder()
        .with("tls", Port::free().keep().port())
        .with_file("bundle.pem", &authority.pem())
        .with_file("a.crt", &certificate.cert)
        .with_file("a.key", &certificate.key)
        .with_env("SSL_CERT_FILE", "{scratch}/bundle.pem")
        .with_env("SSL_CERT_DIR", "")
        .start_forwarder(FETCHES);
    let Forwarder {
        node,
        plain: listen,
    } = forwarder;
    eventually("the list is fetched", || {
        ask(listen, "x.ads.example") == (3, 0)
    });
    let kept = std::fs::read_dir(node.scratch().join("kept")).expect("is made");
    let names: Vec<_> = kept
        .map(|file| file.expect("is read").file_name())
        .collect();
    let is_list = |name: &&std::ffi::OsString| name.to_string_lossy().ends_with(".txt");
    assert_eq!(names.iter().filter(is_list).count(), 1, "{names:?}");
    assert!(node.stop().success());
}

const FETCHES: &str = r#"
[http]
[[http.listener]]
listen = "{gateway}"
[[http.listener]]
listen = "127.0.0.1:{tls}"
tls.certificates = [{ cert = "a.crt", key = "a.key" }]
[http.upstream.list]
respond = { body = "||ads.example^\n" }
[http.upstream.moved]
respond = { status = 302, headers = { location = "https://localhost:{tls}/moved.txt" } }
[http.upstream.moved-again]
respond = { status = 301, headers = { location = "/ads.txt" } }
[[http.route]]
name = "list"
path = "/ads.txt"
upstream = "list"
[[http.route]]
name = "moved"
path = "/list"
upstream = "moved"
[[http.route]]
name = "moved-again"
path = "/moved.txt"
upstream = "moved-again"
[dns.list.ads]
urls = ["http://{gateway}/list"]
refresh = "1m"
store = "kept"
[[dns.rule]]
list = "ads"
block = "nxdomain"
[[dns.rule]]
records = "192.0.2.80"
"#;

const DECIDES: &str = r#"
[dns.access]
allow = ["loopback"]
[dns.list.ads]
files = ["ads.txt"]
[dns.list.exact]
files = ["exact.txt"]
plain_names = "exact"
[dns.hosts]
files = ["hosts"]
records = { "NAS.home.arpa" = "192.168.7.10" }
[[dns.rule]]
suffix = "dyn.example"
cache.max_ttl = "10s"
rate.qps = 1000
[[dns.rule]]
name = ["a.dyn.example", "for-a-tablet.example"]
log = false
[[dns.rule]]
list = "ads"
block = "nxdomain"
[[dns.rule]]
list = ["exact"]
block = "refused"
[[dns.rule]]
name = "old.example"
rewrite = { cname = "nas.home.arpa" }
[[dns.rule]]
client_id = "tablet"
block = "nodata"
[[dns.rule]]
name_regex = '^banner[0-9]+\.'
block = "refused"
[[dns.rule]]
name = "timed.example"
time = { days = [{far}], zone = "UTC" }
block = "refused"
[[dns.rule]]
name = "timed.example"
block = "nxdomain"
[[dns.rule]]
records = "192.0.2.80"
"#;

const CONFIG: &str = r#"
[dns.upstream.real]
servers = ["udp://{server}"]
[[dns.rule]]
suffix = "ads.example.org"
block = "nxdomain"
[[dns.rule]]
forward = "real"
"#;
