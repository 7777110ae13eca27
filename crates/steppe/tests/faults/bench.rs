//! A node under load in front of servers, one of which will fail.

use std::time::{Duration, Instant};

use serde_json::Value;
use steppe_testkit::{
    Nginx, NodeConfig, Section, SteadyClient, SteadyLoad, SteadyProtocol, Steppe, SteppeBuilder,
    TlsClient, Wire, is_long, observe_until,
};

/// Connections of the load.
const CONNECTIONS: u32 = 32;

/// Requests to each server before it fails: a fifth of all of them, which is the retry budget, then
/// allows a retry on each connection.
const SHARE: u64 = 100;

/// Requests a second. In the long tier they are more than the node can serve, so that each connection
/// always has one under way; else they are few enough to leave the machine to other tests.
fn rate() -> f64 {
    if is_long() { 50_000.0 } else { 1_000.0 }
}

/// Keys that [`Bench::start`] gives the upstream besides its servers: short times, so that a server
/// is ejected and back within seconds.
pub fn settings(upstream: Section) -> Section {
    upstream
        .set("timeouts.connect", "1s")
        .set("timeouts.first_byte", "1s")
        .set("retry.on", ["connect", "reset", "timeout"])
        .set("outlier.consecutive_failures", 3)
        .set("outlier.ejection", "500ms")
}

/// A node and its load.
pub struct Bench {
    pub node: Steppe,
    load: SteadyLoad,
    began_at: Instant,
}

/// A server that never fails.
pub fn good() -> Nginx {
    Nginx::start("location / { return 200 hello; }")
}

impl Bench {
    /// Loads a node in front of `servers`, with [`settings`].
    #[track_caller]
    pub fn start(servers: &[String]) -> Self {
        let bench = Self::load(Steppe::builder(), servers, settings);
        bench.wait_until_busy();
        bench
    }

    /// Loads a node in front of `servers`, whose upstream has these settings.
    #[track_caller]
    pub fn load(
        builder: SteppeBuilder<'_>,
        servers: &[String],
        settings: impl FnOnce(Section) -> Section,
    ) -> Self {
        let config = NodeConfig::plain()
            .workers(2)
            .upstream("origin", |u| settings(u.servers(servers)));
        let node = builder.start(&config);
        let client = SteadyClient {
            address: node.gateway(),
            protocol: SteadyProtocol::Http1,
            tls: match Wire::of_run() {
                Wire::Plain => None,
                Wire::Tls => Some(TlsClient::new()),
            },
            path: "/",
        };
        Self {
            load: SteadyLoad::start(&[client], rate(), CONNECTIONS, "hello"),
            node,
            began_at: Instant::now(),
        }
    }

    /// Waits until each server has had its share of requests.
    #[track_caller]
    pub fn wait_until_busy(&self) {
        self.wait_until("each server has its share", |servers| {
            let mut busy = servers.iter();
            busy.all(|server| server["requests"].as_u64() >= Some(SHARE))
        });
    }

    /// The servers in `/upstreams`.
    pub fn servers(&self) -> Vec<Value> {
        servers(&self.node)
    }

    /// Waits until `holds` is true for the servers in `/upstreams`.
    #[track_caller]
    pub fn wait_until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) {
        observe_until(what, || self.servers(), |servers| holds(servers));
    }

    /// Waits until server `at` is ejected, for a reason with `word` in it.
    #[track_caller]
    pub fn wait_until_ejected(&self, at: usize, word: &str) {
        self.wait_until(&format!("ejected: {word}"), |servers| {
            let reason = servers[at]["reason"].as_str();
            servers[at]["state"] == "ejected" && reason.is_some_and(|reason| reason.contains(word))
        });
    }

    /// Waits until server `at` has its share of requests again.
    #[track_caller]
    pub fn wait_until_back(&self, at: usize) {
        let number = |server: &Value, key: &str| server[key].as_u64().expect("a number");
        let served = |server: &Value| {
            let (requests, failures) = (number(server, "requests"), number(server, "failures"));
            requests.saturating_sub(failures)
        };
        let before = served(&self.servers()[at]);
        self.wait_until("it serves again", |servers| {
            servers[at]["state"] == "healthy" && served(&servers[at]) >= before + 50
        });
    }

    /// Ends the load; returns the errors that clients saw.
    #[track_caller]
    pub fn end(self) -> (Steppe, Vec<String>) {
        let outcome = self.load.stop();
        assert!(outcome.served > 100, "{outcome:?}");
        assert_within_retry_budget(&self.node, self.began_at.elapsed());
        (self.node, outcome.failures)
    }

    /// Ends the load: no client saw an error, and no retry was refused for want of budget.
    #[track_caller]
    pub fn end_without_error(self) -> Steppe {
        let (node, failures) = self.end();
        assert!(failures.is_empty(), "{failures:#?}\n{}", node.said());
        assert_eq!(retries(&node, "denied"), 0.0);
        node
    }
}

/// The servers of all upstreams in `/upstreams`.
pub fn servers(node: &Steppe) -> Vec<Value> {
    let report = node.admin_json("/upstreams");
    let upstreams = report["upstreams"].as_array().expect("a list");
    let servers = upstreams
        .iter()
        .map(|upstream| upstream["servers"].as_array());
    let servers = servers.map(|servers| servers.expect("a list of servers").clone());
    servers.flatten().collect()
}

/// Requests that were retried, or (`"denied"`) were not.
pub fn retries(node: &Steppe, outcome: &str) -> f64 {
    let labels = [("outcome", outcome)];
    let metrics = node.metrics();
    metrics.sum("steppe_http_upstream_retries_total", &labels)
}

/// Checks the retry budget. In each window of ten seconds a fifth of the requests may be retried,
/// or 30 if that is more. The total depends on how requests and retries fall into windows; it is
/// never more than the sum of both.
#[track_caller]
pub fn assert_within_retry_budget(node: &Steppe, elapsed: Duration) {
    let requests = node.metrics().sum("steppe_http_requests_total", &[]);
    // Requests under way are not counted yet.
    let requests = requests + f64::from(CONNECTIONS);
    let windows = (elapsed.as_secs_f64() / 10.0).ceil() + 1.0;
    let tried = retries(node, "tried");
    let most = 0.2 * requests + 30.0 * windows;
    assert!(tried <= most, "{tried} of {requests} were sent again");
}
