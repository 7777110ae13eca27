//! Certificates are replaced while the node runs.

use std::fs;

use steppe_testkit::{Curl, Issued, Load, Scratch, Steppe, eventually};

const CONFIG: &str = r#"
[node]
workers = 1
memory_budget = "64MiB"
[admin]
listen = "{admin}"
[log]
level = "info"
format = "text"
[[http.listener]]
listen = "{gateway}"
[http.listener.tls]
certificates = [{ cert = "{scratch}/site.crt", key = "{scratch}/site.key" }]
[http.upstream.hello]
respond.body = "hello"
[[http.route]]
name = "all"
path = "/{rest*}"
upstream = "hello"
"#;

/// Puts both where the node looks, each in one step.
fn put_pair(scratch: &Scratch, pair: &Issued) {
    put(scratch, "site.key", &pair.key);
    put(scratch, "site.crt", &pair.cert);
}

fn put(scratch: &Scratch, name: &str, text: &str) {
    let new = scratch.write("new", text);
    fs::rename(new, scratch.join(name)).expect("renames");
}

fn start(pair: &Issued) -> Steppe {
    Steppe::builder()
        .with_file("site.crt", &pair.cert)
        .with_file("site.key", &pair.key)
        .start(CONFIG)
}

fn url(node: &Steppe) -> String {
    format!("https://{}/", node.gateway())
}

/// Whether a new connection is shown a certificate that `pair` vouches for.
fn is_shown(node: &Steppe, pair: &Issued) -> bool {
    let ca = node.scratch().write("ca.crt", &pair.cert);
    let got = Curl::new(&url(node)).args(["--cacert", &ca.to_string_lossy()]);
    let got = got.run();
    // 60: the certificate can't be verified.
    assert!([0, 60].contains(&got.exit), "{}", got.errors);
    got.exit == 0
}

fn count(node: &Steppe, line: &str) -> usize {
    node.said().matches(line).count()
}

/// Looks at files that can't be used.
fn failures(node: &Steppe) -> f64 {
    let labels = [("result", "failed")];
    node.metrics().sum("steppe_http_tls_rereads_total", &labels)
}

const CHANGED: &str = "TLS files changed and are in force";
const FAILED: &str = "TLS files can't be used: what was served stays";

#[test]
fn new_connections_see_the_new_certificate_and_old_ones_go_on() {
    let (first, second) = (
        Issued::self_signed("127.0.0.1"),
        Issued::self_signed("127.0.0.1"),
    );
    let node = start(&first);
    let load = Load::start(&url(&node), 8);
    assert!(is_shown(&node, &first));
    put_pair(node.scratch(), &second);
    eventually("the new certificate", || is_shown(&node, &second));
    assert!(!is_shown(&node, &first));
    eventually("the log says so", || count(&node, CHANGED) > 0);
    let load = load.stop();
    assert_eq!((load.errors, load.refused), (0, 0), "{}", load.text);
    assert!(load.requests > 0, "{}", load.text);
}

#[test]
fn a_broken_pair_changes_nothing_and_the_log_says_so_once() {
    let (first, other) = (
        Issued::self_signed("127.0.0.1"),
        Issued::self_signed("127.0.0.1"),
    );
    let node = start(&first);
    put(node.scratch(), "site.key", &other.key);
    eventually("a word in the log", || count(&node, FAILED) > 0);
    assert!(
        node.said().contains("it is not the key of"),
        "{}",
        node.said()
    );
    assert!(is_shown(&node, &first));
    let before = failures(&node);
    eventually("further looks", || failures(&node) >= before + 2.0);
    assert_eq!(count(&node, FAILED), 1, "{}", node.said());
    assert!(is_shown(&node, &first));
    put(node.scratch(), "site.crt", "none");
    eventually("another error", || count(&node, FAILED) == 2);
    put_pair(node.scratch(), &other);
    eventually("the other certificate", || is_shown(&node, &other));
}

#[test]
fn a_new_configuration_ends_what_the_last_one_looked_at() {
    let (first, second) = (
        Issued::self_signed("127.0.0.1"),
        Issued::self_signed("127.0.0.1"),
    );
    let node = start(&first);
    let scratch = node.scratch();
    put(scratch, "other.crt", &second.cert);
    put(scratch, "other.key", &second.key);
    let config = fs::read_to_string(scratch.join("steppe.toml")).expect("it is there");
    put(scratch, "steppe.toml", &config.replace("/site.", "/other."));
    eventually("the other files", || is_shown(&node, &second));
    // Were the first files looked at, they would be told of.
    put(scratch, "site.key", "none");
    put(scratch, "other.key", "none");
    eventually("two looks", || failures(&node) >= 2.0);
    let (said, site) = (node.said(), scratch.join("site"));
    assert!(!said.contains(&*site.to_string_lossy()), "{said}");
}
