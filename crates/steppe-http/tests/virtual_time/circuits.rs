//! Open circuits and the further attempts of a request: retries, hedges, resends, and calls of filters.

use std::net::SocketAddr;
use std::rc::Rc;

use steppe_http::config::{Filter, FilterKind, ForwardAuth, Hedge, HedgeAfter, Retry, RetryOn};
use steppe_testkit::virtual_time::{pass, run};

use super::failing::{Patient, breaker, circuit};
use super::site::{GET, Origin, Plan, Reply, SORRY, Script, Site, status};
use super::{LATE, seconds};

/// Failures at which the circuits of these tests open.
const MIN_REQUESTS: u32 = 5;

/// Attempts of any kind, as often as the configuration can have them.
fn retry(on: RetryOn) -> Retry {
    Retry {
        attempts: 10,
        on,
        budget: 1.0,
    }
}

/// Addresses at which no server listens.
fn nowhere(count: usize) -> Vec<SocketAddr> {
    let sockets: Vec<_> = (0..count)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("binds"))
        .collect();
    let addresses = sockets.iter().map(|socket| socket.local_addr());
    addresses.map(|address| address.expect("bound")).collect()
}

/// Attempts that failed so far, over all servers.
fn failures(site: &Site) -> u64 {
    let report = site.report();
    report.servers.iter().map(|server| server.failures).sum()
}

/// The circuit opens at the fifth failed attempt, and this one request has no sixth.
#[test]
fn one_request_that_fails_is_sent_no_more_once_its_circuit_opens() {
    type Answer = fn() -> Reply;
    let kinds: [(&str, RetryOn, Answer, u16); 3] = [
        (
            "503",
            RetryOn::UNAVAILABLE,
            || Reply::Say(SORRY.to_owned()),
            503,
        ),
        (
            "reset",
            RetryOn::RESET,
            || Reply::CloseAfter(seconds(0)),
            502,
        ),
        ("timeout", RetryOn::TIMEOUT, || Reply::Silence, 504),
    ];
    for (name, on, answer, expected) in kinds {
        run(async {
            let origins = [Origin::bind(), Origin::bind()];
            let mut plan = Plan::new(&origins.each_ref());
            plan.servers.circuit_breaker = Some(breaker(MIN_REQUESTS, 60));
            plan.servers.timeouts.first_byte = seconds(1);
            plan.servers.retry = Some(retry(on));
            let seen = origins.each_ref().map(Origin::seen);
            let script = move |_: &str| answer();
            let origins = origins.map(|origin| (origin, Box::new(script) as Script));
            let mut site = Site::start(plan, origins);
            let mut client = site.connect().await;
            client.send(GET).await;
            // Those that hear nothing take a second each.
            pass(seconds(15)).await;
            assert_eq!(status(&client.response().await), expected, "{name}");
            let asked = seen.map(|seen| seen.lock().expect("no panic").requests.len());
            let asked: usize = asked.iter().sum();
            assert_eq!((circuit(&site), asked), ("open", 5), "{name}");
        });
    }
}

/// A refused connection is passed over by another rule: without `retry`, each server is asked.
#[test]
fn connections_that_are_refused_are_tried_no_more_once_the_circuit_opens() {
    for retries in [None, Some(retry(RetryOn::CONNECT))] {
        run(async {
            let mut plan = Plan::to(nowhere(12));
            plan.servers.circuit_breaker = Some(breaker(MIN_REQUESTS, 60));
            plan.servers.retry = retries;
            let mut site = Site::start(plan, []);
            assert_eq!(site.status().await, 502, "{retries:?}");
            assert_eq!(
                (circuit(&site), failures(&site)),
                ("open", 5),
                "{retries:?}"
            );
        });
    }
}

/// `forward-auth` asks its own upstream, by a call of its own.
#[test]
fn the_service_of_forward_auth_is_asked_no_more_once_its_circuit_opens() {
    run(async {
        let mut plan = Plan::to(nowhere(12));
        plan.servers.circuit_breaker = Some(breaker(MIN_REQUESTS, 60));
        plan.filters = vec![Filter {
            name: "auth".to_owned(),
            kind: FilterKind::ForwardAuth(ForwardAuth {
                upstream: 0,
                path: "/".to_owned(),
                request_headers: Vec::new(),
                response_headers: Vec::new(),
                timeout: seconds(60),
            }),
        }];
        let mut site = Site::start(plan, []);
        assert_eq!(site.status().await, 502);
        assert_eq!((circuit(&site), failures(&site)), ("open", 5));
        assert_eq!(site.status().await, 503);
        assert_eq!(failures(&site), 5);
    });
}

