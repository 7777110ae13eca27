//! Responses that a restart restores from the cache file, with the service on its sockets.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use steppe_dns::config::Forwarder;
use steppe_testkit::{Port, Scratch};

use crate::client::{Client, PATIENCE, answers, forwarder, rcode};
use crate::node::Node;
use crate::server::{Server, answered};

const A: u16 = 1;
const TTL: u32 = 3600;

fn server() -> Server {
    Server::start(|asked| vec![answered(&asked.bytes, 0, &[(A, TTL, &[192, 0, 2, 7])])])
}

fn kept(listen: SocketAddr, server: SocketAddr, file: PathBuf) -> Forwarder {
    let mut config = forwarder(listen, &[server]);
    config.cache.snapshot = Some(file);
    config
}

/// The TTL of the first record, whose owner is a pointer to the question.
fn ttl(response: &[u8], name: &str) -> u32 {
    let at = 12 + name.len() + 2 + 4 + 2 + 4;
    u32::from_be_bytes(*response[at..].first_chunk().expect("a record"))
}

/// Waits until the cache has at least `entries` responses.
fn wait_for_entries(node: &Node, entries: u64) {
    let end = Instant::now() + PATIENCE;
    while node.metric("steppe_dns_cache_entries") < entries {
        assert!(Instant::now() < end, "the file is not read");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_restart_brings_answers_back_with_the_time_that_they_have_left() {
    let scratch = Scratch::new("dns-cache");
    let (file, listen) = (scratch.join("dns-cache.bin"), Port::free().keep());
    let server = server();
    let config = kept(listen, server.address, file.clone());
    let node = Node::start(config.clone(), 2);
    let client = Client::of(listen);
    let names: Vec<String> = (0..50)
        .map(|number| format!("n{number}.example.org"))
        .collect();
    for name in &names {
        assert_eq!(answers(&client.ask_for(name)), 1);
    }
    assert_eq!(node.stop().dropped, 0);
    drop(client);
    let mode = fs::metadata(&file)
        .expect("it is written")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!scratch.join("dns-cache.bin.new").exists());
    // Without the server, only the cache can answer.
    drop(server);
    let start = Instant::now();
    let node = Node::start(config, 2);
    wait_for_entries(&node, 50);
    let client = Client::of(listen);
    for name in &names {
        let response = client.ask_for(name);
        assert_eq!((rcode(&response), answers(&response)), (0, 1), "{name}");
        let left = ttl(&response, name);
        assert!(left <= TTL && left > TTL - 600, "{left} s");
    }
    // A second later, TTLs are a second less.
    while start.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(ttl(&client.ask_for(&names[0]), &names[0]) < TTL);
    node.stop();
}

#[test]
fn a_file_that_is_foreign_torn_or_of_another_upstream_is_no_harm() {
    let scratch = Scratch::new("dns-cache-torn");
    let (file, listen) = (scratch.join("dns-cache.bin"), Port::free().keep());
    let server = server();
    let config = kept(listen, server.address, file.clone());
    for content in [&b""[..], b"a text that somebody put here", b"steppeDC\x02"] {
        fs::write(&file, content).expect("a folder");
        let node = Node::start(config.clone(), 1);
        assert_eq!(answers(&Client::of(listen).ask_for("a.example.org")), 1);
        node.stop();
        assert!(fs::read(&file).expect("it is written").len() > 100);
    }
    let node = Node::start(config.clone(), 1);
    let client = Client::of(listen);
    for number in 0..100 {
        client.ask_for(&format!("n{number}.example.org"));
    }
    node.stop();
    let whole = fs::read(&file).expect("it is written");
    fs::write(&file, &whole[..whole.len() / 2]).expect("a folder");
    let node = Node::start(config.clone(), 1);
    wait_for_entries(&node, 30);
    assert_eq!(answers(&client.ask_for("a.example.org")), 1);
    node.stop();
    // Settings of the queries do not matter, but responses of another upstream must not be used.
    fs::write(&file, &whole).expect("a folder");
    let mut other = config;
    other.upstreams[0].timeout += Duration::from_secs(1);
    let asked = server.asked().len();
    let node = Node::start(other.clone(), 1);
    // The hundred, and the one before them.
    wait_for_entries(&node, 101);
    client.ask_for("n7.example.org");
    assert_eq!(server.asked().len(), asked);
    node.stop();
    fs::write(&file, &whole).expect("a folder");
    other.upstreams[0].name = "other".to_owned();
    let node = Node::start(other, 1);
    client.ask_for("n7.example.org");
    assert_eq!(server.asked().len(), asked + 1);
    node.stop();
}
