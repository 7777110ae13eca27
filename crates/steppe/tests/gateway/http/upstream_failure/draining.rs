//! Servers that are taken out of service.

use steppe_testkit::{Gate, Message, Peer, RawOrigin, Steppe};

use super::{GET, OK, address, failures, node, servers, servers_requests, states, statuses};

fn admin(node: &Steppe, method: &str, path: &str, more: &str) -> Message {
    let host = node.admin();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n");
    Peer::connect(node.admin())
        .send(request)
        .response_to(method)
}

#[test]
fn a_drained_server_ends_what_it_has_and_gets_no_more() {
    let go_on = Gate::new();
    let gate = go_on.clone();
    let slow = RawOrigin::start(move |peer| {
        while peer.request().is_some() {
            gate.wait();
            peer.send(OK);
        }
    });
    let other = RawOrigin::answering(OK);
    let node = node(&[address(&slow), address(&other)], |u| u);
    let mut under_way = node.connect();
    under_way.send(GET);
    slow.wait_until("it arrives", |origin| !origin.received().is_empty());
    assert_eq!(servers(&node)[0]["active"], 1);
    let path = format!("/upstreams/origin/{}", address(&slow));
    let drained = admin(&node, "POST", &format!("{path}/drain"), "");
    assert_eq!(drained.status(), 200, "{drained:?}");
    assert_eq!(states(&node), ["draining", "healthy"]);
    assert_eq!(failures(&node, 6), 0);
    assert_eq!(
        slow.received().matches("GET ").count(),
        1,
        "only what was there"
    );
    go_on.open();
    assert_eq!(under_way.response().text(), "ok");
    for (method, path) in [
        ("DELETE", format!("{path}/drain")),
        ("POST", format!("{path}/undrain")),
    ] {
        assert_eq!(admin(&node, method, &path, "").status(), 200);
        assert_eq!(states(&node), ["healthy"; 2]);
        let before = servers_requests(&node, 0);
        assert_eq!(failures(&node, 4), 0);
        assert_eq!(servers_requests(&node, 0) - before, 2);
        let drain = format!("/upstreams/origin/{}/drain", address(&slow));
        assert_eq!(admin(&node, "POST", &drain, "").status(), 200);
    }
}

#[test]
fn a_drain_names_a_server_and_comes_from_no_page_of_another_site() {
    let origin = RawOrigin::answering(OK);
    let node = node(&[address(&origin)], |u| u);
    let path = format!("/upstreams/origin/{}/drain", address(&origin));
    for elsewhere in [
        "/upstreams/other/a:1/drain",
        "/upstreams/origin/127.0.0.1:1/drain",
    ] {
        assert_eq!(admin(&node, "POST", elsewhere, "").status(), 404);
    }
    let foreign = admin(&node, "POST", &path, "origin: https://attacker.example\r\n");
    assert_eq!(foreign.status(), 403);
    assert_eq!(failures(&node, 1), 0);
    assert_eq!(admin(&node, "POST", &path, "").status(), 200);
    assert_eq!(statuses(&node, 1), [503], "there is nobody left to ask");
}
