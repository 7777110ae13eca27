//! A heap profile of a running node, requested from admin.

use steppe_testkit::{Message, Peer, RawOrigin, Steppe, heavy};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const PATH: &str = "/memory/profile";

fn stop(node: &Steppe) -> Message {
    let host = node.admin();
    let request = format!("DELETE {PATH} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    Peer::connect(node.admin())
        .send(request)
        .response_to("DELETE")
}

#[test]
fn a_profile_is_started_read_and_ended() {
    let _alone = heavy();
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    assert_eq!(
        node.admin_get(PATH).status(),
        404,
        "none without being asked"
    );
    let started = node.admin_post(PATH);
    if steppe_node::allocator::NAME != "steppe" {
        assert_eq!(started.status(), 501, "other allocators take none");
        return;
    }
    assert_eq!(started.status(), 200);
    // Connections hold memory, and so do admin's answers.
    let _peers: Vec<Peer> = (0..50)
        .map(|_| {
            let mut peer = node.connect();
            peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
            peer
        })
        .collect();
    for _ in 0..100 {
        node.admin_get("/memory");
    }
    let profile = node.admin_get(PATH);
    assert_eq!(profile.status(), 200);
    let text = profile.text();
    assert!(text.starts_with("heap profile: "), "{text:.200}");
    assert!(text.contains("@ heap_v2/524288\n"), "{text:.200}");
    assert!(
        text.contains("] @ 0x"),
        "some block was a sample: {text:.200}"
    );
    assert!(text.contains("MAPPED_LIBRARIES:\n"));

    assert_eq!(stop(&node).status(), 200);
    assert_eq!(node.admin_get(PATH).status(), 404);
    assert_eq!(
        node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status(),
        200
    );
}
