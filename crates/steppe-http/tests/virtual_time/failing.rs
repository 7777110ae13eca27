//! Servers that fail: circuits that open, servers that are ejected, and how both come back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use steppe_http::config::{
    Balance, CircuitBreaker, Filter, FilterKind, JsonEdits, Outlier, Retry, RetryOn, Route, Target,
    Transform, Unreadable, Upstream, UpstreamKind,
};
use steppe_testkit::virtual_time::{pass, run, settle};

use super::site::{GET, OK, Origin, Plan, Reads, Reply, SORRY, Script, Site, saying, status};
use super::{LATE, millis, seconds};

/// True while a server fails.
pub type Sick = Rc<Cell<bool>>;

/// A server that fails while it is told to, and counts requests.
pub struct Patient {
    pub origin: Origin,
    pub is_sick: Sick,
    pub asked: Rc<Cell<usize>>,
}

impl Patient {
    pub fn sick() -> Self {
        Self {
            origin: Origin::bind(),
            is_sick: Rc::new(Cell::new(true)),
            asked: Rc::default(),
        }
    }

    pub fn script(&self) -> Script {
        let (is_sick, asked) = (Rc::clone(&self.is_sick), Rc::clone(&self.asked));
        Box::new(move |_| {
            asked.set(asked.get() + 1);
            Reply::Say(if is_sick.get() { SORRY } else { OK }.to_owned())
        })
    }
}

/// A filter that edits content of so many bytes at most.
fn edits(max_bytes: u64) -> Filter {
    Filter {
        name: "edit".to_owned(),
        kind: FilterKind::Transform(Transform {
            response_json: Some(JsonEdits {
                remove: vec!["a".to_owned()],
                rename: Vec::new(),
                set: Vec::new(),
                max_bytes,
                unreadable: Unreadable::Refuse,
            }),
            ..Transform::default()
        }),
    }
}

pub fn breaker(min_requests: u32, open_for: u64) -> CircuitBreaker {
    CircuitBreaker {
        window: seconds(10),
        min_requests,
        failure_ratio: 0.5,
        open_for: seconds(open_for),
        fallback: None,
    }
}

/// A gateway with this circuit breaker before a sick server, whether that is sick, and how often it was asked.
fn broken(breaker: CircuitBreaker) -> (Site, Sick, Rc<Cell<usize>>) {
    let patient = Patient::sick();
    let (is_sick, asked) = (Rc::clone(&patient.is_sick), Rc::clone(&patient.asked));
    let mut plan = Plan::new(&[&patient.origin]);
    plan.servers.circuit_breaker = Some(breaker);
    let script = patient.script();
    let site = Site::start(plan, [(patient.origin, script)]);
    (site, is_sick, asked)
}

pub fn circuit(site: &Site) -> &'static str {
    site.report().circuit.expect("it has a circuit breaker")
}

#[test]
fn one_request_at_a_time_tells_whether_servers_are_well_again() {
    run(async {
        let (mut site, is_sick, asked) = broken(breaker(4, 60));
        assert_eq!(site.statuses(6).await, [503; 6]);
        assert_eq!((circuit(&site), asked.get()), ("open", 4));
        let refused = site.ask(GET).await;
        assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
        pass(seconds(60) - millis(20)).await;
        assert_eq!((site.status().await, asked.get()), (503, 4));
        pass(millis(20)).await;
        assert_eq!(circuit(&site), "half-open");
        // Still sick: a probe opens it again.
        assert_eq!(site.statuses(3).await, [503; 3]);
        assert_eq!((circuit(&site), asked.get()), ("open", 5));
        is_sick.set(false);
        pass(seconds(60)).await;
        assert_eq!(site.statuses(20).await, [200; 20]);
        assert_eq!((circuit(&site), asked.get()), ("closed", 25));
    });
}

/// The client that is let through and then sends nothing is not waited for.
#[test]
fn a_client_that_dawdles_does_not_keep_a_circuit_open() {
    run(async {
        let (mut site, is_sick, _) = broken(breaker(4, 5));
        assert_eq!(site.statuses(4).await, [503; 4]);
        is_sick.set(false);
        pass(seconds(5)).await;
        let mut slow = site.connect().await;
        slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            .await;
        settle().await;
        assert_eq!(site.server(0).active, 1, "it is let through");
        pass(seconds(5) - millis(20)).await;
        assert_eq!(site.status().await, 503, "it may answer yet");
        pass(millis(20)).await;
        assert_eq!(site.status().await, 200);
        assert_eq!(circuit(&site), "closed");
    });
}

