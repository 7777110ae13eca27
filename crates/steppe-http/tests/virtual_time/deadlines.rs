//! Deadlines of clients and servers: heads, content, silence and stalls.

use steppe_http::config::{
    ErrorContent, ErrorPage, ErrorPages, ErrorsOf, Filter, FilterKind, ListenerTimeouts, Statuses,
};
use steppe_net::Phase;
use steppe_testkit::virtual_time::{pass, run};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::site::{Client, GET, OK, Origin, Plan, Reply, Site, saying, status};
use super::{LATE, millis, seconds};

const HALF: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

/// A gateway whose listener has these timeouts, before a server that answers.
fn site(timeouts: ListenerTimeouts) -> Site {
    let origin = Origin::bind();
    let mut plan = Plan::new(&[&origin]);
    plan.listener.timeouts = timeouts;
    Site::start(plan, [(origin, saying(OK))])
}

fn timeouts() -> ListenerTimeouts {
    ListenerTimeouts {
        header: seconds(10),
        idle: seconds(60),
        write_stall: seconds(30),
        ..ListenerTimeouts::default()
    }
}

/// It was given up just now, with this status.
async fn assert_refused(client: &mut Client, expected: u16) {
    assert!(!client.is_waiting(), "it is not given up");
    let said = client.rest().await;
    assert_eq!(status(&said), expected, "{said}");
    assert!(said.contains("\r\nconnection: close\r\n"), "{said}");
}

#[test]
fn a_head_is_waited_for_as_a_whole_however_it_drips() {
    run(async {
        let origin = Origin::bind();
        let seen = origin.seen();
        let mut plan = Plan::new(&[&origin]);
        plan.listener.timeouts = timeouts();
        let mut site = Site::start(plan, [(origin, saying(OK))]);
        let (mut stopped, mut dripping) = (site.connect().await, site.connect().await);
        stopped.send(HALF).await;
        dripping.send(HALF).await;
        dripping.send("X-Slow: ").await;
        for _ in 0..99 {
            pass(millis(100)).await;
            dripping.send("a").await;
            assert!(stopped.is_waiting() && dripping.is_waiting());
        }
        pass(millis(100) + LATE).await;
        assert_refused(&mut stopped, 408).await;
        assert_refused(&mut dripping, 408).await;
        assert_eq!(seen.lock().expect("no panic").accepted, 0);
        assert_eq!(site.status().await, 200);
    });
}

#[test]
fn the_time_of_a_head_begins_with_its_first_byte() {
    run(async {
        let mut site = site(timeouts());
        let mut client = site.connect().await;
        for _ in 0..3 {
            pass(seconds(50)).await;
            client.send(HALF).await;
            pass(seconds(9)).await;
            client.send("\r\n").await;
            assert_eq!(status(&client.response().await), 200);
        }
        client.send(HALF).await;
        pass(seconds(10) + LATE).await;
        assert_refused(&mut client, 408).await;
    });
}

/// Of two half heads, the one that began first is still waited for when the other is given up.
#[test]
fn each_listener_waits_for_heads_as_long_as_it_is_told() {
    run(async {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.listener.timeouts = timeouts();
        plan.second = Some(ListenerTimeouts {
            header: seconds(2),
            ..timeouts()
        });
        let mut site = Site::start(plan, [(origin, saying(OK))]);
        let mut patient = site.connect_to(0).await;
        patient.send(HALF).await;
        let mut other = site.connect_to(1).await;
        other.send(HALF).await;
        pass(seconds(2) - LATE).await;
        assert!(other.is_waiting());
        pass(2 * LATE).await;
        assert_refused(&mut other, 408).await;
        pass(seconds(7)).await;
        patient.send("\r\n").await;
        assert_eq!(status(&patient.response().await), 200);
    });
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    run(async {
        let mut site = site(timeouts());
        let (mut new, mut served) = (site.connect().await, site.connect().await);
        pass(seconds(30)).await;
        served.send(GET).await;
        assert_eq!(status(&served.response().await), 200);
        pass(seconds(30) - LATE).await;
        assert!(new.is_waiting());
        pass(2 * LATE).await;
        assert_eq!(new.rest().await, "");
        assert!(served.is_waiting());
        pass(seconds(30)).await;
        assert_eq!(served.rest().await, "");
    });
}

