//! The proof of the seam: protocols and filters that the crate does not know.
//!
//! `line` is a codec of one exchange a line, `multiplexed` one whose connections are
//! shared by exchanges, `sessions` one that has no connections. Both drive accept, route, exchange and upstream through
//! public traits alone; so do the filters.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod copies;
mod doorman;
mod drivers;
mod filters;
mod gateway;
mod guests;
#[path = "../support/in_process.rs"]
mod in_process;
mod line;
mod multiplexed;
mod peers;
mod sessions;

use std::net::TcpStream;
use std::sync::Arc;

use steppe_http::codecs::Codecs;
use steppe_http::config::{H1, Retry, RetryOn, Servers};
use steppe_http::filter::Filter;

use filters::{Deny, Gate, Mark, Verdict};
use gateway::{Running, Setup, servers};
use line::{LINE, Line};
use multiplexed::{MULTIPLEXED, Multiplexed, STREAMS_MAX};
use peers::{LineClient, Server, ask_h1};

fn codecs() -> Codecs {
    steppe_http::codecs()
        .with_downstream(LINE, Arc::new(Line))
        .with_upstream(LINE, Arc::new(Line))
        .with_downstream(MULTIPLEXED, Arc::new(Multiplexed))
        .with_upstream(MULTIPLEXED, Arc::new(Multiplexed))
}

/// A gateway that speaks lines at the first address, HTTP/1 at the second and frames at
/// the third.
fn start(servers: Servers, filters: Vec<Arc<dyn Filter>>) -> Running {
    Running::start(Setup {
        codecs: codecs(),
        protocols: vec![LINE, H1, MULTIPLEXED],
        servers,
        filters: filters::same(filters),
    })
}

/// Answers with the content that it was sent, and its trailers.
fn echo(_: &Server, line: &str) -> Option<String> {
    let content = line.split_once("| ").map_or("\n", |(_, content)| content);
    Some(format!("200 server:echo | {content}"))
}

