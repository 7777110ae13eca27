//! Certificates are replaced while the node runs.

use std::fs;

use steppe_testkit::{
    Authority, Curl, Issued, Leaf, Load, NodeConfig, Scratch, Section, Steppe, Validity, eventually,
};

/// A configuration with the certificate in the files of this name.
fn showing(name: &str) -> NodeConfig {
    let shown = Section::new()
        .set("cert", format!("{{scratch}}/{name}.crt"))
        .set("key", format!("{{scratch}}/{name}.key"));
    NodeConfig::bare()
        .listener(|l| l.set("tls.certificates", [shown]))
        .add_upstream("hello", |u| u.set("respond.body", "hello"))
        .add_route("all", |r| r.path("/{rest*}").upstream("hello"))
}

/// Replaces both files of the node, each in one step.
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
        .start(showing("site"))
}

fn url(node: &Steppe) -> String {
    format!("https://{}/", node.gateway())
}

/// True if a new connection gets a certificate that is verified by `pair`.
fn is_shown(node: &Steppe, pair: &Issued) -> bool {
    let ca = node.scratch().write("ca.crt", &pair.cert);
    let got = Curl::new(&url(node)).args(["--cacert", &ca.to_string_lossy()]);
    let got = got.run();
    // 60: the certificate cannot be verified.
    assert!([0, 60].contains(&got.exit), "{}", got.errors);
    got.exit == 0
}

fn count(node: &Steppe, line: &str) -> usize {
    node.said().matches(line).count()
}

/// The number of failed attempts to read changed files.
fn failures(node: &Steppe) -> f64 {
    let labels = [("result", "failed")];
    node.metrics().sum("steppe_http_tls_rereads_total", &labels)
}

const CHANGED: &str = "changed TLS files reloaded";
const FAILED: &str = "cannot use the changed TLS files: the previous certificate stays in use";

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
        node.said().contains("the private key does not match"),
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
fn a_new_certificate_that_clients_refuse_by_its_dates_is_told_once() {
    const EXPIRED: &str = "certificate has expired: clients refuse it";
    const NOT_YET: &str = "certificate is not valid yet: clients refuse it";
    let authority = Authority::new("servers");
    let issue = |valid| authority.issue(&Leaf::named(&["127.0.0.1"]).valid(valid));
    let node = start(&issue(Validity::Current));
    let counts = || [EXPIRED, NOT_YET].map(|line| count(&node, line));
    assert_eq!(counts(), [0, 0], "{}", node.said());
    for (valid, expected) in [
        (Validity::Expired, [1, 0]),
        (Validity::NotYet, [1, 1]),
        (Validity::Expired, [2, 1]),
        (Validity::Current, [2, 1]),
    ] {
        let changes = count(&node, CHANGED);
        put_pair(node.scratch(), &issue(valid));
        eventually("it is in force", || count(&node, CHANGED) > changes);
        eventually("the log says so", || counts() == expected);
        // The log has no further line for later attempts.
        let before = failures(&node);
        put(node.scratch(), "site.key", "none");
        eventually("further looks", || failures(&node) >= before + 2.0);
        assert_eq!(counts(), expected, "{valid:?}: {}", node.said());
    }
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
    node.set_config(showing("other"));
    eventually("the other files", || is_shown(&node, &second));
    // Errors in the first files would be logged if the node still watched them.
    put(scratch, "site.key", "none");
    put(scratch, "other.key", "none");
    eventually("two looks", || failures(&node) >= 2.0);
    let (said, site) = (node.said(), scratch.join("site"));
    assert!(!said.contains(&*site.to_string_lossy()), "{said}");
}