#[test]
fn content_that_stops_is_waited_for_as_long_as_an_idle_connection() {
    run(async {
        let origin = Origin::bind();
        let seen = origin.seen();
        let mut plan = Plan::new(&[&origin]);
        plan.listener.timeouts = timeouts();
        let mut site = Site::start(plan, [(origin, saying(OK))]);
        let mut client = site.connect().await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
        client.send(head).await;
        for byte in ["h", "e", "l"] {
            pass(seconds(59)).await;
            client.send(byte).await;
        }
        pass(seconds(60) - LATE).await;
        assert!(client.is_waiting());
        pass(2 * LATE).await;
        assert!(!client.is_waiting(), "it is given up");
        let said = client.rest().await;
        assert!(said.is_empty() || status(&said) == 408, "{said}");
        let seen = seen.lock().expect("no panic");
        assert!(seen.requests.is_empty(), "no server has it whole");
    });
}

/// Of a response, what a pipe and the gateway do not hold.
const LONG_BYTES: usize = 1 << 20;

fn long() -> String {
    let content = "~".repeat(LONG_BYTES);
    format!("HTTP/1.1 200 OK\r\ncontent-length: {LONG_BYTES}\r\n\r\n{content}")
}

/// A gateway whose server has more to say than fits on the way, and how many of its connections were closed.
fn talking() -> (Site, impl Fn() -> usize) {
    let origin = Origin::bind();
    let seen = origin.seen();
    let mut plan = Plan::new(&[&origin]);
    plan.listener.timeouts = timeouts();
    let site = Site::start(plan, [(origin, Box::new(|_| Reply::Say(long())))]);
    (site, move || seen.lock().expect("no panic").closed)
}

#[test]
fn a_reader_that_stops_is_given_up() {
    run(async {
        let (mut site, closed) = talking();
        let mut client = site.connect().await;
        client.send(GET).await;
        assert!(!client.some().await.is_empty());
        pass(seconds(30) - LATE).await;
        assert_eq!(closed(), 0);
        pass(2 * LATE).await;
        assert_eq!(closed(), 1, "nothing else ends the response");
        assert!(client.rest().await.len() < LONG_BYTES);
    });
}

#[test]
fn a_reader_that_is_only_slow_is_served() {
    run(async {
        let (mut site, closed) = talking();
        let mut client = site.connect().await;
        client.send(GET).await;
        let content = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'~').count();
        let mut got = 0;
        // Longer than a stall may be, many times over.
        for _ in 0..20 {
            pass(seconds(29)).await;
            got += content(&client.some().await);
        }
        while got < LONG_BYTES {
            let some = client.some().await;
            assert!(!some.is_empty(), "it ends after {got} bytes");
            got += content(&some);
        }
        assert_eq!((got, closed()), (LONG_BYTES, 0));
    });
}

/// The same goes for a response of the gateway's own.
#[test]
fn a_slow_reader_of_an_error_page_is_served() {
    run(async {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.listener.timeouts = timeouts();
        plan.filters = vec![Filter {
            name: "pages".to_owned(),
            kind: FilterKind::ErrorPages(ErrorPages {
                of: ErrorsOf::Gateway,
                pages: vec![ErrorPage {
                    statuses: Statuses::parse("502").expect("a status"),
                    content: ErrorContent::Text("~".repeat(LONG_BYTES)),
                    content_type: None,
                }],
            }),
        }];
        let mut site = Site::start(plan, [(origin, saying("no response of HTTP\r\n\r\n"))]);
        let mut client = site.connect().await;
        client.send(GET).await;
        let mut got = client.some().await;
        for _ in 0..20 {
            pass(seconds(29)).await;
            got.extend(client.some().await);
        }
        let content = |got: &[u8]| got.iter().filter(|byte| **byte == b'~').count();
        while content(&got) < LONG_BYTES {
            let some = client.some().await;
            assert!(!some.is_empty(), "it ends after {} bytes", got.len());
            got.extend(some);
        }
        assert_eq!(status(&String::from_utf8_lossy(&got)), 502);
    });
}

