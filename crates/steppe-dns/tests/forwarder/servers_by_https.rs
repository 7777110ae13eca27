//! HTTPS servers (RFC 8484): the requests to them, and the responses that are accepted.

use steppe_dns::config::{Policy, Server, Transport};
use steppe_testkit::{Port, eventually};

use crate::client::{Client, answers, query, rcode};
use crate::https::{HttpsServer, Manner, Reply, Request};
use crate::node::Node;
use crate::secure::{NAME, Site, server as by_https};
use crate::server::answered;

const A: u16 = 1;
const SERVFAIL: u8 = 2;

fn good(request: &Request) -> Reply {
    Reply::message(answered(&request.content, 0, &[(A, 3600, &[192, 0, 2, 7])]))
}

#[track_caller]
fn assert_good(response: &[u8]) {
    assert_eq!((rcode(response), answers(response)), (0, 1));
}

#[test]
fn a_query_is_a_post_of_a_message_without_id_and_padded() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = HttpsServer::start(&site.issue(NAME), Manner::default(), good);
    let server = Server {
        path: "/other?a=b".to_owned(),
        ..by_https(Transport::Https, origin.address)
    };
    let authority = server.authority();
    let node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for number in 0..20 {
        assert_good(&client.ask_for(&format!("{number}.example.org")));
    }
    assert_eq!(origin.connections(), 1);
    let asked = origin.asked();
    assert_eq!(asked.len(), 20);
    for request in &asked {
        assert_eq!((&*request.method, &*request.path), ("POST", "/other?a=b"));
        assert_eq!(request.authority, authority);
        assert_eq!(request.content_type, "application/dns-message");
        assert_eq!(request.content[..2], [0, 0], "the same for whoever asks");
        assert_eq!(request.content.len() % 128, 0, "padded");
    }
    let series = "steppe_dns_upstream_queries_total{transport=\"https\"}";
    assert_eq!(node.metric(series), 20);
}

#[test]
fn queries_share_a_connection_at_the_same_time() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let manner = Manner {
        together: 5,
        ..Manner::default()
    };
    let origin = HttpsServer::start(&site.issue(NAME), manner, good);
    let server = by_https(Transport::Https, origin.address);
    // A repeated query would be one of the five: the forwarder repeats none.
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for number in 0..5 {
        client.send(&query(&format!("{number}.example.org"), A));
    }
    for _ in 0..5 {
        assert_good(&client.receive());
    }
    assert_eq!((origin.connections(), origin.asked().len()), (1, 5));
}

#[test]
fn a_response_that_is_no_message_is_not_used() {
    let status = |request: &Request| Reply {
        status: 503,
        ..good(request)
    };
    let media_type = |request: &Request| Reply {
        content_type: "text/html",
        ..good(request)
    };
    let nothing = |_: &Request| Reply::message(Vec::new());
    let too_long = |request: &Request| {
        let mut reply = good(request);
        reply.content.resize(70_000, 0);
        reply
    };
    let says: [fn(&Request) -> Reply; 4] = [status, media_type, nothing, too_long];
    for say in says {
        let (site, listen) = (Site::new(), Port::free().keep());
        let origin = HttpsServer::start(&site.issue(NAME), Manner::default(), say);
        let server = by_https(Transport::Https, origin.address);
        let mut config = site.forwarder(listen, server);
        let other = crate::server::Server::start(|asked| {
            vec![answered(&asked.bytes, 0, &[(A, 3600, &[192, 0, 2, 8])])]
        });
        let by_udp = Server::at(Transport::Udp, other.address);
        config.upstreams[0].servers.push(by_udp);
        config.upstreams[0].policy = Policy::Failover;
        let _node = Node::start(config, 1);
        assert_good(&Client::of(listen).ask_for("a.example.org"));
        assert_eq!((origin.asked().len(), other.asked().len()), (1, 1));
    }
}

#[test]
fn a_response_to_another_question_is_not_used() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let origin = HttpsServer::start(&site.issue(NAME), Manner::default(), |request| {
        let mut reply = good(request);
        reply.content[13] ^= 3;
        reply
    });
    let server = by_https(Transport::Https, origin.address);
    let mut config = site.forwarder(listen, server);
    config.upstreams[0].timeout = std::time::Duration::from_millis(300);
    let _node = Node::start(config, 1);
    let response = Client::of(listen).ask_for("a.example.org");
    assert_eq!(rcode(&response), SERVFAIL);
}

#[test]
fn a_connection_that_the_server_ends_is_followed_by_another() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let manner = Manner {
        per_connection: 2,
        ..Manner::default()
    };
    let origin = HttpsServer::start(&site.issue(NAME), manner, good);
    let server = by_https(Transport::Https, origin.address);
    let _node = Node::start(site.forwarder(listen, server), 1);
    let client = Client::of(listen);
    for number in 0..10 {
        assert_good(&client.ask_for(&format!("{number}.example.org")));
    }
    eventually("connections follow each other", || {
        origin.connections() >= 5
    });
}

#[test]
fn a_server_without_http_2_is_not_asked() {
    let (site, listen) = (Site::new(), Port::free().keep());
    let manner = Manner {
        alpn: "http/1.1",
        ..Manner::default()
    };
    let origin = HttpsServer::start(&site.issue(NAME), manner, good);
    let server = by_https(Transport::Https, origin.address);
    let _node = Node::start(site.forwarder(listen, server), 1);
    let response = Client::of(listen).ask_for("a.example.org");
    assert_eq!(rcode(&response), SERVFAIL);
    assert_eq!(origin.asked().len(), 0);
}
