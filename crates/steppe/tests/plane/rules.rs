//! Rules about the services that peers may offer and call at a node: by certificates of clients, and by networks.

use std::net::SocketAddr;

use steppe_testkit::{Leaf, Port, Process, Steppe, eventually};

use crate::encrypted::{Files, node, plane, printed};

/// `[[plane.rule]]` of the documentation, for certificates with these names.
const RULES: &str = r#"
[[plane.rule]]
client_cert = "worker.example"
offer = ["echo", "embed/*"]

[[plane.rule]]
client_cert = "Front End"
call = ["echo"]
"#;

impl Files {
    /// Issues a certificate with this common name and alternative name; returns the options of a command that shows it.
    fn shown(&self, file: &str, common: &str, alternative: &str) -> Vec<String> {
        let leaf = Leaf::named(&[alternative]).common_name(common);
        let issued = self.authority.issue(&leaf);
        self.scratch.write(&format!("{file}.key"), &issued.key);
        self.scratch.write(&format!("{file}.crt"), &issued.cert);
        let [ca, cert, key] =
            ["ca.pem", &format!("{file}.crt"), &format!("{file}.key")].map(|name| self.at(name));
        ["--tls", "--ca", &ca, "--cert", &cert, "--key", &key]
            .map(str::to_owned)
            .to_vec()
    }
}

fn start(at: SocketAddr, service: &str, tls: &[String]) -> Process {
    let mut command = Steppe::command();
    let at = at.to_string();
    command.args(["plane", "echo", "--service", service, "--register", &at]);
    command.args(tls);
    Process::start("echo", command)
}

fn serves(process: &Process) -> bool {
    process.said().contains("serves ")
}

fn call(at: SocketAddr, tls: &[String]) -> Option<i32> {
    let at = at.to_string();
    let words = ["call", &at, "echo", "--text", "hello", "--deadline", "20s"];
    plane(&words, tls).status.code()
}

const DENIED: Option<i32> = Some(19);

#[test]
fn certificates_decide_who_may_register_and_call() {
    let files = Files::new();
    let worker = files.shown("worker", "w", "worker.example");
    let front = files.shown("front", "Front End", "front.example");
    let other = files.shown("other", "other", "other.example");
    let config = |rules: &str| format!("{}{rules}", files.listener());
    let (node, at) = node(&config(RULES));
    let echo = start(at, "echo", &worker);
    eventually("it is registered", || serves(&echo));
    assert_eq!(call(at, &front), Some(0));
    // A peer that may register may not call, and the other way round; a peer without a rule may do neither.
    assert_eq!(call(at, &worker), DENIED);
    assert_eq!(call(at, &other), DENIED);
    for (tls, service) in [(&front, "echo"), (&other, "echo"), (&worker, "other")] {
        let refused = start(at, service, tls);
        eventually("it is told so", || {
            refused.said().contains("the relay denies a service")
        });
        assert!(!serves(&refused), "{}", refused.said());
    }
    assert!(
        node.said()
            .contains("a worker offers a service that no rule allows")
    );
    let within = start(at, "embed/v1", &worker);
    eventually("it is registered", || serves(&within));
    let report = node.admin_json("/plane").to_string();
    assert!(report.contains("embed/v1"), "{report}");
}

/// After a reload, peers that are no longer allowed are disconnected, and others are served.
#[test]
fn a_reload_follows_the_new_rules() {
    let files = Files::new();
    let worker = files.shown("worker", "w", "worker.example");
    let front = files.shown("front", "Front End", "front.example");
    let listen = Port::free().keep();
    let config = |rules: &str| {
        format!(
            "[node]\nworkers = 2\nmemory_budget = \"64MiB\"\n[admin]\nlisten = \"{{admin}}\"\n\
             [[plane.listener]]\nlisten = \"{listen}\"\n{}{rules}",
            files.listener()
        )
    };
    let node = Steppe::builder().start(config(RULES));
    let echo = start(listen, "echo", &worker);
    eventually("it is registered", || serves(&echo));
    assert_eq!(call(listen, &front), Some(0));
    let reload = |rules: &str| {
        node.set_config(config(rules));
        let answer = node.admin_post("/reload");
        assert_eq!(answer.status(), 200, "{}", answer.text());
    };
    let is_there = || node.admin_json("/plane").to_string().contains("127.0.0.1");
    reload("[[plane.rule]]\nclient_cert = \"front.example\"\noffer = [\"*\"]\ncall = [\"*\"]\n");
    eventually("the worker is gone", || !is_there());
    eventually("it is told so", || {
        echo.said().contains("the relay denies a service")
    });
    reload(RULES);
    eventually("the worker is back", is_there);
    assert_eq!(call(listen, &front), Some(0));
    // Without rules every peer is allowed.
    reload("");
    assert_eq!(call(listen, &worker), Some(0));
}

/// A listener that other machines reach is logged once, unless there are rules; one at a loopback address is not.
#[test]
fn an_open_listener_is_told_of() {
    const TOLD: &str = "every peer may register as a worker and call every service";
    let port = Port::free().keep().port();
    let config = |address: &str, rules: &str| {
        format!(
            "[node]\nworkers = 2\nmemory_budget = \"64MiB\"\n[admin]\nlisten = \"{{admin}}\"\n\
             [[plane.listener]]\nlisten = \"{address}:{port}\"\n{rules}"
        )
    };
    let rules = "[[plane.rule]]\nnetwork = \"127.0.0.0/8\"\noffer = [\"*\"]\ncall = [\"*\"]\n";
    for (address, rules, told) in [
        ("127.0.0.1", "", 0),
        ("[::1]", "", 0),
        ("0.0.0.0", rules, 0),
        ("0.0.0.0", "", 1),
    ] {
        let mut node = Steppe::builder().start(config(address, rules));
        assert_eq!(node.admin_post("/reload").status(), 200);
        if told == 0 && address != "[::1]" {
            // Allowed by the network of its address.
            let at = SocketAddr::from(([127, 0, 0, 1], port));
            let echo = start(at, "echo", &[]);
            eventually("it is registered", || serves(&echo));
            let words = ["call", &at.to_string(), "echo", "--text", "hello"];
            assert_eq!(printed(plane(&words, &[])), "hello");
        }
        node.terminate();
        node.wait();
        let said = node.said();
        assert_eq!(
            said.matches(TOLD).count(),
            told,
            "{address} {rules}: {said}"
        );
    }
}