/// Failures from before the window do not add up with failures in it.
#[test]
fn failures_are_counted_in_a_window() {
    run(async {
        let (mut site, _, asked) = broken(breaker(6, 60));
        assert_eq!(site.statuses(5).await, [503; 5]);
        pass(seconds(11)).await;
        assert_eq!(site.statuses(5).await, [503; 5]);
        assert_eq!((circuit(&site), asked.get()), ("closed", 10));
        pass(seconds(5)).await;
        assert_eq!(site.statuses(2).await, [503; 2]);
        assert_eq!((circuit(&site), asked.get()), ("open", 11));
    });
}

/// Of two, the one that opened first is still open when the other is tried again.
#[test]
fn each_circuit_is_open_for_as_long_as_it_is_told() {
    run(async {
        let (long, short) = (Patient::sick(), Patient::sick());
        let mut plan = Plan::new(&[&long.origin]);
        plan.servers.circuit_breaker = Some(breaker(4, 60));
        let mut servers = Plan::new(&[&short.origin]).servers;
        servers.circuit_breaker = Some(breaker(4, 5));
        plan.edit = Box::new(|config| {
            let path = "/short".parse().expect("valid");
            config
                .routes
                .push(Route::of("short", path, Target::Upstream(1)));
            config.upstreams.push(Upstream {
                name: "short".to_owned(),
                kind: UpstreamKind::Servers(servers),
            });
        });
        let asked = Rc::clone(&long.asked);
        let sick = [Rc::clone(&long.is_sick), Rc::clone(&short.is_sick)];
        let scripts = [long.script(), short.script()];
        let [to_long, to_short] = scripts;
        let mut site = Site::start(plan, [(long.origin, to_long), (short.origin, to_short)]);
        let request = GET.replace(" / ", " /short ");
        for request in [GET, &request] {
            for _ in 0..4 {
                assert_eq!(status(&site.ask(request).await), 503);
            }
        }
        sick.iter().for_each(|sick| sick.set(false));
        pass(seconds(5) - millis(20)).await;
        assert_eq!(status(&site.ask(&request).await), 503);
        pass(millis(20)).await;
        assert_eq!(status(&site.ask(&request).await), 200);
        assert_eq!((site.status().await, asked.get()), (503, 4));
    });
}

/// A server that does not wait for content for ever is right, and one whose response a filter can't edit
/// has answered.
#[test]
fn what_clients_and_filters_do_is_not_the_servers_failure() {
    run(async {
        let origin = Origin::reading(Reads::Head);
        let mut plan = Plan::new(&[&origin]);
        plan.servers.circuit_breaker = Some(breaker(2, 60));
        plan.edit = Box::new(|config| {
            let path = "/edited".parse().expect("valid");
            config.routes.push(Route {
                filters: vec![0],
                ..Route::of("edited", path, Target::Upstream(0))
            });
            config.filters.push(edits(1024));
        });
        let script = |request: &str| {
            if request.starts_with("POST") {
                // Twice what makes its client late.
                return Reply::CloseAfter(seconds(2));
            }
            let long = format!("{{\"a\":\"{}\"}}", "x".repeat(3000));
            let bytes = long.len();
            Reply::Say(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                 content-length: {bytes}\r\n\r\n{long}"
            ))
        };
        let edited = GET.replace(" / ", " /edited ");
        let mut site = Site::start(plan, [(origin, Box::new(script))]);
        for _ in 0..3 {
            let mut client = site.connect().await;
            client
                .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab")
                .await;
            pass(seconds(2)).await;
            assert_eq!(status(&client.response().await), 502);
            assert_eq!(status(&site.ask(&edited).await), 502);
        }
        assert_eq!(circuit(&site), "closed");
        assert_eq!(site.statuses(3).await, [200; 3]);
        // With all that it was to get, it is.
        let whole = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        // The first one is sent on a connection that was idle, whose end may have crossed it.
        pass(seconds(11)).await;
        for _ in 0..3 {
            assert_eq!(circuit(&site), "closed");
            let mut client = site.connect().await;
            client.send(whole).await;
            pass(seconds(2)).await;
            let answer = client.response().await;
            assert_eq!(status(&answer), 502, "{answer}");
        }
        assert_eq!(circuit(&site), "open");
    });
}

