//! Servers that are asked whether they are well: how often, for how long, and what is made of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use steppe_http::config::{Health, HealthRequest, Statuses};
use steppe_testkit::virtual_time::{pass, run};

use super::site::{OK, Origin, Plan, Reply, SORRY, Script, Seen, Site, saying};
use super::{millis, seconds};

const PATH: &str = "/probe?x=1";

fn health() -> Health {
    Health {
        asks: HealthRequest::Path(PATH.to_owned()),
        interval: seconds(10),
        timeout: seconds(2),
        healthy_after: 2,
        unhealthy_after: 3,
        expect: Statuses::parse("2xx").expect("valid"),
    }
}

/// A server's action on each probe: `.` is to pass it, `!` to fail, `3` to redirect, `~` to answer after
/// half a second. The last one holds for good.
type Words = Rc<RefCell<&'static [u8]>>;

fn probed(words: &Words) -> Script {
    let words = Rc::clone(words);
    Box::new(move |request| {
        if !request.starts_with(&format!("GET {PATH} ")) {
            return Reply::Say(OK.to_owned());
        }
        assert!(
            request.contains("\r\nuser-agent: steppe-probe\r\n"),
            "{request}"
        );
        let mut left = words.borrow_mut();
        let word = left[0];
        if left.len() > 1 {
            *left = &left[1..];
        }
        match word {
            b'.' => Reply::Say(OK.to_owned()),
            b'!' => Reply::Say(SORRY.to_owned()),
            b'3' => Reply::Say("HTTP/1.1 302 X\r\ncontent-length: 0\r\n\r\n".to_owned()),
            _ => Reply::SayAfter(millis(500), OK.to_owned()),
        }
    })
}

/// A gateway that probes two servers: one that goes by `words`, and one that is always well.
fn probing(words: &'static str, health: Health) -> (Site, Words, Arc<Mutex<Seen>>) {
    let words: Words = Rc::new(RefCell::new(words.as_bytes()));
    let (origin, other) = (Origin::bind(), Origin::bind());
    let seen = origin.seen();
    let mut plan = Plan::new(&[&origin, &other]);
    plan.servers.health = Some(health);
    let site = Site::start(plan, [(origin, probed(&words)), (other, saying(OK))]);
    (site, words, seen)
}

/// Lets so many probes come back, and says how the server was after each.
async fn states(site: &Site, probes: u64) -> String {
    let mut states = String::new();
    for count in 1..=probes {
        let done = || {
            let probe = site.server(0).probe.expect("it is probed");
            probe.passed + probe.failed
        };
        while done() < count {
            pass(millis(100)).await;
        }
        states.push(match site.server(0).state {
            "healthy" => '.',
            "unhealthy" => 'x',
            other => panic!("{other}"),
        });
    }
    states
}

#[test]
fn a_server_is_asked_at_its_interval() {
    run(async {
        let (_site, _, seen) = probing(".", health());
        pass(seconds(120)).await;
        let seen = seen.lock().expect("no panic");
        let times: Vec<_> = seen.requests.iter().map(|asked| asked.at).collect();
        let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
        let pauses: Vec<_> = pauses.collect();
        // A tenth more or less, so that nodes do not probe in step.
        let fit = millis(8_990)..millis(11_010);
        assert!(pauses.iter().all(|pause| fit.contains(pause)), "{pauses:?}");
        assert!((10..=14).contains(&pauses.len()), "{pauses:?}");
        let first = pauses[0];
        assert!(pauses.iter().any(|pause| *pause != first), "{pauses:?}");
    });
}

#[test]
fn so_many_probes_in_a_row_decide() {
    let with = |healthy_after, unhealthy_after| Health {
        healthy_after,
        unhealthy_after,
        ..health()
    };
    for (words, health, expected) in [
        ("!!.!!.!!!.", with(2, 4), "..............."),
        ("!!.!!.!!!.", with(2, 3), "........xx....."),
        ("!!!..!...!..!...!", with(4, 3), "..xxxxxxxxxxxxxxxxxx"),
        ("!!!..!...!..!...!", with(3, 3), "..xxxxxx.........."),
    ] {
        run(async {
            let (site, ..) = probing(words, health);
            let states = states(&site, expected.len() as u64).await;
            assert_eq!(states, expected, "{words}");
        });
    }
}

#[test]
fn a_server_that_is_unhealthy_is_asked_nothing_else() {
    run(async {
        let (mut site, words, seen) = probing("!", health());
        assert_eq!(states(&site, 3).await, "..x");
        let server = site.server(0);
        assert!(server.reason.contains("health checks fail"), "{server:?}");
        let requests = || {
            let seen = seen.lock().expect("no panic");
            let asked = seen.requests.iter();
            asked
                .filter(|asked| asked.text.starts_with("GET / "))
                .count()
        };
        assert_eq!(site.statuses(6).await, [200; 6]);
        assert_eq!(requests(), 0);
        *words.borrow_mut() = b".";
        pass(seconds(22)).await;
        assert_eq!(site.states(), ["healthy"; 2]);
        assert_eq!(site.statuses(6).await, [200; 6]);
        assert_eq!(requests(), 3);
        assert_eq!(site.server(0).probe.expect("it is probed").last, "200");
    });
}

#[test]
fn the_statuses_that_are_expected_are_good() {
    for (expect, expected) in [("2xx", "..xx"), ("200-399", "...."), ("200, 302", "....")] {
        run(async {
            let health = Health {
                expect: Statuses::parse(expect).expect("valid"),
                ..health()
            };
            let (site, ..) = probing("3", health);
            assert_eq!(states(&site, 4).await, expected, "{expect}");
        });
    }
}

#[test]
fn a_probe_waits_as_long_as_told() {
    for (timeout, expected, last) in [
        (millis(450), "..xx", "no response in time"),
        (millis(550), "....", "200"),
    ] {
        run(async {
            let health = Health {
                timeout,
                ..health()
            };
            let (site, ..) = probing("~", health);
            assert_eq!(states(&site, 4).await, expected);
            assert_eq!(site.server(0).probe.expect("it is probed").last, last);
        });
    }
}

#[test]
fn where_none_is_well_all_are_asked() {
    run(async {
        let words: [Words; 2] = [(); 2].map(|()| Rc::new(RefCell::new(&b"!"[..])));
        let origins = [(); 2].map(|()| Origin::bind());
        let mut plan = Plan::new(&origins.each_ref());
        plan.servers.health = Some(health());
        let [one, other] = origins;
        let origins = [(one, probed(&words[0])), (other, probed(&words[1]))];
        let mut site = Site::start(plan, origins);
        pass(seconds(40)).await;
        assert_eq!(site.states(), ["unhealthy"; 2]);
        assert_eq!(site.statuses(4).await, [200; 4]);
    });
}
