//! The certificates of a node in `/certificates`, `/metrics` and on the admin page.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;
use steppe_testkit::{Chromium, Steppe, skip};

const DAY: Duration = Duration::from_secs(86_400);

const CONFIG: &str = r#"
[node]
workers = 1
memory_budget = "64MiB"
[admin]
listen = "{admin}"
[[http.listener]]
listen = "{gateway}"
[http.listener.tls]
certificates = [
    { cert = "{scratch}/new.crt", key = "{scratch}/new.key" },
    { cert = "{scratch}/old.crt", key = "{scratch}/old.key" },
    { cert = "{scratch}/over.crt", key = "{scratch}/over.key" },
]
[http.upstream.hello]
respond.body = "hello"
[[http.route]]
name = "all"
path = "/{rest*}"
upstream = "hello"
"#;

/// A certificate of `name` that expires at `not_after`, and its key.
fn pair(name: &str, not_after: SystemTime) -> [String; 2] {
    let mut params = CertificateParams::new([format!("{name}.example")]).expect("a valid name");
    params.distinguished_name = DistinguishedName::new();
    let subject = format!("<img src=x onerror=alert(1)> {name}");
    params.distinguished_name.push(DnType::CommonName, subject);
    params.not_before = UNIX_EPOCH.into();
    params.not_after = not_after.into();
    let key = KeyPair::generate().expect("random");
    let cert = params.self_signed(&key).expect("valid");
    [cert.pem(), key.serialize_pem()]
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates count by the calendar"
)]
fn start() -> Steppe {
    let now = SystemTime::now();
    // Half a day more, so that the number of days does not change during the test.
    let ends = [
        ("new", now + 90 * DAY + DAY / 2),
        ("old", now + 13 * DAY + DAY / 2),
        ("over", now - DAY / 2),
    ];
    let mut builder = Steppe::builder();
    for (name, end) in ends {
        let [cert, key] = pair(name, end);
        builder = builder.with_file(&format!("{name}.crt"), &cert);
        builder = builder.with_file(&format!("{name}.key"), &key);
    }
    builder.start(CONFIG)
}

#[test]
fn certificates_are_told_with_days_left_and_their_expiry_is_a_metric() {
    let node = start();
    let report = node.admin_json("/certificates");
    let rows = report["certificates"].as_array().expect("a list");
    let told: Vec<_> = rows
        .iter()
        .map(|row| json!([row["names"][0], row["days_left"], row["state"]]))
        .collect();
    let want = [
        json!(["new.example", 90, "valid"]),
        json!(["old.example", 13, "valid"]),
        json!(["over.example", -1, "expired"]),
    ];
    assert_eq!(told, want, "{report:#}");
    let listener = node.gateway().to_string();
    let metrics = node.metrics();
    for row in rows {
        assert_eq!(row["listener"], listener);
        let file = row["file"].as_str().expect("a path");
        assert!(
            file.starts_with(&*node.scratch().path().to_string_lossy()),
            "{file}"
        );
        let labels = [("listener", listener.as_str()), ("certificate", file)];
        let expiry = metrics.sum("steppe_http_tls_certificate_expiry_seconds", &labels);
        assert_eq!(Some(expiry), row["not_after"].as_f64(), "{file}");
    }
}

#[test]
fn the_page_shows_days_left_and_marks_those_that_end_soon() {
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("the_page_shows_days_left", &reason),
    };
    let node = start();
    browser.go(&format!("http://{}/", node.admin()));
    browser.await_true("document.getElementById('certificate-rows')?.rows.length === 3");
    let shown = browser.evaluate(
        "[...byId('certificate-rows').rows].map((row) => \
         [row.innerText.includes('.example'), row.cells[1].innerText.split(',')[0], \
         Boolean(row.querySelector('.expiring'))])",
    );
    let want = json!([
        [true, "in 90 days", false],
        [true, "in 13 days", true],
        [true, "expired", true],
    ]);
    assert_eq!(shown, want);
    for width in [1280, 390, 320] {
        browser.resize(width, 800);
        let overhang =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.evaluate(overhang), json!(0), "at {width} px");
    }
    assert_eq!(browser.evaluate("document.images.length"), json!(0));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
