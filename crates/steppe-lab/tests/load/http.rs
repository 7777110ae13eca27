//! HTTP/1.1 loads.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::SendFlags;
use steppe_lab::load::check;
use steppe_lab::scenario::{Load, LoadKind, Pace};

use crate::servers::{Nginx, OK, Scripted, answer, free_addr, read_request};
use crate::{PATIENCE, burst, errors_of, http, load, open, run, run_until, start};

fn http1(url: &str, connections: u32, pace: Pace) -> Load {
    load(LoadKind::Http1(http(url, connections)), pace)
}

#[test]
fn a_closed_loop_counts_every_response_of_a_real_server() {
    let nginx = Nginx::start("", "location / { return 200 'hello'; }");
    let mut driver = start(&http1(&nginx.url("/"), 8, Pace::Closed));
    let interval = run_until(&mut driver, 0, |sum| sum.operations >= 2000);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
    assert_eq!(interval.intended, None);
    assert_eq!(interval.service.len(), interval.operations);
    assert_eq!(interval.response, interval.service);
}

#[test]
fn an_open_loop_accounts_for_every_operation_that_it_owes() {
    let nginx = Nginx::start("", "location / { return 200; }");
    let mut driver = start(&http1(&nginx.url("/"), 4, open(500.0)));
    for epoch in 0..2 {
        let interval = run_until(&mut driver, epoch, |sum| sum.operations >= 100);
        assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
        let accounted = interval.operations + interval.dropped;
        assert_eq!(interval.intended, Some(accounted));
    }
}

/// A generator must not hide a stall: the time of every operation counts from when it was due.
#[test]
fn measured_a_stall_is_charged_to_every_operation_that_had_to_wait() {
    let server = Scripted::start({
        let (count, stalled) = (AtomicUsize::new(0), Mutex::new(()));
        move |mut stream: TcpStream| {
            while read_request(&mut stream) {
                let turn = stalled.lock().unwrap();
                if count.fetch_add(1, Ordering::Relaxed) == 20 {
                    std::thread::sleep(Duration::from_secs(1));
                }
                drop(turn);
                if stream.write_all(OK).is_err() {
                    return;
                }
            }
        }
    });
    let mut driver = start(&http1(&server.url(), 1, open(100.0)));
    let interval = run_until(&mut driver, 0, |sum| sum.operations >= 150);
    let longer_than = |histogram: &hdrhistogram::Histogram<u64>, us: u64| {
        histogram.len() - histogram.count_between(0, us)
    };
    // Requests due in the first nine tenths of the stall.
    assert!(longer_than(&interval.response, 100_000) >= 85);
    assert!(longer_than(&interval.response, 500_000) >= 45);
    // Only one request was slow by service time, which a generator that waits for the target would
    // report.
    assert!(longer_than(&interval.service, 500_000) < 10);
}

#[test]
fn measured_a_backlog_is_dropped_at_a_pause_and_told() {
    let server = Scripted::start(|stream| answer(stream, OK, Duration::from_millis(50)));
    let mut driver = start(&http1(&server.url(), 1, open(1000.0)));
    let interval = run_until(&mut driver, 0, |sum| sum.operations >= 3);
    assert!(interval.dropped >= 100, "{interval:?}");
    let accounted = interval.operations + interval.dropped;
    assert_eq!(interval.intended, Some(accounted));
    assert_eq!(interval.saturated, None);
}

#[test]
fn a_pause_leaves_nothing_in_flight_and_a_resume_goes_on() {
    let busy = Arc::new(AtomicUsize::new(0));
    let server = Scripted::start({
        let busy = Arc::clone(&busy);
        move |mut stream: TcpStream| {
            while read_request(&mut stream) {
                busy.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(20));
                busy.fetch_sub(1, Ordering::SeqCst);
                if stream.write_all(OK).is_err() {
                    return;
                }
            }
        }
    });
    let mut driver = start(&http1(&server.url(), 16, Pace::Closed));
    for epoch in 0..3 {
        let interval = run_until(&mut driver, epoch, |sum| sum.operations > 0);
        assert_eq!(busy.load(Ordering::SeqCst), 0);
        assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
        assert_eq!(driver.take()[0].operations, 0);
    }
    // Connections were kept over the pauses.
    assert_eq!(server.connections.load(Ordering::Relaxed), 16);
    assert!(driver.failures().is_empty());
}

