//! HTTPS servers that end connections, limit streams, or violate HTTP/2.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use steppe_dns::config::{Policy, Server, Transport};
use steppe_testkit::{Port, eventually};

use crate::client::{Client, answers, query, rcode};
use crate::frames::{
    Asked, ByHand, CONTINUATION, Connection, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED,
    RST_STREAM, SETTINGS, fields, frame, goaway, line, response, setting,
};
use crate::node::Node;
use crate::secure::{NAME, Site, server as by_https};
use crate::server::answered;

const A: u16 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;

fn message(asked: &Asked) -> Vec<u8> {
    answered(&asked.content, 0, &[(A, 3600, &[192, 0, 2, 7])])
}

fn good(asked: &Asked) -> Vec<u8> {
    response(asked.stream, &message(asked))
}

/// Answers every query.
fn serve(connection: &mut Connection) -> Option<()> {
    loop {
        let asked = connection.asked()?;
        connection.write(&[good(&asked)])?;
    }
}

#[track_caller]
fn assert_good(response: &[u8]) {
    assert_eq!((rcode(response), answers(response)), (0, 1));
}

/// The first connection answers one query, and ends by a GOAWAY that processes the first of three open queries.
#[test]
fn queries_that_a_goaway_leaves_out_go_on_the_next_connection_at_once() {
    let (site, listen) = (Site::new(), Port::free().keep());
    // The processed one takes until the others were answered.
    let (others_answered, wait) = sync_channel(1);
    let wait: Mutex<Receiver<()>> = Mutex::new(wait);
    let origin = ByHand::start(&site.issue(NAME), Vec::new(), move |connection| {
        if connection.number > 0 {
            return serve(connection);
        }
        let first = connection.asked()?;
        connection.write(&[good(&first)])?;
        let open = [
            connection.asked()?,
            connection.asked()?,
            connection.asked()?,
        ];
        connection.write(&[goaway(open[0].stream)])?;
        let waited = wait.lock().expect("no test failed there").recv();
        waited.expect("it is told");
        connection.write(&[good(&open[0])])?;
        connection.wait()
    });
    let server = by_https(Transport::Https, origin.address);
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    assert_good(&client.ask_for("first.example.org"));
    for number in 0..3 {
        client.send(&query(&format!("{number}.example.org"), A));
    }
    assert_good(&client.receive());
    assert_good(&client.receive());
    others_answered.send(()).expect("it waits");
    assert_good(&client.receive());
    assert_eq!(origin.connections(), 2);
    assert_eq!([origin.asked_on(0), origin.asked_on(1)], [4, 2]);
    // Later queries use the new connection too.
    assert_good(&client.ask_for("last.example.org"));
    assert_eq!([origin.asked_on(0), origin.asked_on(1)], [4, 3]);
}

#[test]
fn queries_on_a_connection_that_only_said_goaway_are_asked_on_the_next() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = ByHand::start(&site.issue(NAME), Vec::new(), |connection| {
        if connection.number > 0 {
            return serve(connection);
        }
        connection.asked()?;
        connection.write(&[goaway(0)])?;
        connection.wait()
    });
    let server = by_https(Transport::Https, origin.address);
    let _node = Node::start(site.forwarder(listen, server), 1);
    assert_good(&Client::of(listen).ask_for("a.example.org"));
    assert_eq!([origin.asked_on(0), origin.asked_on(1)], [1, 1]);
}

