//! Names whose addresses change, or that can't be looked up any more.

use std::net::Ipv4Addr;

use serde_json::Value;
use steppe_testkit::{NameServer, Nginx, Port, Steppe, eventually, heavy, skip};

use crate::bench::{Bench, settings};

const NAME: &str = "app.steppe.test";
const ONE: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 2);
const PAGE: &str = "location / { return 200 hello; }";

fn name_server(test: &str, hosts: &[(&str, Ipv4Addr)]) -> Option<NameServer> {
    let started = NameServer::start(hosts);
    started.map_err(|reason| skip(test, &reason)).ok()
}

/// Loads a node that looks the servers' names up. Its timeout for a first byte is long: no server
/// must fail by being slow, which on a busy machine each of them is at times.
fn load(names: &NameServer, servers: &[String]) -> Bench {
    Bench::load(Steppe::builder().asking(names), servers, |u| {
        settings(u).set("timeouts.first_byte", "10s")
    })
}

/// Waits until the servers are at these addresses, each healthy and with so many requests at least.
#[track_caller]
fn wait_until_at(bench: &Bench, port: &Port, addresses: &[Ipv4Addr]) {
    let is_at = |(server, ip): (&Value, &Ipv4Addr)| {
        server["address"] == format!("{ip}:{}", port.number())
            && server["state"] == "healthy"
            && server["requests"].as_u64() >= Some(50)
    };
    bench.wait_until(&format!("at {addresses:?}"), |servers| {
        servers.len() == addresses.len() && servers.iter().zip(addresses).all(is_at)
    });
}

#[test]
fn a_name_moves_to_another_server() {
    let _alone = heavy();
    let test = "a_name_moves_to_another_server";
    let Some(names) = name_server(test, &[(NAME, ONE)]) else {
        return;
    };
    let port = Port::free();
    let mut one = Nginx::start_at((ONE, port.number()).into(), PAGE);
    let _other = Nginx::start_at((OTHER, port.number()).into(), PAGE);
    let bench = load(&names, &[format!("{NAME}:{}", port.number())]);
    wait_until_at(&bench, &port, &[ONE]);
    names.set(&[(NAME, ONE), (NAME, OTHER)]);
    wait_until_at(&bench, &port, &[ONE, OTHER]);
    names.set(&[(NAME, OTHER)]);
    wait_until_at(&bench, &port, &[OTHER]);
    one.kill();
    let before = requests(&bench);
    bench.wait_until("it goes on without the first", |servers| {
        servers[0]["requests"].as_u64() >= Some(before + 100)
    });
    bench.end_without_error();
}

fn requests(bench: &Bench) -> u64 {
    bench.servers()[0]["requests"].as_u64().expect("a number")
}

#[track_caller]
fn wait_until_said(bench: &Bench, what: &str, times: usize) {
    eventually(what, || bench.node.said().matches(what).count() >= times);
}

#[test]
fn addresses_stay_while_lookups_fail() {
    let _alone = heavy();
    let test = "addresses_stay_while_lookups_fail";
    let Some(mut names) = name_server(test, &[(NAME, ONE)]) else {
        return;
    };
    let port = Port::free();
    let _one = Nginx::start_at((ONE, port.number()).into(), PAGE);
    let _other = Nginx::start_at((OTHER, port.number()).into(), PAGE);
    let bench = load(&names, &[format!("{NAME}:{}", port.number())]);
    wait_until_at(&bench, &port, &[ONE]);
    // No name server answers.
    names.kill();
    wait_until_said(&bench, "name lookup failed", 1);
    let before = requests(&bench);
    eventually("it is still asked", || requests(&bench) > before);
    // The name server answers that there is no such name.
    names.set(&[]);
    names.restart();
    // The reason changes; a failure that lasts is not logged each time.
    wait_until_said(&bench, "NXDOMAIN", 1);
    wait_until_at(&bench, &port, &[ONE]);
    names.set(&[(NAME, OTHER)]);
    wait_until_at(&bench, &port, &[OTHER]);
    bench.end_without_error();
}

#[test]
fn a_name_without_addresses_is_passed_over_until_it_has_some() {
    let _alone = heavy();
    let test = "a_name_without_addresses_is_passed_over_until_it_has_some";
    let Some(names) = name_server(test, &[]) else {
        return;
    };
    let port = Port::free();
    let _one = Nginx::start_at((ONE, port.number()).into(), PAGE);
    let _other = Nginx::start_at((OTHER, port.number()).into(), PAGE);
    let known = format!("{OTHER}:{}", port.number());
    let bench = load(&names, &[format!("{NAME}:{}", port.number()), known]);
    wait_until_said(&bench, "name lookup failed", 1);
    bench.wait_until("the other is asked", |servers| {
        servers[0]["state"] == "unresolved" && servers[1]["requests"].as_u64() >= Some(100)
    });
    names.set(&[(NAME, ONE)]);
    wait_until_at(&bench, &port, &[ONE, OTHER]);
    bench.end_without_error();
}
