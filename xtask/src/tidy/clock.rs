//! The clock is read in named places only; everything else takes the time as an argument.
//!
//! So a test chooses the time, and a request costs the clock reads that this list shows. A place is
//! a function; reading the clock is `Instant::now` or `.elapsed()`. Tests read it as they like.

use super::modules::{self, Module};
use super::places::{Place, Places};
use super::tree::{Tree, numbered};
use super::{CRATES, Finding, REBUILT};

const THIS_FILE: &str = "xtask/src/tidy/clock.rs";

const LISTED: &[Place] = &[
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
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/gateway/connection.rs",
        function: "serve",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/gateway/forward.rs",
        function: "serve_made",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/gateway/forward/retry.rs",
        function: "forward",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/gateway/forward/retry.rs",
        function: "attempt",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/gateway/forward/retry.rs",
        function: "is_retried",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/gateway/forward/retry.rs",
        function: "close",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/gateway/worker.rs",
        function: "sweep_pools",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/h1/server.rs",
        function: "new",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/h1/server.rs",
        function: "next_request",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/h1/server.rs",
        function: "poll_first_bytes",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/h1/server.rs",
        function: "refuse",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/h1/server.rs",
        function: "linger",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/h1/server/proxied.rs",
        function: "proxy_header",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/h1/server/proxied.rs",
        function: "poll_proxy_header",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/relay.rs",
        function: "move_deadline",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "checkout",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "may_retry",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "reconnect",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "refresh",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream.rs",
        function: "wait_for_names",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/picker.rs",
        function: "pick",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/probe.rs",
        function: "watch",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/selection.rs",
        function: "select",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "new",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "failed",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "probed",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "set_drained",
        reason: REBUILT,
    },
    Place {
        file: "steppe-http/src/upstream/uptime.rs",
        function: "millis",
        reason: "the origin of all times that are kept as milliseconds",
    },
    Place {
        file: "steppe-node/src/admin/live.rs",
        function: "new",
        reason: REBUILT,
    },
    Place {
        file: "steppe-node/src/admin/live.rs",
        function: "snapshot",
        reason: REBUILT,
    },
    Place {
        file: "steppe-node/src/admin/live.rs",
        function: "events",
        reason: REBUILT,
    },
    Place {
        file: "steppe-node/src/admin/live/snapshot.rs",
        function: "start",
        reason: REBUILT,
    },
    Place {
        file: "steppe-node/src/admin/upstreams.rs",
        function: "list",
        reason: REBUILT,
    },
    Place {
        file: "steppe-node/src/cli/health.rs",
        function: "ask",
        reason: "the command's timeout begins",
    },
    Place {
        file: "steppe-node/src/cli/health.rs",
        function: "exchange",
        reason: "a blocking loop ends at the command's timeout",
    },
    Place {
        file: "steppe-node/src/demo/answers.rs",
        function: "events",
        reason: "the demo origin sends an event a second",
    },
    Place {
        file: "steppe-node/src/node.rs",
        function: "go_down",
        reason: REBUILT,
    },
];

/// What reads the clock.
const READS: [&str; 2] = ["Instant::now", ".elapsed()"];

/// Checks every function.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, LISTED)
}

fn check_against(tree: &Tree, listed: &[Place]) -> Vec<Finding> {
    let modules = CRATES.iter().flat_map(|name| modules::of_crate(tree, name));
    let mut listed = Places::new(listed);
    let mut findings = Vec::new();
    for module in modules {
        for (line, function) in reads(&module) {
            if !listed.has(&module.path, &function) {
                findings.push(finding(&module.path, line, &function));
            }
        }
    }
    findings.extend(listed.stale(THIS_FILE));
    findings
}

fn finding(path: &str, line: usize, function: &str) -> Finding {
    let message = format!(
        "`{function}` reads the clock: take `now: Instant` as an argument; if the time begins \
         here, list the function with its reason in {THIS_FILE}"
    );
    Finding::new(path, line, message)
}

/// The lines that read the clock, each with the function around it.
fn reads(module: &Module) -> Vec<(usize, String)> {
    let mut function = String::new();
    let mut reads = Vec::new();
    for (number, line) in numbered(&module.code) {
        if let Some(name) = function_name(line) {
            name.clone_into(&mut function);
        }
        if READS.iter().any(|read| line.contains(read)) {
            reads.push((number, function.clone()));
        }
    }
    reads
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
    use super::*;

    const FILE: &str = "steppe-net/src/a.rs";
    const CODE: &str = "fn f() {}\n\npub fn g(\n    a: u8,\n) {\n    x(Instant::now());\n}\n";

    fn listed(function: &'static str) -> Place {
        Place {
            file: FILE,
            function,
            reason: "a test",
        }
    }

    fn found(code: &str, listed: &[Place]) -> Vec<String> {
        let path = format!("crates/{FILE}");
        check_against(&Tree::of(&[(&path, code)]), listed)
            .iter()
            .map(Finding::to_string)
            .collect()
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
        assert!(
            found[0].contains("`g` of steppe-net/src/a.rs is listed (a test)"),
            "{found:?}"
        );
    }
}