#[test]
fn impatience_is_told_and_what_was_in_flight_counts_later() {
    let hold = Arc::new(AtomicBool::new(true));
    let server = Scripted::start({
        let hold = Arc::clone(&hold);
        move |mut stream: TcpStream| {
            while read_request(&mut stream) {
                while hold.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let _ = stream.write_all(OK);
            }
        }
    });
    let mut driver = start(&http1(&server.url(), 1, Pace::Closed));
    driver.resume(burst(0));
    while server.connections.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!driver.pause(Duration::from_millis(20)));
    assert_eq!(driver.take()[0].operations, 0);
    hold.store(false, Ordering::SeqCst);
    assert!(driver.pause(PATIENCE));
    assert_eq!(driver.take()[0].operations, 1);
}

#[test]
fn nothing_is_sent_before_the_first_burst() {
    let server = Scripted::start(|stream| answer(stream, OK, Duration::ZERO));
    let mut driver = start(&http1(&server.url(), 4, Pace::Closed));
    assert!(driver.pause(PATIENCE));
    assert_eq!(driver.take()[0].generator.busy(), None);
    assert_eq!(server.connections.load(Ordering::Relaxed), 0);
}

#[test]
fn measured_a_refused_connection_is_an_error_and_no_reason_to_spin() {
    let url = format!("http://{}/", free_addr());
    let mut driver = start(&http1(&url, 2, Pace::Closed));
    let interval = run_until(&mut driver, 0, |sum| sum.errors >= 6);
    assert_eq!(interval.operations, 0);
    assert_eq!(errors_of(&interval, "refused"), interval.errors);
    // Without a back-off there would be thousands by the third look, 10 ms apart.
    assert!(interval.errors < 100, "{}", interval.errors);
    assert_eq!(interval.saturated, None);
}

#[test]
fn faults_are_told_apart() {
    let says = |response: &'static [u8]| {
        Scripted::start(move |stream| answer(stream, response, Duration::ZERO))
    };
    let closing = Scripted::start(|mut stream| {
        read_request(&mut stream);
        let _ = stream.shutdown(Shutdown::Both);
    });
    // A connection that is closed with bytes unread is reset.
    let resetting = Scripted::start(|stream| {
        let _ = stream.peek(&mut [0]);
    });
    let cases = [
        (
            says(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"),
            "status 503",
        ),
        (says(b"not HTTP at all\r\n\r\n"), "malformed"),
        (closing, "closed"),
        (resetting, "reset"),
    ];
    for (server, kind) in cases {
        let mut driver = start(&http1(&server.url(), 1, Pace::Closed));
        let interval = run_until(&mut driver, 0, |sum| sum.errors >= 2);
        assert_eq!(interval.operations, 0, "{kind}");
        assert_eq!(errors_of(&interval, kind), interval.errors, "{interval:?}");
    }
}

#[test]
fn a_response_that_takes_too_long_is_an_error() {
    let server = Scripted::start(|stream| answer(stream, OK, PATIENCE));
    let mut slow = http1(&server.url(), 1, Pace::Closed);
    slow.timeout = Duration::from_millis(30);
    let mut driver = start(&slow);
    let interval = run_until(&mut driver, 0, |sum| sum.errors >= 2);
    assert_eq!(errors_of(&interval, "timeout"), interval.errors);
}

/// A server with a short keep-alive closes in every quiet moment. The FIN is in the segment of the
/// response: it is there before the next request is due, however busy the machine.
#[test]
fn a_connection_that_was_closed_while_idle_is_opened_again() {
    let server = Scripted::start(|mut stream| {
        read_request(&mut stream);
        let _ = rustix::net::send(&stream, OK, SendFlags::MORE);
    });
    let mut driver = start(&http1(&server.url(), 1, open(50.0)));
    let interval = run_until(&mut driver, 0, |sum| sum.operations >= 5);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
}

#[test]
fn a_request_carries_what_the_scenario_says() {
    let server = "client_max_body_size 1m; location / { if ($request_method != PUT) { return 405; } \
                  if ($http_x_one != 'two words') { return 400; } \
                  if ($content_length != 100000) { return 411; } return 204; }";
    let nginx = Nginx::start("", server);
    let mut put = http(&nginx.url("/path?query"), 2);
    put.method = "PUT".to_owned();
    put.headers = vec![("X-One".to_owned(), "two words".to_owned())];
    put.body_bytes = 100_000;
    let mut driver = start(&load(LoadKind::Http1(put), Pace::Closed));
    let interval = run_until(&mut driver, 0, |sum| sum.operations + sum.errors >= 50);
    assert_eq!(interval.errors, 0, "{:?}", interval.error_kinds);
}

