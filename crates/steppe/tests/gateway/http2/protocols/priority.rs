//! The order of responses where the connection takes less than there is (RFC 9218).

use steppe_testkit::{FieldSection, H2Frame, H2Peer, NodeConfig, Peer, RawOrigin, Steppe};

const CONTENT_BYTES: usize = 3_000_000;
/// RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: u16 = 4;
const WIDE: u32 = 0x7fff_0000;

/// Responses as the path asks: `/u=0` has that field of its server, others have none.
fn site() -> RawOrigin {
    // Ready before it is asked for: content that comes late lets others go first.
    let content = vec![b'x'; CONTENT_BYTES];
    RawOrigin::replying(move |request| {
        let path = request.start.split(' ').nth(1).unwrap_or_default();
        let said = match path {
            "/" => String::new(),
            path => format!("priority: {}\r\n", &path[1..]),
        };
        let head = format!("HTTP/1.1 200 OK\r\n{said}content-length: {CONTENT_BYTES}\r\n\r\n");
        [head.as_bytes(), &content].concat()
    })
}

fn ask(peer: &mut H2Peer, path: &str, said: Option<&str>) -> u32 {
    let fields = FieldSection::of("GET", path);
    let fields = match said {
        Some(said) => fields.field("priority", said),
        None => fields,
    };
    peer.request(&fields)
}

/// How much of a response of `others` has come, on average, when that of `stream` is whole.
///
/// Which of them got more is the server's doing as well: whose content has not come from there yet
/// lets others go first.
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
    // What the kernel has taken is in no order of ours: it is little here.
    let peer = Peer::connect_narrow(node.gateway(), 4096);
    let mut peer = H2Peer::begin(peer, &[(INITIAL_WINDOW_SIZE, WIDE)]);
    peer.send(&[H2Frame::window(0, WIDE)]);
    peer
}

#[test]
fn the_most_urgent_goes_first_and_equals_share() {
    let site = site();
    let node = Steppe::builder()
        .with("origin", site.address())
        .start(NodeConfig::plain().protocols(["h2c"]));
    for (path, said) in [("/", Some("u=0")), ("/u=1", None), ("/u=2,i", Some("u=7"))] {
        let mut peer = client(&node);
        let equals = [(); 4].map(|()| ask(&mut peer, "/", None));
        while peer.so_far(equals[3]).content.is_empty() {
            peer.frame().expect("the connection goes on");
        }
        let urgent = ask(&mut peer, path, said);
        let rest = rest_when_whole(&mut peer, urgent, &equals);
        // Sharing alike with it, they would have all of theirs.
        assert!(rest < CONTENT_BYTES / 2, "{path} {said:?}: {rest}");
        // One that is not urgent waits for the others, which share.
        let last = ask(&mut peer, "/", Some("u=6"));
        let rest = rest_when_whole(&mut peer, equals[0], &equals[1..]);
        assert!(rest > CONTENT_BYTES / 2, "{rest}");
        let so_far = peer.so_far(last).content.len();
        assert!(so_far < CONTENT_BYTES / 2, "{so_far}");
        assert_eq!(peer.answer(last).content.len(), CONTENT_BYTES);
    }
}
