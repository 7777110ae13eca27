//! Lines of the query log, with the service on its sockets and two workers.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use steppe_dns::config::{
    Action, Block, Forwarder, LoggedQueries, QueryLog, QueryLogFormat, Rule, RuleLog,
};
use steppe_telemetry::Destination;
use steppe_testkit::{Port, Scratch, eventually};

use crate::client::{Client, PATIENCE, forwarder, query, rcode};
use crate::node::Node;
use crate::server::{Server, answered};

const A: u16 = 1;

fn server() -> Server {
    Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 7])])])
}

fn logged(
    listen: SocketAddr,
    server: SocketAddr,
    (file, format): (PathBuf, QueryLogFormat),
) -> Forwarder {
    let mut config = forwarder(listen, &[server]);
    config.rules.insert(
        0,
        Rule {
            names: vec!["ads.example.org".parse().expect("a name")],
            action: Some(Action::Block(Block::NameError)),
            ..config.rules[0].clone()
        },
    );
    config.query_log = Some(QueryLog {
        destination: Destination::File(file),
        format,
        queries: LoggedQueries::All,
    });
    config
}

/// The lines of a file, once there are `count` of them.
fn lines(file: &Path, count: usize) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        if lines.len() >= count {
            assert_eq!(lines.len(), count, "{text}");
            return lines;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A line without its time and its duration.
fn without_times(line: &str) -> &str {
    let (time, rest) = line.split_once(' ').expect("a time");
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    let (rest, took) = rest.rsplit_once(' ').expect("what it took");
    took.parse::<u64>().expect("microseconds");
    rest
}

#[test]
fn each_query_has_a_line_that_says_what_became_of_it() {
    let scratch = Scratch::new("dns-log");
    let (file, server, listen) = (scratch.join("queries.log"), server(), Port::free().keep());
    let config = logged(listen, server.address, (file.clone(), QueryLogFormat::Text));
    let node = Node::start(config, 2);
    let client = Client::of(listen);
    for name in [
        "www.Example.org",
        "www.example.org",
        "ads.example.org",
        "localhost",
    ] {
        client.ask_for(name);
    }
    client.ask(&query(r"a.example.org", 4711));
    let lines = lines(&file, 5);
    let lines: Vec<_> = lines.iter().map(|line| without_times(line)).collect();
    assert_eq!(
        lines,
        [
            "127.0.0.1 - udp www.Example.org. A NOERROR forwarded test -",
            "127.0.0.1 - udp www.example.org. A NOERROR hit test -",
            "127.0.0.1 - udp ads.example.org. A NXDOMAIN blocked - -",
            "127.0.0.1 - udp localhost. A NOERROR local - -",
            "127.0.0.1 - udp a.example.org. TYPE4711 NOERROR forwarded test -",
        ]
    );
    assert_eq!(
        node.metric("steppe_dns_query_log_lines_total{result=\"written\"}"),
        5
    );
}

#[test]
fn a_name_ends_no_value_of_a_line_in_json() {
    let scratch = Scratch::new("dns-log-json");
    let (file, server, listen) = (scratch.join("queries.log"), server(), Port::free().keep());
    let config = logged(listen, server.address, (file.clone(), QueryLogFormat::Json));
    let _node = Node::start(config, 1);
    let mut asked = query("abcde.example.org", A);
    asked[13..18].copy_from_slice(b"\"\\\n \xff");
    Client::of(listen).ask(&asked);
    let lines = lines(&file, 1);
    let line: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!(line["name"], r#"\"\\\010\032\255.example.org."#);
    assert_eq!(line["client"], "127.0.0.1");
    assert_eq!(line["transport"], "udp");
    assert_eq!(line["type"], "A");
    assert_eq!(line["rcode"], "NOERROR");
    assert_eq!(line["decision"], "forwarded");
    assert_eq!(line["upstream"], "test");
    assert!(line["us"].is_u64() && line["time"].is_string() && line["id"].is_null());
    assert!(line["tag"].is_null());
}

/// A rule with this log setting for a name.
fn rule(name: &str, log: RuleLog) -> Rule {
    Rule {
        names: vec![name.parse().expect("a name")],
        log: Some(log),
        ..Rule::without_action()
    }
}

#[test]
fn rules_say_which_queries_have_a_line_and_what_stands_in_it() {
    let scratch = Scratch::new("dns-log-rules");
    let (file, server, listen) = (scratch.join("queries.log"), server(), Port::free().keep());
    let to_file = (file.clone(), QueryLogFormat::Text);
    let mut config = logged(listen, server.address, to_file);
    // The first rule with the setting decides, also beside an action.
    config.rules[0].log = Some(RuleLog::Tagged("ad".into()));
    let rules = [
        rule("off.example.org", RuleLog::Off),
        rule("on.example.org", RuleLog::On),
        rule("off.example.org", RuleLog::On),
    ];
    config.rules.splice(..0, rules);
    let mut node = Node::start(config.clone(), 1);
    let names = ["off", "on", "ads", "www"].map(|name| format!("{name}.example.org"));
    let client = Client::of(listen);
    // Each name twice: from the server, and from the cache.
    for name in names.iter().chain(&names) {
        client.ask_for(name);
    }
    // The names and tags of lines.
    let told = |count: usize| {
        let lines = lines(&file, count);
        let told = lines.iter().map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            format!("{} {}", words[4], words[9])
        });
        told.collect::<Vec<_>>()
    };
    let of_all = [
        "on.example.org. -",
        "ads.example.org. ad",
        "www.example.org. -",
    ];
    assert_eq!(told(6), [of_all, of_all].concat());
    if let Some(log) = &mut config.query_log {
        log.queries = LoggedQueries::OfRules;
    }
    node.change(config);
    for name in &names {
        client.ask_for(name);
    }
    node.stop();
    assert_eq!(told(8)[6..], of_all[..2]);
}

