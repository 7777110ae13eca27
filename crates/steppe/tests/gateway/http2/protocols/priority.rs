//! The order of responses on a connection that is slower than their content (RFC 9218).

use steppe_testkit::{FieldSection, H2Frame, H2Peer, NodeConfig, Peer, RawOrigin, Steppe};

const CONTENT_BYTES: usize = 3_000_000;
/// RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: u16 = 4;
const WIDE: u32 = 0x7fff_0000;

/// A response for each path: that of `/u=0` has this priority from its server, that of `/` has none.
fn origin() -> RawOrigin {
    let content = vec![b'x'; CONTENT_BYTES];
    RawOrigin::replying(move |request| {
        let path = request.start.split(' ').nth(1).unwrap_or_default();
        let priority = match path {
            "/" => String::new(),
            path => format!("priority: {}\r\n", &path[1..]),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\n{priority}cache-control: max-age=3600\r\n\
             content-length: {CONTENT_BYTES}\r\n\r\n"
        );
        [head.as_bytes(), &content].concat()
    })
}

/// A node that has a response for each of `paths` in its cache.
///
/// Content that arrives late from a server lets other streams go first, so a busy machine would change their order.
fn node_with_cached(origin: &RawOrigin, paths: &[&str]) -> Steppe {
    let node = Steppe::builder().with("origin", origin.address()).start(
        NodeConfig::plain()
            .protocols(["h2c"])
            .route("all", |r| r.filters(["store"]))
            .add_filter("store", |f| f.set("kind", "cache").set("bytes", "24MiB")),
    );
    for path in paths {
        let mut peer = client(&node);
        let stream = ask(&mut peer, path, None);
        assert_eq!(peer.answer(stream).content.len(), CONTENT_BYTES);
    }
    node
}

fn ask(peer: &mut H2Peer, path: &str, priority: Option<&str>) -> u32 {
    let fields = FieldSection::of("GET", path);
    let fields = match priority {
        Some(priority) => fields.field("priority", priority),
        None => fields,
    };
    peer.request(&fields)
}

/// The mean content, in bytes, of the responses of `others` that has arrived when that of `stream` is complete.
fn rest_when_whole(peer: &mut H2Peer, stream: u32, others: &[u32]) -> usize {
    let answer = peer.answer(stream);
    assert_eq!(
        (answer.status, answer.content.len()),
        (Some(200), CONTENT_BYTES)
    );
    let bytes = |&other: &u32| peer.so_far(other).content.len();
    others.iter().map(bytes).sum::<usize>() / others.len()
}

fn client(node: &Steppe) -> H2Peer {
    // The kernel sends its buffer in the order of writes: a small one hides little of the order of priorities.
    let peer = Peer::connect_narrow(node.gateway(), 4096);
    let mut peer = H2Peer::begin(peer, &[(INITIAL_WINDOW_SIZE, WIDE)]);
    peer.send(&[H2Frame::window(0, WIDE)]);
    peer
}

#[test]
fn the_most_urgent_goes_first_and_equals_share() {
    let requests = [("/", Some("u=0")), ("/u=1", None), ("/u=2,i", Some("u=7"))];
    let origin = origin();
    let node = node_with_cached(&origin, &requests.map(|(path, _)| path));
    for (path, priority) in requests {
        let mut peer = client(&node);
        let equals = [(); 4].map(|()| ask(&mut peer, "/", None));
        while peer.so_far(equals[3]).content.is_empty() {
            peer.frame().expect("the connection goes on");
        }
        let urgent = ask(&mut peer, path, priority);
        let rest = rest_when_whole(&mut peer, urgent, &equals);
        // In a fair share, the others would be complete too.
        assert!(rest < CONTENT_BYTES / 2, "{path} {priority:?}: {rest}");
        // A less urgent response waits for the others, which share.
        let last = ask(&mut peer, "/", Some("u=6"));
        let rest = rest_when_whole(&mut peer, equals[0], &equals[1..]);
        assert!(rest > CONTENT_BYTES / 2, "{rest}");
        let so_far = peer.so_far(last).content.len();
        assert!(so_far < CONTENT_BYTES / 2, "{so_far}");
        assert_eq!(peer.answer(last).content.len(), CONTENT_BYTES);
    }
    let asked = origin.received().matches("GET ").count();
    assert_eq!(asked, requests.len(), "the cache answers");
}
