//! The clock is read in named places only; everything else takes the time as an argument.
//!
//! So a test chooses the time, and a request costs the clock reads that this list shows. A place is
//! a function; reading the clock is `clock::now` of `steppe-net`, `Instant::now` or `.elapsed()`. Tests read it as they like.

use super::Finding;
use super::modules::Module;
use super::places::{Place, check_against};
use super::tree::{Tree, numbered};

const THIS_FILE: &str = "xtask/src/tidy/clock.rs";

const LISTED: &[Place] = &[
    Place {
        file: "steppe-http/src/cache/fill.rs",
        function: "put_head",
        reason: "when an answer to the cache began: how old it is from here on",
    },
    Place {
        file: "steppe-http/src/cache/fill.rs",
        function: "put_refusal",
        reason: "whether what is stored may still stand in",
    },
    Place {
        file: "steppe-http/src/cache/fill.rs",
        function: "store",
        reason: "content turned out too large to be stored: until when nobody waits for it again",
    },
    Place {
        file: "steppe-http/src/filter/cache.rs",
        function: "look",
        reason: "a response came that a request waited for: how old it is",
    },
    Place {
        file: "steppe-http/src/gateway/exchange/behind.rs",
        function: "ask",
        reason: "an exchange of a filter's own begins",
    },
    Place {
        file: "steppe-plane/src/io/driver.rs",
        function: "poll",
        reason: "once a poll of a connection; everything below it is told",
    },
    Place {
        file: "steppe-plane/src/caller.rs",
        function: "connect",
        reason: "a connection begins",
    },
    Place {
        file: "steppe-plane/src/caller.rs",
        function: "open",
        reason: "the deadline of a call begins",
    },
    Place {
        file: "steppe-plane/src/worker.rs",
        function: "driver",
        reason: "a connection begins",
    },
    Place {
        file: "steppe-node/src/plane_upstream/conversation.rs",
        function: "call",
        reason: "a call begins: its deadline is what is left",
    },
    Place {
        file: "steppe-node/src/plane_upstream/conversation.rs",
        function: "new",
        reason: "a call is taken: how long its answer takes is counted from here",
    },
    Place {
        file: "steppe-node/src/plane_upstream/conversation.rs",
        function: "receive",
        reason: "when its answer began",
    },
    Place {
        file: "steppe-plane/src/relay/peers.rs",
        function: "serve",
        reason: "a connection begins",
    },
    Place {
        file: "steppe-plane/src/relay/forward.rs",
        function: "exchange",
        reason: "when its answer began",
    },
    Place {
        file: "steppe-plane/src/relay/forward.rs",
        function: "pass",
        reason: "the wait of a call begins, and what is left of its deadline is passed on",
    },
    Place {
        file: "steppe-plane/src/relay/forward.rs",
        function: "open",
        reason: "the wait of a call begins",
    },
    Place {
        file: "steppe-plane/src/relay/forward.rs",
        function: "open_at",
        reason: "the deadline of a call begins at a worker",
    },
    Place {
        file: "steppe-plane/src/worker/listen.rs",
        function: "drain",
        reason: "the time of a drain begins",
    },
    Place {
        file: "steppe-plane/src/worker/register.rs",
        function: "drain",
        reason: "the time of a drain begins",
    },
    Place {
        file: "steppe-plane/src/worker/register.rs",
        function: "serve",
        reason: "how long a connection lasts decides when it is dialed again",
    },
    Place {
        file: "steppe-plane/src/balance.rs",
        function: "unary",
        reason: "the deadline of all tries begins",
    },
    Place {
        file: "steppe-plane/src/balance.rs",
        function: "begin",
        reason: "the deadline of all tries begins",
    },
    Place {
        file: "steppe-plane/src/balance.rs",
        function: "choose",
        reason: "whoever waits for a connection does so for a while",
    },
    Place {
        file: "steppe-plane/src/balance.rs",
        function: "left",
        reason: "what is left of a deadline is sent with each try",
    },
    Place {
        file: "steppe-plane/src/balance/seat.rs",
        function: "keep",
        reason: "how long a connection lasts decides when it is dialed again",
    },
    Place {
        file: "steppe-plane/src/discovery.rs",
        function: "follow",
        reason: "etcd says who is there",
    },
    Place {
        file: "steppe-plane/src/service.rs",
        function: "prepare",
        reason: "tickets of a listener's TLS are rotated",
    },
    Place {
        file: "steppe-node/src/cli/plane/tls.rs",
        function: "of_listener",
        reason: "tickets of a listener's TLS are rotated",
    },
    Place {
        file: "steppe-plane/src/relay/dialed.rs",
        function: "keep",
        reason: "how long a connection lasts decides when it is dialed again",
    },
    Place {
        file: "steppe-http/src/gateway/exchange.rs",
        function: "poll",
        reason: "once a poll of an exchange; everything below it is told",
    },
    Place {
        file: "steppe-http/src/gateway/exchange.rs",
        function: "reject",
        reason: "a rejected head may have taken its time",
    },
    Place {
        file: "steppe-http/src/gateway/acceptor.rs",
        function: "agree",
        reason: "the deadline of a TLS handshake begins with it",
    },
    Place {
        file: "steppe-http/src/codecs/choice.rs",
        function: "recognize",
        reason: "deadlines of the first bytes begin with the connection and with the first",
    },
    Place {
        file: "steppe-http/src/h2/server.rs",
        function: "serve",
        reason: "a connection begins, and the deadline of its preface; and it ends",
    },
    Place {
        file: "steppe-http/src/h2/server.rs",
        function: "poll",
        reason: "once a poll of a connection; its streams begin then",
    },
    Place {
        file: "steppe-http/src/h2/client.rs",
        function: "establish",
        reason: "a connection begins",
    },
    Place {
        file: "steppe-http/src/h2/client.rs",
        function: "poll",
        reason: "once a poll of a connection",
    },
    Place {
        file: "steppe-dns/src/service.rs",
        function: "cache",
        reason: "a cache's time begins with it",
    },
    Place {
        file: "steppe-dns/src/service.rs",
        function: "load_tls",
        reason: "secrets of tickets have a time from when they are made",
    },
    Place {
        file: "steppe-dns/src/worker/streams.rs",
        function: "agree",
        reason: "the deadline of a header and a TLS handshake begins with it",
    },
    Place {
        file: "steppe-dns/src/worker/client_stream.rs",
        function: "read",
        reason: "a connection begins to idle, and idles on while it waits for answers",
    },
    Place {
        file: "steppe-dns/src/worker/state.rs",
        function: "new",
        reason: "a worker's time begins",
    },
    Place {
        file: "steppe-dns/src/worker/streams_upstream.rs",
        function: "carry",
        reason: "once for each time that something happens to a connection",
    },
    Place {
        file: "steppe-dns/src/worker/streams_upstream.rs",
        function: "establish",
        reason: "when a connection is begun",
    },
    Place {
        file: "steppe-dns/src/cache_file.rs",
        function: "context",
        reason: "how old responses are when the file is written or read",
    },
    Place {
        file: "steppe-dns/src/shared.rs",
        function: "rate_limiter",
        reason: "the buckets' time begins with them",
    },
    Place {
        file: "steppe-dns/src/worker/log.rs",
        function: "write",
        reason: "once a line: what the query took",
    },
    Place {
        file: "steppe-node/src/cli/explain.rs",
        function: "run",
        reason: "the request that is explained comes now",
    },
    Place {
        file: "steppe-node/src/cli/plane/bench.rs",
        function: "measure",
        reason: "the run begins",
    },
    Place {
        file: "steppe-node/src/cli/plane/bench/load.rs",
        function: "one_by_one",
        reason: "a call begins and ends: that is what is measured",
    },
    Place {
        file: "steppe-node/src/cli/plane/call.rs",
        function: "exchange",
        reason: "what people are told that a call took",
    },
    Place {
        file: "steppe-node/src/cli/plane/echo/handler.rs",
        function: "tokens",
        reason: "messages are spread over a time that begins here",
    },
    Place {
        file: "steppe-node/src/cli/dns/query.rs",
        function: "ask",
        reason: "what people are told that a server took",
    },
    Place {
        file: "steppe-dns/src/worker/state.rs",
        function: "turn",
        reason: "once a turn: a batch of datagrams has one time",
    },
    Place {
        file: "steppe-node/src/cli.rs",
        function: "check",
        reason: "files of TLS are read as at a start",
    },
    Place {
        file: "steppe-http/src/service.rs",
        function: "prepare",
        reason: "secrets of tickets are made then",
    },
    Place {
        file: "steppe-http/src/gateway/proxied.rs",
        function: "read_header",
        reason: "the deadline of a PROXY header begins with the connection",
    },
    Place {
        file: "steppe-http/src/gateway/worker.rs",
        function: "housekeeping",
        reason: "the one task of a worker that sweeps pools",
    },
    Place {
        file: "steppe-http/src/h1/head_reader.rs",
        function: "next_request",
        reason: "a request begins when its first bytes have come",
    },
    Place {
        file: "steppe-http/src/h1/head_reader.rs",
        function: "poll_first_bytes",
        reason: "a drain sets a deadline of its own",
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "connect",
        reason: "how long a connection took to fail, or when it begins",
    },
    Place {
        file: "steppe-net/src/service/changes.rs",
        function: "send",
        reason: "one deadline for the change of all workers",
    },
    Place {
        file: "steppe-node/src/node/workers.rs",
        function: "shut_down",
        reason: "how long a drain took is told to people",
    },
    Place {
        file: "steppe-net/src/tls/reread.rs",
        function: "keep_current",
        reason: "the one task of a listener that looks at its files",
    },
    Place {
        file: "steppe-net/src/clock.rs",
        function: "now",
        reason: "the clock itself",
    },
    Place {
        file: "steppe-net/src/deadline.rs",
        function: "run",
        reason: "the one task of a worker that finds late deadlines",
    },
    Place {
        file: "steppe-net/src/names.rs",
        function: "resolve",
        reason: "an answer's time to live counts from its arrival",
    },
    Place {
        file: "steppe-http/src/files.rs",
        function: "new",
        reason: "how fresh a cached lookup is; once a request for a file",
    },
    Place {
        file: "steppe-http/src/h1/server.rs",
        function: "new",
        reason: "a connection begins",
    },
    Place {
        file: "steppe-http/src/h1/server.rs",
        function: "linger",
        reason: "a deadline after the last exchange",
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "may_retry",
        reason: "the retry budget counts by the second; only failed attempts get here",
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "refresh",
        reason: "weights of servers that start slowly grow with time",
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "wait_for_names",
        reason: "a lookup has ended meanwhile",
    },
    Place {
        file: "steppe-http/src/upstream/picker.rs",
        function: "pick",
        reason: "latencies decay with time, where the balance goes by them",
    },
    Place {
        file: "steppe-http/src/filter/forward_auth.rs",
        function: "ask",
        reason: "the service answers: how long it took, for the outlier detection",
    },
    Place {
        file: "steppe-http/src/filter/jwt/remote.rs",
        function: "fetch",
        reason: "the task that fetches a set of keys: a fetch begins",
    },
    Place {
        file: "steppe-http/src/upstream/probe.rs",
        function: "watch",
        reason: "the one task that follows the servers of a probed upstream",
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "new",
        reason: "servers start slowly from then on",
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "failed",
        reason: "an ejection begins",
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "probed",
        reason: "a server comes back from then on",
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "set_drained",
        reason: "a server comes back from then on",
    },
    Place {
        file: "steppe-http/src/upstream/uptime.rs",
        function: "millis",
        reason: "the origin of all times that are kept as milliseconds",
    },
    Place {
        file: "steppe-node/src/admin.rs",
        function: "load",
        reason: "secrets of tickets are made then",
    },
    Place {
        file: "steppe-node/src/admin/live.rs",
        function: "new",
        reason: "the sampler's own time",
    },
    Place {
        file: "steppe-node/src/admin/live.rs",
        function: "snapshot",
        reason: "the sampler's own time",
    },
    Place {
        file: "steppe-node/src/admin/live.rs",
        function: "events",
        reason: "the sampler's own time",
    },
    Place {
        file: "steppe-node/src/admin/live/snapshot.rs",
        function: "start",
        reason: "the sampler's own time",
    },
    Place {
        file: "steppe-node/src/admin/upstreams.rs",
        function: "list",
        reason: "for how long a server is still ejected is told to people",
    },
    Place {
        file: "steppe-node/src/cli/cert/handshake.rs",
        function: "left",
        reason: "each blocking call ends at the command's timeout",
    },
    Place {
        file: "steppe-node/src/cli/cert/handshake.rs",
        function: "observe",
        reason: "the command's timeout begins",
    },
    Place {
        file: "steppe-node/src/cli/health.rs",
        function: "ask",
        reason: "the command's timeout begins",
    },
    Place {
        file: "steppe-node/src/cli/health.rs",
        function: "read",
        reason: "a blocking loop ends at the command's timeout",
    },
    Place {
        file: "steppe-node/src/demo/answers.rs",
        function: "events",
        reason: "the demo origin sends an event a second",
    },
];