/// The server has as many threads as connections, so the generator never waits.
#[test]
fn measured_a_generator_that_sets_the_pace_says_so() {
    let server = Scripted::start(|stream| answer(stream, OK, Duration::ZERO));
    let load = http1(&server.url(), 64, Pace::Closed);
    // On a busy machine, the server may be the slow one for a while.
    let said = (0..20).find_map(|_| run(&load, Duration::from_millis(500)).saturated);
    let said = said.expect("one thread, and a server of many");
    assert!(said.contains("threads = 2"), "{said}");
}

#[test]
fn measured_a_slow_target_is_not_taken_for_a_slow_generator() {
    let server = Scripted::start(|stream| answer(stream, OK, Duration::from_millis(50)));
    let interval = run(
        &http1(&server.url(), 32, Pace::Closed),
        Duration::from_millis(500),
    );
    assert_eq!(interval.saturated, None, "{:?}", interval.generator);
    assert!(interval.operations > 0);
}

#[test]
fn threads_share_connections_and_rate() {
    let server = Scripted::start(|stream| answer(stream, OK, Duration::ZERO));
    let mut shared = http1(&server.url(), 5, open(300.0));
    shared.threads = 3;
    let mut driver = start(&shared);
    let interval = run_until(&mut driver, 0, |sum| sum.operations >= 60);
    assert_eq!(server.connections.load(Ordering::Relaxed), 5);
    let accounted = interval.operations + interval.dropped;
    assert_eq!(interval.intended, Some(accounted));
}

#[test]
fn a_ramp_starts_connections_one_after_the_other_and_only_once() {
    let server = Scripted::start(|stream| answer(stream, OK, Duration::from_millis(1)));
    let mut rising = http1(&server.url(), 4, Pace::Closed);
    // The second connection is due after an hour.
    rising.ramp = Duration::from_secs(4 * 3600);
    let mut driver = start(&rising);
    run_until(&mut driver, 0, |sum| sum.operations >= 20);
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    run_until(&mut driver, 1, |sum| sum.operations >= 20);
    assert_eq!(server.connections.load(Ordering::Relaxed), 4);
}

#[test]
fn what_is_wrong_with_a_load_is_said_before_it_starts() {
    let refused = |change: &dyn Fn(&mut Load)| {
        let mut load = http1("http://127.0.0.1:1/", 1, Pace::Closed);
        change(&mut load);
        check(&load).unwrap_err().to_string()
    };
    let of_http = |change: &dyn Fn(&mut steppe_lab::scenario::HttpLoad)| {
        refused(&|load| match &mut load.kind {
            LoadKind::Http1(http) => change(http),
            _ => unreachable!(),
        })
    };
    let said = [
        refused(&|load| load.pace = open(0.0)),
        refused(&|load| load.threads = 0),
        of_http(&|http| http.connections = 0),
        of_http(&|http| http.url = "ftp://host/".to_owned()),
        of_http(&|http| http.url = "http://user@host/".to_owned()),
        of_http(&|http| http.url = "http://host:99999/".to_owned()),
        of_http(&|http| http.method = "GE T".to_owned()),
        of_http(&|http| http.headers = vec![("a b".to_owned(), "c".to_owned())]),
        of_http(&|http| http.connections = 10_000_000),
    ];
    expect_test::expect![[r#"
        [
            "load `it`: `rate_per_s` is 0: a rate is above 0",
            "load `it`: it needs at least one connection, one stream and one thread",
            "load `it`: it needs at least one connection, one stream and one thread",
            "load `it`: `ftp://host/`: it begins with neither http:// nor https://",
            "load `it`: `http://user@host/`: user names in URLs are not supported",
            "load `it`: `http://host:99999/`: its port is not a number up to 65535",
            "load `it`: `GE T` is not a method",
            "load `it`: `a b` is not a header name",
            "load `it`: 10000000 concurrent requests exceed the limit of 100000",
        ]
    "#]]
    .assert_debug_eq(&said);
}