#[test]
fn a_half_open_circuit_is_probed_by_one_attempt() {
    run(async {
        let patients = [Patient::sick(), Patient::sick()];
        let origins = patients.each_ref().map(|patient| &patient.origin);
        let mut plan = Plan::new(&origins);
        plan.servers.circuit_breaker = Some(breaker(MIN_REQUESTS, 60));
        plan.servers.retry = Some(Retry {
            attempts: 2,
            ..retry(RetryOn::UNAVAILABLE)
        });
        let counts = patients.each_ref().map(|patient| Rc::clone(&patient.asked));
        let asked = || counts.iter().map(|count| count.get()).sum::<usize>();
        let sick = patients
            .each_ref()
            .map(|patient| Rc::clone(&patient.is_sick));
        let origins = patients.map(|patient| {
            let script = patient.script();
            (patient.origin, script)
        });
        let mut site = Site::start(plan, origins);
        // Three attempts, and two.
        assert_eq!(site.statuses(3).await, [503; 3]);
        assert_eq!((circuit(&site), asked()), ("open", 5));
        for probes in 1..3 {
            pass(seconds(60)).await;
            assert_eq!(circuit(&site), "half-open");
            assert_eq!(site.statuses(2).await, [503; 2]);
            assert_eq!((circuit(&site), asked()), ("open", 5 + probes));
        }
        sick.iter().for_each(|sick| sick.set(false));
        pass(seconds(60)).await;
        assert_eq!(site.statuses(2).await, [200; 2]);
        assert_eq!((circuit(&site), asked()), ("closed", 9));
    });
}

/// The first server of a request takes long; meanwhile others fail, and the circuit opens.
#[test]
fn a_hedge_is_sent_through_no_circuit_that_is_open_or_half_open() {
    for (open_for, state) in [(60, "open"), (2, "half-open")] {
        run(async {
            let origins = [Origin::bind(), Origin::bind()];
            let mut plan = Plan::new(&origins.each_ref());
            plan.servers.circuit_breaker = Some(breaker(MIN_REQUESTS, open_for));
            plan.servers.hedge = Some(Hedge {
                after: HedgeAfter::Time(seconds(5)),
                budget: 1.0,
            });
            let seen = origins.each_ref().map(Origin::seen);
            let script = |request: &str| match request.starts_with("GET /slow") {
                true => Reply::Silence,
                false => Reply::Say(SORRY.to_owned()),
            };
            let origins = origins.map(|origin| (origin, Box::new(script) as Script));
            let mut site = Site::start(plan, origins);
            let mut slow = site.connect().await;
            slow.send(&GET.replace(" / ", " /slow ")).await;
            assert_eq!(site.statuses(5).await, [503; 5]);
            pass(seconds(5) + LATE).await;
            assert_eq!(circuit(&site), state);
            let asked = seen.map(|seen| seen.lock().expect("no panic").requests.len());
            assert_eq!(asked.iter().sum::<usize>(), 6, "{state}");
        });
    }
}

/// A kept connection that closes is no failure of its server, and its request is sent again without
/// `retry`: not through a circuit that has opened meanwhile.
#[test]
fn a_request_whose_kept_connection_closed_is_not_resent_through_an_open_circuit() {
    run(async {
        let origin = Origin::bind();
        let mut plan = Plan::new(&[&origin]);
        plan.servers.circuit_breaker = Some(breaker(MIN_REQUESTS, 60));
        let seen = origin.seen();
        let script = |request: &str| match request.starts_with("GET /slow") {
            true => Reply::CloseAfter(seconds(1)),
            false => Reply::Say(SORRY.to_owned()),
        };
        let mut site = Site::start(plan, [(origin, Box::new(script))]);
        assert_eq!(site.status().await, 503);
        let mut slow = site.connect().await;
        slow.send(&GET.replace(" / ", " /slow ")).await;
        assert_eq!(site.statuses(4).await, [503; 4]);
        assert_eq!(circuit(&site), "open");
        pass(seconds(3)).await;
        assert_eq!(status(&slow.response().await), 502);
        assert_eq!(seen.lock().expect("no panic").requests.len(), 6);
    });
}