/// What reads the clock.
const READS: [&str; 3] = ["clock::now", "Instant::now", ".elapsed()"];

/// Crates that read the clock of their runtime, which tests stop: `clock::now` of `steppe-net` (ADR 0031).
const STOPPABLE: [&str; 2] = ["crates/steppe-net/", "crates/steppe-http/"];

/// What reads the real time there all the same.
const REAL: &[Place] = &[
    Place {
        file: "steppe-net/src/clock.rs",
        function: "now",
        reason: "it is the runtime's `Instant`",
    },
    Place {
        file: "steppe-net/src/names.rs",
        function: "resolve",
        reason: "the resolver's library says by the real time until when an answer is valid",
    },
    Place {
        file: "steppe-net/src/service/changes.rs",
        function: "send",
        reason: "it is the runtime's `Instant`",
    },
    Place {
        file: "steppe-http/src/upstream/uptime.rs",
        function: "millis",
        reason: "an origin that is before the times of all clocks of a process",
    },
];

/// Checks every function.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_against(tree, THIS_FILE, LISTED, clock_reads);
    findings.extend(check_against(tree, THIS_FILE, REAL, real_reads));
    findings
}

/// The lines of the crates in [`STOPPABLE`] that read another clock than theirs.
fn real_reads(module: &Module) -> Vec<(String, Finding)> {
    if !STOPPABLE.iter().any(|name| module.path.starts_with(name)) {
        return Vec::new();
    }
    let is_real = |line: &str| !line.contains("clock::now");
    let reads = reads(module, is_real).into_iter();
    let found = reads.map(|(function, number)| {
        let message =
            format!("`{function}` reads a clock that tests can't stop: use `steppe_net::clock`");
        (function, Finding::new(&module.path, number, message))
    });
    found.collect()
}

