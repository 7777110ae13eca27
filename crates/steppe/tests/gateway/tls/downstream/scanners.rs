//! Findings of sslyze and testssl.sh. Long tier only.
//!
//! Accepted findings are listed below with their reasons; any other is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use steppe_testkit::{
    Authority, KeyKind, Leaf, RawOrigin, Scratch, Steppe, is_left_to_long_tier, skip,
};

use super::{OK, Site};

/// The name in the scanners' URLs and in the certificates, which resolves to this machine.
const HOST: &str = "localhost";

/// Findings of testssl.sh, MEDIUM or worse, that are not about the node.
const ACCEPTED: [(&str, &str); 7] = [
    ("cert_chain_of_trust", "the authority is the test's own"),
    ("cert_trust", "the authority is the test's own"),
    (
        "cert_revocation",
        "the authority publishes neither lists nor OCSP",
    ),
    (
        "cert_validityPeriod",
        "the certificate is valid for centuries, so that tests don't end",
    ),
    (
        "cipher_order",
        "the client chooses among suites that are all good, as Mozilla's \"intermediate\" has it",
    ),
    (
        "security_headers",
        "those are for the site to set, not for a gateway",
    ),
    ("DNS_CAArecord", "nobody can set a record for localhost"),
];

/// Findings of sslyze against Mozilla's "intermediate".
const ACCEPTED_BY_SSLYZE: [(&str, &str); 4] = [
    (
        "* certificate_path_validation: ",
        "the authority is the test's own",
    ),
    (
        "* maximum_certificate_lifespan: ",
        "the certificate is valid for centuries, so that tests don't end",
    ),
    (
        "* certificate_curves: Certificate curve is secp256r1, should be one of ",
        "two names of one curve (RFC 8422 §5.1.1)",
    ),
    (
        "* tls_curves: TLS curves {'secp256r1'} are supported, but should be rejected.",
        "the same: Mozilla's list has it as prime256v1",
    ),
];

/// A node as the documentation recommends, with certificates of both kinds.
fn node(origin: &RawOrigin) -> Steppe {
    let authority = Authority::new("servers");
    let ec = authority.issue(&Leaf::named(&[HOST]));
    let rsa = authority.issue(&Leaf::named(&[HOST]).key(KeyKind::Rsa2048).serial(2));
    Site::serving(&ec)
        .and(&rsa)
        .listener(|l| {
            let policy = "max-age=63072000; includeSubDomains";
            l.set("tls.strict_transport_security", policy)
        })
        .start(origin.address())
}

/// The path of sslyze below the build's folder, where `cargo xtask test-all` installs it.
fn sslyze() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    target.expect("it lies in one").join("sslyze/bin/sslyze")
}

#[test]
fn sslyze_finds_what_mozilla_asks_for() {
    const TEST: &str = "sslyze_finds_what_mozilla_asks_for";
    if is_left_to_long_tier(TEST) {
        return;
    }
    let program = sslyze();
    if !program.exists() {
        return skip(TEST, "sslyze is not installed");
    }
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let output = Command::new(program)
        .arg("--mozilla_config=intermediate")
        .arg(format!("{HOST}:{}", node.gateway().port()))
        .output()
        .expect("it is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let compliance = text.split("COMPLIANCE AGAINST").nth(1);
    let compliance = compliance.unwrap_or_else(|| panic!("no verdict: {text}"));
    println!("{compliance}");
    let findings: Vec<&str> = compliance
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("* "))
        .filter(|line| {
            !ACCEPTED_BY_SSLYZE
                .iter()
                .any(|(accepted, _)| line.contains(accepted))
        })
        .collect();
    assert!(findings.is_empty(), "{text}");
}

#[test]
fn testssl_finds_nothing_of_weight() {
    const TEST: &str = "testssl_finds_nothing_of_weight";
    if is_left_to_long_tier(TEST) {
        return;
    }
    if Command::new("testssl").arg("--version").output().is_err() {
        return skip(TEST, "testssl.sh is not installed");
    }
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let scratch = Scratch::new("testssl");
    let report = scratch.join("report.json");
    let output = Command::new("testssl")
        .args([
            "--quiet",
            "--color",
            "0",
            "--warnings",
            "off",
            "--ip",
            "127.0.0.1",
        ])
        .args(["--nodns", "none", "--jsonfile"])
        .arg(&report)
        .arg(format!("https://{HOST}:{}/", node.gateway().port()))
        .stdin(Stdio::null())
        .output()
        .expect("it is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let read = std::fs::read(&report).unwrap_or_else(|error| panic!("{error}: {text}"));
    let findings: Vec<serde_json::Value> =
        serde_json::from_slice(&read).unwrap_or_else(|error| panic!("{error}: {text}"));
    let severe: Vec<String> = findings
        .iter()
        .filter(|finding| {
            let severity = finding["severity"].as_str().unwrap_or("");
            ["MEDIUM", "HIGH", "CRITICAL", "FATAL"].contains(&severity)
        })
        .filter(|finding| {
            let id = finding["id"].as_str().unwrap_or("");
            !ACCEPTED
                .iter()
                .any(|(accepted, _)| id.starts_with(accepted))
        })
        .map(|finding| {
            format!(
                "{} {} {}",
                finding["id"], finding["severity"], finding["finding"]
            )
        })
        .collect();
    assert!(severe.is_empty(), "{severe:#?}");
    // The run is complete, and has found these properties.
    let ids = || findings.iter().filter_map(|finding| finding["id"].as_str());
    let is_found = |start: &str| ids().any(|id| id.starts_with(start));
    assert!(
        ["TLS1_2", "TLS1_3", "HSTS", "RC4"]
            .iter()
            .all(|id| is_found(id)),
        "{text}"
    );
}