#[test]
fn a_server_has_its_time_for_a_head_and_for_more_of_its_content() {
    run(async {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.servers.timeouts.first_byte = seconds(20);
        plan.servers.timeouts.idle = seconds(40);
        let mut asked = 0;
        let script = move |_: &str| {
            asked += 1;
            match asked {
                1 => Reply::SayAfter(seconds(19), OK.to_owned()),
                2 => Reply::Silence,
                _ => Reply::Say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_owned()),
            }
        };
        let mut site = Site::start(plan, [(origin, Box::new(script))]);
        let mut client = site.connect().await;
        client.send(GET).await;
        pass(seconds(19)).await;
        assert_eq!(status(&client.response().await), 200);
        client.send(GET).await;
        pass(seconds(20) - LATE).await;
        assert!(client.is_waiting());
        pass(2 * LATE).await;
        assert_eq!(status(&client.response().await), 504);
        let mut client = site.connect().await;
        client.send(GET).await;
        pass(seconds(40) - LATE).await;
        assert!(!client.has_ended());
        pass(2 * LATE).await;
        let said = client.rest().await;
        assert!(said.ends_with("half"), "{said}");
    });
}

/// Neither a head nor content that comes now and then puts the end of the whole exchange off.
#[test]
fn an_exchange_has_its_time_as_a_whole() {
    run(async {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.servers.timeouts.total = Some(seconds(30));
        let mut site = Site::start(plan, [(origin, saying(OK))]);
        let mut client = site.connect().await;
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
            .await;
        for _ in 0..5 {
            pass(seconds(5)).await;
            client.send("a").await;
        }
        pass(seconds(5) - LATE).await;
        assert!(client.is_waiting());
        pass(2 * LATE).await;
        let said = client.response().await;
        assert_eq!(status(&said), 504, "{said}");
    });
}

#[test]
fn an_idle_connection_to_a_server_is_closed() {
    run(async {
        let origin = Origin::bind();
        let seen = origin.seen();
        let mut plan = Plan::new(&[&origin]);
        plan.servers.timeouts.idle = seconds(10);
        let mut site = Site::start(plan, [(origin, saying(OK))]);
        let closed = || seen.lock().expect("no panic").closed;
        for _ in 0..3 {
            assert_eq!(site.status().await, 200);
            pass(seconds(9)).await;
        }
        assert_eq!(closed(), 0, "it is of use again and again");
        // They are looked for once a second.
        pass(seconds(2)).await;
        assert_eq!(closed(), 1);
    });
}

#[test]
fn a_drain_waits_a_moment_for_the_first_request_of_a_connection() {
    run(async {
        let mut site = site(timeouts());
        let mut new = site.connect().await;
        let mut half = site.connect().await;
        half.send(HALF).await;
        pass(seconds(1)).await;
        site.drain.enter(Phase::Draining);
        pass(seconds(1) - LATE).await;
        assert!(new.is_waiting() && half.is_waiting());
        pass(2 * LATE).await;
        assert_eq!(new.rest().await, "");
        assert!(half.is_waiting(), "it has the time of a head");
        half.send("\r\n").await;
        assert_eq!(status(&half.response().await), 200);
    });
}

/// Before a codec: over the socket itself.
#[test]
fn a_header_of_the_proxy_protocol_is_waited_for_as_a_head() {
    run(async {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.listener.timeouts = timeouts();
        plan.listener.proxy_protocol = true;
        let site = Site::start(plan, [(origin, saying(OK))]);
        let mut socket = TcpStream::connect(site.addresses[0])
            .await
            .expect("it listens");
        pass(seconds(10) - LATE).await;
        let mut said = [0; 1];
        let early = socket.try_read(&mut said);
        assert!(early.is_err(), "it waits: {early:?}");
        pass(2 * LATE).await;
        assert_eq!(socket.read(&mut said).await.expect("no reset"), 0);
    });
}