#[test]
fn a_server_that_hangs_is_ejected_and_returns() {
    run(async {
        let (one, other) = (Origin::bind(), Origin::bind());
        let mut plan = Plan::new(&[&one, &other]);
        plan.servers.timeouts.first_byte = seconds(2);
        plan.servers.outlier = Some(Outlier {
            consecutive_failures: 2,
            ejection: seconds(10),
            max_ejected: 0.5,
        });
        plan.servers.retry = Some(Retry {
            attempts: 1,
            on: RetryOn::TIMEOUT,
            budget: 0.2,
        });
        let hangs = Rc::new(Cell::new(false));
        let is_hung = Rc::clone(&hangs);
        let script = move |_: &str| match is_hung.get() {
            true => Reply::Silence,
            false => Reply::Say(OK.to_owned()),
        };
        let origins = [(one, Box::new(script) as Script), (other, saying(OK))];
        let mut site = Site::start(plan, origins);
        assert_eq!(site.statuses(4).await, [200; 4]);
        hangs.set(true);
        for _ in 0..12 {
            let mut client = site.connect().await;
            client.send(GET).await;
            pass(seconds(2) + LATE).await;
            assert_eq!(
                status(&client.response().await),
                200,
                "another server lives"
            );
        }
        assert_eq!(site.server(0).ejections, 2, "once again when it was back");
        assert_eq!(site.states(), ["ejected", "healthy"]);
        hangs.set(false);
        // Twice as long as the first time, and looked for once a second.
        pass(seconds(21)).await;
        assert_eq!(site.states(), ["healthy"; 2]);
        let before = site.server(0).requests;
        assert_eq!(site.statuses(10).await, [200; 10]);
        assert_eq!(
            site.server(0).requests - before,
            5,
            "it has its share again"
        );
    });
}

#[test]
fn ejections_that_follow_each_other_grow() {
    run(async {
        let (patient, other) = (Patient::sick(), Origin::bind());
        let mut plan = Plan::new(&[&patient.origin, &other]);
        plan.servers.outlier = Some(Outlier {
            consecutive_failures: 1,
            ejection: seconds(10),
            max_ejected: 0.5,
        });
        let script = patient.script();
        let mut site = Site::start(plan, [(patient.origin, script), (other, saying(OK))]);
        for (ejections, length) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
            let failed = site.statuses(2).await;
            assert_eq!(failed.iter().filter(|status| **status == 503).count(), 1);
            let server = site.server(0);
            assert_eq!((server.state, server.ejections), ("ejected", ejections));
            pass(seconds(length) - millis(20)).await;
            assert_eq!(site.states(), ["ejected", "healthy"], "{length}");
            // Those that are back are looked for once a second.
            pass(seconds(1) + millis(20)).await;
            assert_eq!(site.states(), ["healthy"; 2], "{length}");
        }
    });
}

#[test]
fn a_server_that_returns_starts_slowly() {
    for (slow_start, expected) in [(0, [22, 16]), (100, [4, 11])] {
        run(async {
            let (patient, other) = (Patient::sick(), Origin::bind());
            let mut plan = Plan::new(&[&patient.origin, &other]);
            plan.servers.slow_start = seconds(slow_start);
            plan.servers.outlier = Some(Outlier {
                consecutive_failures: 1,
                ejection: seconds(10),
                max_ejected: 0.5,
            });
            let (script, asked) = (patient.script(), Rc::clone(&patient.asked));
            patient.is_sick.set(true);
            let is_sick = Rc::clone(&patient.is_sick);
            let mut site = Site::start(plan, [(patient.origin, script), (other, saying(OK))]);
            let failed = site.statuses(2).await;
            assert_eq!(failed.iter().filter(|status| **status == 503).count(), 1);
            is_sick.set(false);
            pass(seconds(11)).await;
            assert_eq!(site.states(), ["healthy"; 2]);
            for (requests, expected) in [44, 33].into_iter().zip(expected) {
                let before = asked.get();
                assert_eq!(site.statuses(requests).await, vec![200; requests]);
                // A tenth of its weight at first, half of it after half of the time.
                let had = asked.get() - before;
                assert!(
                    had.abs_diff(expected) <= 1,
                    "{had} of {requests}, {slow_start}"
                );
                pass(seconds(slow_start / 2)).await;
            }
        });
    }
}

#[test]
fn the_fast_server_is_preferred() {
    run(async {
        let (slow, fast) = (Origin::bind(), Origin::bind());
        let mut plan = Plan::new(&[&slow, &fast]);
        plan.servers.balance = Balance::P2cEwma;
        let counts = Rc::new(RefCell::new([0, 0]));
        let script = |at: usize, after| {
            let counts = Rc::clone(&counts);
            Box::new(move |_: &str| {
                counts.borrow_mut()[at] += 1;
                Reply::SayAfter(after, OK.to_owned())
            }) as Script
        };
        let scripts = [script(0, seconds(1)), script(1, millis(10))];
        let [to_slow, to_fast] = scripts;
        let mut site = Site::start(plan, [(slow, to_slow), (fast, to_fast)]);
        for _ in 0..20 {
            let mut client = site.connect().await;
            client.send(GET).await;
            while client.is_waiting() {
                pass(millis(10)).await;
            }
            assert_eq!(status(&client.response().await), 200);
        }
        let [slow, fast] = *counts.borrow();
        assert!(fast >= 18 && slow + fast == 20, "{slow} {fast}");
    });
}
