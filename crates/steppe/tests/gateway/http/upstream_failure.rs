//! Servers that fail: the answers to clients, the servers that are ejected, and the time until they
//! return.

mod circuit;
mod draining;
mod ejection;
mod error_log;
mod probes;
mod retries;

use serde_json::Value;
use steppe_testkit::{NodeConfig, RawOrigin, Section, Steppe, observe_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A node in front of `servers`, with this change to its upstream.
fn node(servers: &[String], change: impl FnOnce(Section) -> Section) -> Steppe {
    let config = NodeConfig::plain().upstream("origin", |u| change(u.servers(servers)));
    Steppe::builder().start(&config)
}

fn address(origin: &RawOrigin) -> String {
    origin.address().to_string()
}

fn answering(status: u16) -> RawOrigin {
    RawOrigin::answering(format!(
        "HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nno"
    ))
}

/// An origin that reads a request and closes the connection.
fn resetting() -> RawOrigin {
    RawOrigin::start(|peer| {
        peer.request();
    })
}

/// An origin that reads a request and never answers.
fn silent() -> RawOrigin {
    RawOrigin::start(|peer| peer.drain())
}

fn statuses(node: &Steppe, count: usize) -> Vec<u16> {
    (0..count).map(|_| node.exchange(GET).status()).collect()
}

fn failures(node: &Steppe, count: usize) -> usize {
    let statuses = statuses(node, count);
    statuses.iter().filter(|status| **status != 200).count()
}

/// The servers of the first upstream in `/upstreams`.
fn servers(node: &Steppe) -> Vec<Value> {
    let report = node.admin_json("/upstreams");
    let servers = report["upstreams"][0]["servers"].as_array();
    servers.expect("a list of servers").clone()
}

fn states(node: &Steppe) -> Vec<String> {
    let servers = servers(node);
    let states = servers.iter().map(|server| server["state"].as_str());
    states
        .map(|state| state.expect("text").to_owned())
        .collect()
}

#[track_caller]
fn wait_until(node: &Steppe, what: &str, holds: impl Fn(&[Value]) -> bool) {
    observe_until(what, || servers(node), |servers| holds(servers));
}

fn servers_requests(node: &Steppe, at: usize) -> u64 {
    servers(node)[at]["requests"].as_u64().expect("a number")
}

fn retries(node: &Steppe, outcome: &str) -> f64 {
    let labels = [("upstream", "origin"), ("outcome", outcome)];
    node.metrics()
        .sum("steppe_http_upstream_retries_total", &labels)
}