fn finding(path: &str, line: usize, function: &str) -> Finding {
    let message = format!(
        "`{function}` reads the clock: take `now: Instant` as an argument; if the time begins \
         here, list the function with its reason in {THIS_FILE}"
    );
    Finding::new(path, line, message)
}

/// The lines that read the clock, each with the function around it.
fn clock_reads(module: &Module) -> Vec<(String, Finding)> {
    let found = reads(module, |_| true)
        .into_iter()
        .map(|(function, number)| {
            let finding = finding(&module.path, number, &function);
            (function, finding)
        });
    found.collect()
}

/// Such lines of those that read the clock, with the functions around them.
fn reads(module: &Module, is_one: impl Fn(&str) -> bool) -> Vec<(String, usize)> {
    let mut function = String::new();
    let mut found = Vec::new();
    for (number, line) in numbered(&module.code) {
        if let Some(name) = function_name(line) {
            name.clone_into(&mut function);
        }
        if READS.iter().any(|read| line.contains(read)) && is_one(line) {
            found.push((function.clone(), number));
        }
    }
    found
}

/// The name of the function whose signature begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_word = before.is_empty() || before.ends_with([' ', '(']);
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (is_word && end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::super::places::one_file::{assert_stale_is_found, listed, printed, tree_of};
    use super::*;

    const CODE: &str = "fn f() {}\n\npub fn g(\n    a: u8,\n) {\n    x(Instant::now());\n}\n";

    fn found(code: &str, list: &[Place]) -> Vec<String> {
        printed(&check_against(&tree_of(code), THIS_FILE, list, clock_reads))
    }

    #[test]
    fn a_clock_read_is_found_with_its_function() {
        let found_here = found(CODE, &[]);
        assert_eq!(found_here.len(), 1);
        assert!(
            found_here[0].contains("a.rs:6: `g` reads the clock"),
            "{found_here:?}"
        );
        for code in [
            "fn f() { LazyLock::new(Instant::now) }",
            "fn f() { tokio::time::Instant::now(); }",
            "fn f() { began_at.elapsed() }",
        ] {
            assert_eq!(found(code, &[]).len(), 1, "{code}");
        }
    }

    #[test]
    fn a_read_of_the_real_time_is_found_where_tests_stop_the_clock() {
        let found = |code: &str, list: &[Place]| {
            printed(&check_against(&tree_of(code), THIS_FILE, list, real_reads))
        };
        assert_eq!(found("fn f() { clock::now(); }", &[]), Vec::<String>::new());
        let real = found(CODE, &[]);
        assert!(real[0].contains("a.rs:6: `g` reads a clock"), "{real:?}");
        assert_eq!(found(CODE, &[listed("g")]), Vec::<String>::new());
    }

    #[test]
    fn tests_and_comments_read_no_clock() {
        for code in [
            "// Instant::now()\nfn f() { \"Instant::now()\"; }",
            "#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }",
        ] {
            assert_eq!(found(code, &[]), Vec::<String>::new(), "{code}");
        }
    }

    #[test]
    fn a_listed_function_is_fine_and_a_stale_entry_is_found() {
        assert_eq!(found(CODE, &[listed("g")]), Vec::<String>::new());
        let found = found("fn g() {}", &[listed("g")]);
        assert_stale_is_found("g", &found);
    }
}
