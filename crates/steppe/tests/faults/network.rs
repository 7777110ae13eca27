//! A server behind a line that is slow, or loses packets.

use std::time::Duration;

use steppe_testkit::{Namespace, Nginx, Steppe, heavy, observe_until, skip};

use crate::bench::{Bench, good, retries, settings};

/// A server in a namespace, and two here.
struct Far {
    // Servers end before the namespace does.
    far: Nginx,
    near: [Nginx; 2],
    line: Namespace,
}

impl Far {
    fn start(test: &str) -> Option<Self> {
        let line = Namespace::new();
        let line = line.map_err(|reason| skip(test, &reason)).ok()?;
        Some(Self {
            far: Nginx::start_within(&line, "location / { return 200 hello; }"),
            near: [good(), good()],
            line,
        })
    }

    fn servers(&self) -> [String; 3] {
        let [one, other] = &self.near;
        [one, &self.far, other].map(|nginx| nginx.address().to_string())
    }
}

#[test]
fn a_server_becomes_slow() {
    let _alone = heavy();
    let Some(mut servers) = Far::start("a_server_becomes_slow") else {
        return;
    };
    // Less than the slow line takes, and more than a healthy server does.
    let bench = Bench::load(Steppe::builder(), &servers.servers(), |u| {
        settings(u)
            .set("timeouts.connect", "10s")
            .set("timeouts.first_byte", "1s")
    });
    bench.wait_until_busy();
    servers.line.delay(Duration::from_millis(1500));
    bench.wait_until_ejected(1, "in time");
    servers.line.mend();
    bench.wait_until_back(1);
    let node = bench.end_without_error();
    assert!(retries(&node, "tried") >= 3.0, "it was missed");
}

#[test]
fn a_server_that_is_slow_in_time_serves() {
    let _alone = heavy();
    let Some(mut servers) = Far::start("a_server_that_is_slow_in_time_serves") else {
        return;
    };
    let bench = Bench::load(Steppe::builder(), &servers.servers(), |u| {
        settings(u)
            .set("timeouts.connect", "5s")
            .set("timeouts.first_byte", "5s")
            .set("outlier.ejection", "5s")
    });
    bench.wait_until_busy();
    servers.line.delay(Duration::from_millis(300));
    bench.wait_until("it is seen to be slow", |servers| {
        servers[1]["latency_ms"].as_f64() >= Some(250.0)
    });
    bench.wait_until_back(1);
    let node = bench.end_without_error();
    assert_eq!(retries(&node, "tried"), 0.0, "there was nothing to retry");
}

#[test]
fn a_line_loses_packets() {
    let _alone = heavy();
    let Some(mut servers) = Far::start("a_line_loses_packets") else {
        return;
    };
    let bench = Bench::start(&servers.servers());
    servers.line.lose(2);
    observe_until(
        "packets are lost",
        || servers.line.lost(),
        |lost| *lost >= 100,
    );
    servers.line.mend();
    bench.wait_until_back(1);
    bench.end_without_error();
}
