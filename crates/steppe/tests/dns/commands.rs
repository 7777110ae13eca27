//! `steppe dns` against a running node.

use std::net::Ipv4Addr;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use steppe_testkit::{
    Chromium, DnsServer, Forwarder, NodeConfig, Port, Section, Steppe, ask_dns, eventually, skip,
};

/// A server that answers 192.0.2.7 to every query, with a TTL of an hour, and the number of its
/// queries.
fn server() -> (DnsServer, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let server = DnsServer::start(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Some((Ipv4Addr::new(192, 0, 2, 7), 3600))
    });
    (server, asked)
}

fn start(server: &DnsServer) -> Forwarder {
    start_with(server, &config())
}

fn start_with(server: &DnsServer, config: &NodeConfig) -> Forwarder {
    Steppe::builder()
        .with("server", server.address())
        .start_forwarder(config)
}

fn steppe(arguments: &[&str]) -> Output {
    let mut command = Steppe::command();
    command.args(arguments).output().expect("it runs")
}

/// The output of a command, which succeeded.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = steppe(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_question_is_asked_over_udp_and_tcp() {
    let (server, _) = server();
    let forwarder = start(&server);
    let listen = forwarder.plain;
    for by in ["udp", "tcp"] {
        let at = format!("@{by}://{listen}");
        let text = printed(&["dns", "query", "www.example.org", "a", &at]);
        let head = format!(";; NOERROR from {by}://{listen} in ");
        assert!(text.starts_with(&head), "{text}");
        let line = "\nwww.example.org.\t3600\tIN\tA\t192.0.2.7\n";
        assert!(text.contains(line), "{text}");
    }
    let at = format!("@{listen}");
    let text = printed(&["dns", "query", "blocked.example.org", &at, "TXT"]);
    assert!(text.starts_with(";; NXDOMAIN from udp://"), "{text}");
    assert!(text.contains(";; extended error 15: "), "{text}");
    assert!(text.contains("\tSOA\t"), "{text}");
}