#[test]
fn a_log_that_was_moved_away_is_opened_anew_and_a_reload_turns_it_off() {
    let scratch = Scratch::new("dns-log-moved");
    let (file, server, listen) = (scratch.join("queries.log"), server(), Port::free().keep());
    let mut config = logged(listen, server.address, (file.clone(), QueryLogFormat::Text));
    let mut node = Node::start(config.clone(), 1);
    let client = Client::of(listen);
    client.ask_for("a.example.org");
    lines(&file, 1);
    fs::rename(&file, scratch.join("queries.1")).expect("a file");
    node.reopen_log();
    client.ask_for("b.example.org");
    assert!(lines(&file, 1)[0].contains(" b.example.org. "));
    config.query_log = None;
    node.change(config);
    client.ask_for("c.example.org");
    node.stop();
    lines(&file, 1);
}

#[test]
fn lines_of_clients_that_wait_and_the_last_ones_are_written() {
    let scratch = Scratch::new("dns-log-many");
    let (file, server, listen) = (scratch.join("queries.log"), server(), Port::free().keep());
    let config = logged(listen, server.address, (file.clone(), QueryLogFormat::Text));
    let node = Node::start(config, 2);
    let sockets: Vec<_> = (0..8)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            socket.connect(listen).expect("is set");
            socket.set_read_timeout(Some(PATIENCE)).expect("is set");
            socket
        })
        .collect();
    for round in 0..50 {
        for socket in &sockets {
            let asked = query(&format!("n{round}.example.org"), A);
            socket.send(&asked).expect("is sent");
        }
        for socket in &sockets {
            socket.recv(&mut [0; 1500]).expect("a response");
        }
    }
    node.stop();
    let lines = lines(&file, 400);
    let forwarded = lines
        .iter()
        .filter(|line| line.contains(" forwarded test "));
    assert!(forwarded.count() >= 50);
}

/// A pipe without a reader: lines are dropped and counted, and clients are not affected.
#[test]
fn a_log_that_takes_nothing_costs_lines_and_no_answer() {
    let scratch = Scratch::new("dns-log-pipe");
    let (pipe, server, listen) = (scratch.join("pipe"), server(), Port::free().keep());
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    // Opened for both, so that opening does not block; nothing is read.
    let held = fs::OpenOptions::new().read(true).write(true).open(&pipe);
    let held = held.expect("a pipe");
    let config = logged(listen, server.address, (pipe, QueryLogFormat::Text));
    let node = Node::start(config, 1);
    let client = Client::of(listen);
    // Long names fill the buffers sooner.
    let name = ["a".repeat(60), "b".repeat(60), "c".repeat(60)].join(".");
    let dropped = "steppe_dns_query_log_lines_total{result=\"dropped\"}";
    eventually("lines are dropped", || {
        for _ in 0..500 {
            assert_eq!(rcode(&client.ask_for(&name)), 0);
        }
        node.metric(dropped) > 0
    });
    drop(held);
    node.stop();
}
