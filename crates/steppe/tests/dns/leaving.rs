//! Clients of the forwarder that leave while their queries wait: the node notices, and releases their memory.

use steppe_testkit::{
    Authority, DnsServer, FieldSection, H2Frame, H2Peer, Peer, SecureForwarder, Steppe, TlsClient,
    dns_query, eventually,
};

/// Tables with a server that answers nothing: a query waits for seconds.
const TABLES: &str = r#"
[dns.cache]
bytes = "1MiB"
[dns.upstream.silent]
servers = ["udp://{silent}"]
[[dns.rule]]
forward = "silent"
"#;

/// The way that a client leaves.
#[derive(Debug, Clone, Copy)]
enum Leave {
    /// FIN, over TLS after `close_notify`.
    Finish,
    /// FIN alone.
    Cut,
    /// RST.
    Reset,
}

const LEAVES: [Leave; 3] = [Leave::Finish, Leave::Cut, Leave::Reset];

/// One waiting query, and so many that the connection is not read any more: its end is behind bytes.
const QUESTIONS: [usize; 2] = [1, 400];

fn start(authority: &Authority, silent: &DnsServer) -> SecureForwarder {
    Steppe::builder()
        .with("workers", 1)
        .with("silent", silent.address())
        .start_secure_forwarder(authority, "dns.test", TABLES)
}

/// Bytes that are reserved in accounts of connections and of requests.
fn reserved(node: &Steppe) -> u64 {
    let memory = node.admin_json("/memory");
    let accounts = memory["budget"]["children"].as_array().cloned();
    let accounts = accounts.expect("the node has accounts").into_iter();
    let judged = accounts.filter(|account| {
        let name = account["name"].as_str().unwrap_or_default();
        name == "dns" || name.starts_with("listener")
    });
    judged
        .filter_map(|account| account["reserved_bytes"].as_u64())
        .sum()
}

fn queries(tag: &str, count: usize) -> Vec<u8> {
    let query = |number| {
        let message = dns_query(7, &format!("{tag}-{number}.example"), 1);
        let len = u16::try_from(message.len()).expect("a short message");
        [len.to_be_bytes().to_vec(), message].concat()
    };
    (0..count).flat_map(query).collect()
}

fn leave(mut peer: Peer, how: Leave) -> Option<Peer> {
    match how {
        Leave::Finish => _ = peer.finish(),
        Leave::Cut => _ = peer.cut(),
        Leave::Reset => {
            peer.reset();
            return None;
        }
    }
    // The socket stays open on this side: only the sent FIN or RST tells the node that the client has left.
    Some(peer)
}

fn gone(node: &Steppe) -> f64 {
    let labels = [("event", "client_gone")];
    node.metrics()
        .sum("steppe_dns_connection_events_total", &labels)
}

/// Each way of leaving in each state, over a transport.
fn leaves_are_noticed(forwarder: &SecureForwarder, tag: &str, connect: impl Fn() -> Peer) {
    let node = &forwarder.node;
    let before = reserved(node);
    for (how, count) in LEAVES
        .iter()
        .flat_map(|how| QUESTIONS.map(|count| (*how, count)))
    {
        let what = format!("{tag}, {how:?} with {count} questions");
        let (queries_before, gone_before) = (forwarder.queries(tag), gone(node));
        let mut peer = connect();
        peer.send(queries(&format!("{tag}-{how:?}-{count}"), count));
        let read = count.min(128);
        eventually(&format!("{what}: it waits"), || {
            forwarder.queries(tag) - queries_before >= read as f64
        });
        let left = leave(peer, how);
        eventually(&format!("{what}: it is noticed"), || {
            gone(node) > gone_before
        });
        eventually(&format!("{what}: all is given back"), || {
            reserved(node) <= before
        });
        drop(left);
    }
}

#[test]
fn over_tcp_and_over_tls() {
    let (authority, silent) = (Authority::new("leaving"), DnsServer::start(|_| None));
    let forwarder = start(&authority, &silent);
    leaves_are_noticed(&forwarder, "tcp", || Peer::connect(forwarder.plain));
    let client = TlsClient::new();
    leaves_are_noticed(&forwarder, "tls", || {
        client.connect(forwarder.dot, "dns.test")
    });
    assert!(forwarder.node.stop().success());
}

#[test]
fn over_https() {
    let (authority, silent) = (Authority::new("leaving"), DnsServer::start(|_| None));
    let forwarder = start(&authority, &silent);
    let node = &forwarder.node;
    let client = TlsClient::new().alpn(&["h2"]);
    let before = reserved(node);
    let post = |number: usize| {
        let message = dns_query(0, &format!("n{number}.example"), 1);
        let fields =
            FieldSection::of("POST", "/dns-query").field("content-type", "application/dns-message");
        (fields, message)
    };
    for count in [1, 60] {
        let queries_before = forwarder.queries("https");
        let mut peer = H2Peer::begin(client.connect(forwarder.doh, "dns.test"), &[]);
        let mut streams = Vec::new();
        for number in 0..count {
            let (fields, message) = post(number);
            let stream = peer.stream();
            peer.send(&[
                H2Frame::opening(stream, &fields),
                H2Frame::last_data(stream, message),
            ]);
            streams.push(stream);
        }
        eventually("all wait", || {
            forwarder.queries("https") - queries_before >= count as f64
        });
        // The streams first, while the connection stands; then the connection.
        let resets: Vec<_> = streams
            .iter()
            .map(|stream| H2Frame::reset(*stream))
            .collect();
        let held = reserved(node);
        peer.send(&resets);
        eventually("streams that were reset hold nothing", || {
            reserved(node) < held
        });
        drop(peer);
        eventually("all is given back", || reserved(node) <= before);
    }
    assert!(forwarder.node.stop().success());
}