#[test]
fn a_server_that_is_not_there_and_a_wrong_command_have_codes_of_their_own() {
    let port = Port::free();
    let nobody = format!("@tcp://{}", port.address());
    let output = steppe(&["dns", "query", "a.example.org", &nobody]);
    assert_eq!(output.status.code(), Some(5));
    for wrong in [
        &["dns", "query", "a.example.org", "NONSENSE"][..],
        &["dns", "query", "a.example.org", "@quic://9.9.9.9"],
        &["dns", "flush"],
        &["dns", "flush", "a.example.org", "--all"],
    ] {
        assert_eq!(steppe(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn names_are_forgotten_alone_with_those_below_and_all_together() {
    let (server, asked) = server();
    // No hedging: a late server is not queried again while its answer is awaited.
    let patient = config()
        .set("dns.upstream.real.policy", "race")
        .set("dns.upstream.real.timeout", "20s");
    let Forwarder {
        node,
        plain: listen,
    } = start_with(&server, &patient);
    let admin = format!("http://{}", node.admin());
    let at = format!("@{listen}");
    let names = ["a.example.org", "b.example.org", "example.net"];
    let ask_all = || {
        let before = asked.load(Ordering::SeqCst);
        for name in names {
            printed(&["dns", "query", name, &at]);
        }
        asked.load(Ordering::SeqCst) - before
    };
    assert_eq!(ask_all(), 3);
    assert_eq!(ask_all(), 0, "they are cached");
    let flush = |what: &[&str]| printed(&[&["dns", "flush", "--admin", &admin], what].concat());
    assert_eq!(flush(&["A.example.org"]), "1\n");
    assert_eq!(ask_all(), 1);
    assert_eq!(flush(&["--suffix", "example.org"]), "2\n");
    assert_eq!(ask_all(), 2);
    assert_eq!(flush(&["example.org"]), "0\n", "the name, not those below");
    assert_eq!(ask_all(), 0);
    assert_eq!(flush(&["--suffix", "."]), "3\n");
    assert_eq!(ask_all(), 3);
    assert_eq!(flush(&["--all"]), "3\n");
    assert_eq!(ask_all(), 3);
}

/// Tables of a forwarder that queries `{server}`.
fn config() -> NodeConfig {
    let rules = [
        Section::new()
            .set("name", "blocked.example.org")
            .set("block", "nxdomain"),
        Section::new().set("forward", "real"),
    ];
    NodeConfig::default()
        .set(
            "dns.upstream",
            Section::new().set("real.servers", ["udp://{server}"]),
        )
        .set("dns.rule", rules)
}

#[test]
fn the_page_and_its_json_tell_what_the_forwarder_does() {
    let (server, _) = server();
    let Forwarder {
        node,
        plain: listen,
    } = start(&server);
    let at = format!("@{listen}");
    for name in ["a.example.org", "a.example.org", "blocked.example.org"] {
        printed(&["dns", "query", name, &at]);
    }
    let dns = node.admin_json("/dns");
    assert_eq!(dns["listeners"], serde_json::json!([listen.to_string()]));
    assert_eq!(dns["queries"]["udp"], 3);
    assert_eq!(
        (&dns["lookups"]["hit"], &dns["lookups"]["miss"]),
        (&1.into(), &1.into())
    );
    assert_eq!(dns["responses"]["NXDOMAIN"], 1);
    assert_eq!(dns["events"]["blocked"], 1);
    assert_eq!(dns["cache"]["entries"], 1);
    assert_eq!(dns["upstreams"][0]["name"], "real");
    assert_eq!(dns["upstreams"][0]["policy"], "hedge");
    let asked = &dns["upstreams"][0]["servers"][0];
    assert_eq!(asked["server"], format!("udp://{}", server.address()));
    assert_eq!(asked["state"], "up");
    // A hedge may query a late server once more.
    assert!(asked["queries"].as_u64() >= Some(1), "{asked}");
    assert!(asked["latency_ms"].as_f64() > Some(0.0), "{asked}");
    assert_eq!(
        dns["top_names"],
        serde_json::Value::Null,
        "nothing is logged"
    );
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("the_page_tells_what_the_forwarder_does", &reason),
    };
    browser.go(&format!("http://{}/", node.admin()));
    browser.await_true("!byId('dns').hidden");
    browser.await_true("byId('dns-responses').innerText.includes('NXDOMAIN')");
    browser.await_true("byId('dns-events').innerText.includes('blocked by a rule')");
    browser.await_true("byId('dns-upstreams').innerText.includes('hedge')");
    browser.await_true("byId('dns-ratio').textContent === '50 %'");
    browser
        .await_true("byId('dns-upstreams').querySelector('.state .healthy').textContent === 'up'");
    browser.await_true("byId('dns-names-note').textContent.includes('dns.log.queries')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Tables with lists, silent servers, and names for the query log.
const TOLD: &str = r#"
[dns.log]
queries = { file = "{scratch}/queries.log" }
[dns.list.ads]
files = ["ads.txt"]
[dns.list.gone]
urls = ["http://{nobody}/list?secret"]
store = "kept"
[dns.upstream.real]
servers = ["udp://{server}"]
[dns.upstream.silent]
servers = ["udp://{nobody}"]
[[dns.rule]]
list = ["ads", "gone"]
block = "nxdomain"
[[dns.rule]]
suffix = "silent.example"
forward = "silent"
[[dns.rule]]
forward = "real"
"#;

#[test]
fn it_is_told_which_servers_are_down_what_lists_have_and_what_is_asked_for() {
    let ((server, _), nobody) = (server(), Port::free());
    let forwarder = Steppe::builder()
        .with("server", server.address())
        .with("nobody", nobody.address())
        .with_file("ads.txt", "||ads.example^\n||more.example^\n")
        .start_forwarder(TOLD);
    let Forwarder {
        node,
        plain: listen,
    } = forwarder;
    for _ in 0..3 {
        ask_dns(listen, "www.example.org");
    }
    ask_dns(listen, "x.ads.example");
    let mut number = 0;
    let dns = || node.admin_json("/dns");
    eventually("the silent server is down", || {
        number += 1;
        ask_dns(listen, &format!("{number}.silent.example"));
        dns()["upstreams"][1]["servers"][0]["state"] == "down"
    });
    eventually("the list can't be fetched", || {
        dns()["lists"]["lists"][1]["error"].is_string()
    });
    eventually("names are shown", || {
        ask_dns(listen, "www.example.org");
        dns()["top_names"][0]["name"] == "www.example.org."
    });
    let told = dns();
    assert_eq!(told["upstreams"][0]["servers"][0]["state"], "up");
    let lists = &told["lists"];
    assert_eq!(lists["lists"][0]["name"], "ads");
    assert_eq!(lists["lists"][0]["rules"], 2);
    assert_eq!(lists["lists"][0]["hits"], 1);
    assert!(lists["read_at"].as_u64() > Some(1_700_000_000), "{lists}");
    assert!(!lists.to_string().contains("secret"), "{lists}");
    // A list that can't be read any more is reported, and its last content stays.
    let ads = node.scratch().join("ads.txt");
    std::fs::remove_file(&ads).expect("is there");
    std::fs::create_dir(&ads).expect("is gone");
    eventually("the reason is told", || {
        let lists = &dns()["lists"];
        let error = lists["error"].as_str().unwrap_or_default();
        error.contains("ads.txt") && lists["lists"][0]["rules"] == 2
    });
    std::fs::remove_dir(&ads).expect("is empty");
    std::fs::write(&ads, "||ads.example^\n").expect("can be written");
    eventually("it is over", || {
        let lists = &dns()["lists"];
        lists["error"].is_null() && lists["lists"][0]["rules"] == 1
    });
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("the_page_shows_lists_and_names", &reason),
    };
    browser.go(&format!("http://{}/", node.admin()));
    browser.await_true("byId('dns-events').innerText.includes('a server failed')");
    browser.await_true("byId('dns-names').innerText.includes('www.example.org.')");
    browser.await_true("byId('dns-list-rows').innerText.includes('gone')");
    browser.await_true("byId('dns-list-rows').querySelector('.trouble') !== null");
    browser.await_true("byId('dns-upstreams').querySelector('.unhealthy').textContent === 'down'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