#[test]
fn queries_wait_while_the_server_allows_no_stream() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let none = setting(MAX_CONCURRENT_STREAMS, 0);
    let is_raised = Arc::new(Barrier::new(2));
    let raise = Arc::clone(&is_raised);
    let origin = ByHand::start(&site.issue(NAME), none, move |connection| {
        // The first query was sent before the client knew the limit.
        let first = loop {
            let (kind, _, stream, _) = connection.frame()?;
            if kind == HEADERS {
                break stream;
            }
        };
        let refused = 7_u32.to_be_bytes();
        connection.write(&[frame(RST_STREAM, 0, first, &refused)])?;
        raise.wait();
        let one = setting(MAX_CONCURRENT_STREAMS, 1);
        connection.write(&[frame(SETTINGS, 0, 0, &one)])?;
        loop {
            let asked = connection.asked()?;
            if asked.stream != first {
                connection.write(&[good(&asked)])?;
            }
        }
    });
    let server = by_https(Transport::Https, origin.address);
    let mut config = site.forwarder(listen, server);
    config.upstreams[0].timeout = Duration::from_secs(4);
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    for number in 0..4 {
        client.send(&query(&format!("{number}.example.org"), A));
    }
    is_raised.wait();
    for _ in 0..4 {
        assert_good(&client.receive());
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn padded_content_interim_responses_and_trailers_are_read() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = ByHand::start(&site.issue(NAME), Vec::new(), |connection| {
        loop {
            let asked = connection.asked()?;
            let message = message(&asked);
            let padded = [&[200][..], &message[..20], &[0; 200]].concat();
            connection.write(&[
                frame(HEADERS, END_HEADERS, asked.stream, &line(":status", "103")),
                frame(HEADERS, END_HEADERS, asked.stream, &fields()),
                frame(DATA, PADDED, asked.stream, &padded),
                frame(DATA, 0, asked.stream, &message[20..]),
                frame(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    asked.stream,
                    &line("x", "y"),
                ),
            ])?;
        }
    });
    let server = by_https(Transport::Https, origin.address);
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    // More than the flow-control windows of the connection hold.
    for number in 0..600 {
        assert_good(&client.ask_for(&format!("{number}.example.org")));
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_reset_stream_takes_no_other_with_it() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = ByHand::start(&site.issue(NAME), Vec::new(), |connection| {
        let open = [
            connection.asked()?,
            connection.asked()?,
            connection.asked()?,
        ];
        let internal_error = 2_u32.to_be_bytes();
        connection.write(&[
            frame(RST_STREAM, 0, open[1].stream, &internal_error),
            good(&open[2]),
            good(&open[0]),
        ])?;
        serve(connection)
    });
    let other = other();
    let mut config = site.forwarder(listen, by_https(Transport::Https, origin.address));
    fail_over(&mut config, &other);
    let _node = Node::start(config, 1);
    let client = Client::of(listen);
    for number in 0..3 {
        client.send(&query(&format!("{number}.example.org"), A));
    }
    for _ in 0..3 {
        assert_good(&client.receive());
    }
    assert_eq!((origin.connections(), other.asked().len()), (1, 1));
}

/// A UDP server, used after the HTTPS server has failed.
fn other() -> crate::server::Server {
    crate::server::Server::start(|asked| {
        vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 8])])]
    })
}

fn fail_over(config: &mut steppe_dns::config::Forwarder, other: &crate::server::Server) {
    let by_udp = Server::at(Transport::Udp, other.address);
    config.upstreams[0].servers.push(by_udp);
    config.upstreams[0].policy = Policy::Failover;
}

type Answer = fn(u32) -> Vec<u8>;

#[test]
fn a_server_that_breaks_the_rules_is_not_believed_and_another_is_asked() {
    let breaks: [(&str, Answer); 7] = [
        ("content without a head", |stream| {
            frame(DATA, END_STREAM, stream, b"\0\0x")
        }),
        ("a head without status", |stream| {
            let block = line("content-type", "application/dns-message");
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
        }),
        ("fields above the limit", |stream| {
            let line = line("x", &"v".repeat(120)).repeat(110);
            let block = [fields(), line].concat();
            [
                frame(HEADERS, END_HEADERS, stream, &block),
                frame(DATA, END_STREAM, stream, b"\0\0x"),
            ]
            .concat()
        }),
        ("a flood of CONTINUATION", |stream| {
            let mut frames = frame(HEADERS, 0, stream, &fields());
            frames.extend(frame(CONTINUATION, 0, stream, b"").repeat(1000));
            frames
        }),
        ("fields that cannot be decoded", |stream| {
            frame(HEADERS, END_HEADERS, stream, &[0xff; 20])
        }),
        ("a push", |stream| {
            const PUSH_PROMISE: u8 = 5;
            frame(PUSH_PROMISE, END_HEADERS, stream, b"\0\0\0\x02\x88")
        }),
        ("no HTTP/2", |_| {
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()
        }),
    ];
    for (name, answer) in breaks {
        let (site, listen) = (Site::new(), Port::free().keep());
        let origin = ByHand::start(&site.issue(NAME), Vec::new(), move |connection| {
            loop {
                let asked = connection.asked()?;
                connection.write(&[answer(asked.stream)])?;
            }
        });
        let other = other();
        let mut config = site.forwarder(listen, by_https(Transport::Https, origin.address));
        fail_over(&mut config, &other);
        let node = Node::start(config, 1);
        assert_good(&Client::of(listen).ask_for("a.example.org"));
        assert_eq!(other.asked().len(), 1, "{name}");
        drop(node);
    }
}

#[test]
fn a_server_that_leaves_amid_responses_is_asked_again() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = ByHand::start(&site.issue(NAME), Vec::new(), |connection| {
        let first = connection.asked()?;
        connection.write(&[good(&first)])?;
        if connection.number > 0 {
            return serve(connection);
        }
        let open = [connection.asked()?, connection.asked()?];
        connection.write(&[
            frame(HEADERS, END_HEADERS, open[1].stream, &fields()),
            frame(DATA, 0, open[1].stream, &[0; 5000]),
        ])
    });
    let server = by_https(Transport::Https, origin.address);
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    assert_good(&client.ask_for("first.example.org"));
    for number in 0..2 {
        client.send(&query(&format!("{number}.example.org"), A));
    }
    for _ in 0..2 {
        assert_good(&client.receive());
    }
    eventually("one connection follows the other", || {
        origin.connections() == 2
    });
}