#[test]
fn a_line_goes_to_a_server_of_lines_and_back() {
    let server = Server::lines(echo);
    let gateway = start(servers(LINE, [server.address]), Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    let answer = client.ask("PUT a.example /at/x?y=z color:dark%20red | =one =t%0awo sum:3\n");
    assert_eq!(
        answer,
        "200 server:echo via:1.1%20steppe | =one =t%0awo sum:3 \n"
    );
    let requests = server.requests();
    assert!(
        requests[0].starts_with("PUT a.example /at/x?y=z color:dark%20red "),
        "{requests:?}"
    );
    assert!(requests[0].contains(" via:1.1%20steppe "), "{requests:?}");
    assert!(
        requests[0].contains(" x-forwarded-for:127.0.0.1 "),
        "{requests:?}"
    );
    assert!(
        requests[0].ends_with(" | =one =t%0awo sum:3 \n"),
        "{requests:?}"
    );
}

#[test]
fn what_is_no_request_is_refused_as_a_line() {
    let server = Server::lines(echo);
    let gateway = start(servers(LINE, [server.address]), Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    assert_eq!(client.ask("GET a.example /elsewhere\n"), "404 \n");
    assert_eq!(client.ask("GET a.example /at/../elsewhere\n"), "404 \n");
    assert_eq!(client.ask("what is this\n"), "400 \n");
    assert_eq!(client.line(), "", "the connection is closed");
    assert_eq!(server.requests().len(), 0);
}

/// Nothing of a request was sent for which there was no room: its connection is used again.
#[test]
fn a_request_that_cannot_start_leaves_its_connection_idle() {
    let server = Server::lines(echo);
    let gateway = start(servers(LINE, [server.address]), Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    for (path, status) in [
        ("/at/a", "200 "),
        ("/at/no-room", "503 "),
        ("/at/b", "200 "),
    ] {
        let answer = client.ask(&format!("GET a.example {path}\n"));
        assert!(answer.starts_with(status), "{path}: {answer}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_line_goes_to_a_server_of_http1() {
    let server = Server::h1(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-a: b c\r\n\r\n\
         3\r\nabc\r\n2\r\nde\r\n0\r\nx-sum: 5\r\n\r\n",
    );
    let gateway = start(servers(H1, [server.address]), Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    for _ in 0..2 {
        let answer = client.ask("PUT a.example /at/x | =one =two\n");
        let (head, content) = answer.split_once("| ").expect("content");
        assert_eq!(head, "200 x-a:b%20c via:1.1%20steppe ");
        assert_eq!(content.replace(" =", ""), "=abcde x-sum:5 \n");
    }
    let request = &server.requests()[0];
    assert!(
        request.starts_with("PUT /at/x HTTP/1.1\r\nhost: a.example\r\n"),
        "{request}"
    );
    assert!(
        request.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
        "{request}"
    );
    assert_eq!(server.connections(), 1, "it is used again");
}

#[test]
fn a_request_of_http1_goes_to_a_server_of_lines() {
    let server = Server::lines(echo);
    let gateway = start(servers(LINE, [server.address]), Vec::new());
    let mut client = TcpStream::connect(gateway.addresses[1]).expect("connects");
    let answer = ask_h1(
        &mut client,
        "POST /at/x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nserver: echo\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        "{answer}"
    );
    let answer = ask_h1(
        &mut client,
        "POST /at/x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\nhe\r\n0\r\nx-sum: 2\r\n\r\n",
    );
    assert!(
        answer.ends_with("\r\n\r\n2\r\nhe\r\n0\r\nx-sum: 2\r\n\r\n"),
        "{answer}"
    );
    let requests = server.requests();
    assert!(
        requests[0].starts_with("POST a.example /at/x "),
        "{requests:?}"
    );
    assert!(requests[0].ends_with(" | =hello \n"), "{requests:?}");
    assert_eq!(server.connections(), 1, "it is used again");
}

#[test]
fn content_streams_both_ways() {
    // Answers each token of content before the next one comes.
    let server = Server::start(|_, connection| {
        let mut client = LineClient::of(connection);
        while client.token() != "| " {}
        client.send("103 link:a > 200 | ");
        loop {
            let token = client.token();
            if !token.starts_with('=') {
                return client.send("\n");
            }
            client.send(&token);
        }
    });
    let gateway = start(servers(LINE, [server.address]), Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    client.send("POST a.example /at/x | ");
    let head = ["103 ", "link:a ", "> ", "200 ", "via:1.1%20steppe ", "| "];
    assert_eq!(head.map(|_| client.token()), head);
    for number in 0..100 {
        let token = format!("={number} ");
        client.send(&token);
        assert_eq!(client.token(), token);
    }
    client.send("end:1 \n");
    assert_eq!(client.line(), "\n");
}

#[test]
fn a_request_that_a_server_drops_goes_to_another() {
    let dead = Server::lines(|_, _| None);
    let alive = Server::lines(echo);
    let servers = Servers {
        retry: Some(Retry {
            attempts: 1,
            on: RetryOn::RESET,
            budget: 1.0,
        }),
        ..servers(LINE, [dead.address, alive.address])
    };
    let gateway = start(servers, Vec::new());
    for listener in [0, 1] {
        for _ in 0..2 {
            let answer = if listener == 0 {
                LineClient::connect(gateway.addresses[0]).ask("PUT a /at/x | =one =two\n")
            } else {
                let mut client = TcpStream::connect(gateway.addresses[1]).expect("connects");
                let request = "PUT /at/x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none";
                ask_h1(&mut client, request)
            };
            assert!(
                answer.contains("200 ") && answer.contains("one"),
                "{answer}"
            );
        }
    }
    assert!(dead.requests().len() >= 2, "it was asked in its turn");
    let ends = alive.requests();
    let ends: Vec<_> = ends
        .iter()
        .filter_map(|request| request.split_once("| "))
        .collect();
    // What is sent again may be cut elsewhere.
    let text = |content: &str| -> String {
        let chunks = content.split_whitespace();
        chunks.map(|chunk| chunk.trim_start_matches('=')).collect()
    };
    let contents: Vec<_> = ends.iter().map(|(_, content)| text(content)).collect();
    assert_eq!(contents, ["onetwo", "onetwo", "one", "one"]);
}

#[test]
fn a_connection_that_closed_while_idle_is_replaced() {
    // The second request of a connection is not answered.
    let server = Server::lines(|server, line| {
        let is_second = server.requests().len() == 2;
        echo(server, line).filter(|_| !is_second)
    });
    let gateway = start(servers(LINE, [server.address]), Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    for _ in 0..2 {
        let answer = client.ask("GET a /at/x\n");
        assert!(answer.starts_with("200 "), "{answer}");
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 2));
}

#[test]
fn a_filter_lets_a_request_wait_for_something_outside() {
    let server = Server::lines(echo);
    let gate = Gate::default();
    let gateway = start(
        servers(LINE, [server.address]),
        vec![Arc::new(gate.clone())],
    );
    let mut clients: Vec<_> = (0..4)
        .map(|index| {
            let mut client = LineClient::connect(gateway.addresses[0]);
            client.send(&format!("PUT a /at/{index} | =one\n"));
            gate.wait_for(index + 1);
            client
        })
        .collect();
    assert_eq!(server.requests().len(), 0, "all of them wait");
    let before = gate.polls(3);
    gate.decide(0, Verdict::Pass);
    let passed = "200 server:echo x-gate:saw via:1.1%20steppe | =one \n";
    assert_eq!(clients[0].line(), passed);
    gate.decide(1, Verdict::Answer(429));
    let answered = clients[1].line();
    // A filter is not shown its own answer.
    let fields = "429 x-by:filter via:1.1%20steppe ";
    assert_eq!(answered, format!("{fields}| =gate \n"));
    gate.decide(2, Verdict::Fail);
    assert_eq!(clients[2].line(), "400 \n");
    assert_eq!(gate.polls(3), before, "nothing happened to the last one");
    // Its client leaves: its state is dropped, and no server is asked.
    clients.truncate(3);
    gate.wait_for_drop(3);
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].contains(" x-gate:passed "), "{requests:?}");
}

#[test]
fn a_filter_answers_by_itself() {
    let server = Server::lines(echo);
    let after = Gate::default();
    let filters: Vec<Arc<dyn Filter>> = vec![Arc::new(Deny), Arc::new(after.clone())];
    let gateway = start(servers(LINE, [server.address]), filters);
    let mut client = LineClient::connect(gateway.addresses[0]);
    let denied = "403 x-by:filter via:1.1%20steppe | =not%20you \n";
    for _ in 0..2 {
        // Content that nobody wants does not stand in the way of the next request.
        assert_eq!(client.ask("PUT a /at/x denied:1 | =one =two\n"), denied);
    }
    client.send("PUT a /at/x | =one\n");
    after.wait_for(1);
    after.decide(0, Verdict::Pass);
    assert!(client.line().starts_with("200 "));
    let mut client = TcpStream::connect(gateway.addresses[1]).expect("connects");
    let request = "GET /at/x HTTP/1.1\r\nHost: a\r\nDenied: 1\r\n\r\n";
    let answer = ask_h1(&mut client, request);
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\nnot you"), "{answer}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn filters_rewrite_content_in_order_and_in_reverse() {
    let server = Server::lines(|_, _| Some("200 | =one =two secret:1 sum:2\n".into()));
    let filters: Vec<Arc<dyn Filter>> = vec![Arc::new(Mark("A")), Arc::new(Mark("B"))];
    let gateway = start(servers(LINE, [server.address]), filters);
    let mut client = LineClient::connect(gateway.addresses[0]);
    let answer = client.ask("POST a /at/x | =x =y =z sum:3\n");
    // A filter's last chunk passes the filters that follow it.
    assert_eq!(
        answer,
        "200 x-mark:B x-mark:A via:1.1%20steppe \
         | =oneBA =twoBA =<B>A =<A> sum:2 x-mark:B x-mark:A \n"
    );
    let request = &server.requests()[0];
    let (head, content) = request.split_once("| ").expect("content");
    assert!(head.contains(" x-mark:A x-mark:B "), "{request}");
    assert_eq!(
        content,
        "=xAB =yAB =zAB =<A>B =<B> sum:3 x-mark:A x-mark:B \n"
    );
    // Lengths of HTTP/1 change likewise.
    let mut client = TcpStream::connect(gateway.addresses[1]).expect("connects");
    let answer = ask_h1(
        &mut client,
        "POST /at/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert!(
        answer.contains("\r\ntransfer-encoding: chunked\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\r\n5\r\noneBA\r\n"), "{answer}");
    let request = &server.requests()[1];
    assert!(request.ends_with("| =helloAB =<A>B =<B> \n"), "{request}");
}

/// Gives back each frame as it comes. A head that asks for `close` ends the first
/// connection that brings it.
fn echo_frames(server: &Server, connection: TcpStream) {
    let mut client = LineClient::of(connection);
    loop {
        let frame = client.line();
        if frame.is_empty() {
            return;
        }
        server.record(frame.clone());
        let closes = |frame: &String| frame.contains("/at/close");
        if closes(&frame)
            && server
                .requests()
                .iter()
                .filter(|frame| closes(frame))
                .count()
                == 1
        {
            return;
        }
        let (id, rest) = frame.split_once(' ').expect("a frame");
        match rest.as_bytes()[0] {
            b'@' if rest.ends_with("| \n") => client.send(&format!("{id} @ 200 | \n")),
            b'@' => client.send(&format!("{id} @ 200 \n{id} . \n")),
            b'!' => {}
            _ => client.send(&frame),
        }
    }
}

#[test]
fn exchanges_share_a_connection_to_a_server() {
    let server = Server::start(echo_frames);
    let gateway = start(servers(MULTIPLEXED, [server.address]), Vec::new());
    let connect = || LineClient::connect(gateway.addresses[0]);
    // The first request establishes the connection, and it is there to be shared.
    assert!(connect().ask("GET a /at/x\n").starts_with("200 "));
    let open = |mut client: LineClient| {
        client.send("PUT a /at/x | ");
        while client.token() != "| " {}
        client
    };
    let mut clients: Vec<_> = (0..STREAMS_MAX).map(|_| open(connect())).collect();
    assert_eq!(server.connections(), 1, "all streams are on one");
    clients.push(open(connect()));
    assert_eq!(server.connections(), 2, "it has no more room");
    for round in 0..10 {
        for (index, client) in clients.iter_mut().enumerate().rev() {
            client.send(&format!("={round}.{index} "));
        }
        for (index, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.token(), format!("={round}.{index} "));
        }
    }
    // One that leaves is cancelled, and the others go on.
    drop(clients.remove(0));
    let is_cancelled = || {
        server
            .requests()
            .iter()
            .any(|frame| frame.ends_with(" !\n"))
    };
    steppe_testkit::eventually("it is canceled", is_cancelled);
    for mut client in clients {
        assert_eq!(client.ask("sum:1\n"), "sum:1 \n");
    }
    assert!(connect().ask("GET a /at/x\n").starts_with("200 "));
    assert_eq!(server.connections(), 2, "both are still there");
}

#[test]
fn a_shared_connection_that_ends_is_replaced() {
    let server = Server::start(echo_frames);
    let gateway = start(servers(MULTIPLEXED, [server.address]), Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    for path in ["x", "close", "x"] {
        let answer = client.ask(&format!("GET a /at/{path}\n"));
        assert!(answer.starts_with("200 "), "{path}: {answer}");
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_pool_that_keeps_nothing_shares_nothing() {
    let server = Server::start(echo_frames);
    let servers = Servers {
        keepalive: 0,
        ..servers(MULTIPLEXED, [server.address])
    };
    let gateway = start(servers, Vec::new());
    let mut client = LineClient::connect(gateway.addresses[0]);
    for count in 1..4 {
        assert!(client.ask("GET a /at/x\n").starts_with("200 "));
        assert_eq!(server.connections(), count);
    }
}

#[test]
fn exchanges_share_a_connection_of_a_client() {
    let server = Server::lines(echo);
    let gate = Gate::default();
    let gateway = start(
        servers(LINE, [server.address]),
        vec![Arc::new(gate.clone())],
    );
    let mut client = LineClient::connect(gateway.addresses[2]);
    client.send("1 @ PUT a /at/1 |\n3 @ PUT a /at/3 |\n1 =one\n");
    gate.wait_for(2);
    client.send("3 =three\n5 @ GET a /elsewhere\n1 . sum:1\n7 @ what\n3 . \n");
    let mut sorted = || {
        let mut frames = [(); 6].map(|()| client.line());
        frames.sort();
        frames
    };
    // Their ends were not waited for.
    let refused = [
        "5 !\n",
        "5 .\n",
        "5 @ 404 \n",
        "7 !\n",
        "7 .\n",
        "7 @ 400 \n",
    ];
    assert_eq!(sorted(), refused);
    // The second goes on while the first waits.
    for (index, (id, content, end)) in [(3, "three", ""), (1, "one", "sum:1 ")]
        .into_iter()
        .enumerate()
    {
        gate.decide(1 - index, Verdict::Pass);
        let head = format!("{id} @ 200 server:echo x-gate:saw via:1.1%20steppe | \n");
        assert_eq!(client.line(), head);
        assert_eq!(client.line(), format!("{id} ={content}\n"));
        assert_eq!(client.line(), format!("{id} . {end}\n"));
    }
}
