//! Runs of the command, and its output.

use std::process::Output;

use serde_json::Value;
use steppe_testkit::Steppe;

pub fn steppe(args: &[&str]) -> Output {
    steppe_with_roots("/dev/null", args)
}

pub fn steppe_with_roots(system: &str, args: &[&str]) -> Output {
    Steppe::command()
        .arg("cert")
        .args(args)
        .env("SSL_CERT_FILE", system)
        .env_remove("SSL_CERT_DIR")
        .output()
        .expect("the binary starts")
}

/// The report of `--json`, and the exit code.
pub fn json(args: &[&str]) -> (Value, i32) {
    let output = steppe(&[args, &["--json"]].concat());
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report, output.status.code().expect("an exit code"))
}

/// The codes of a list of findings, such as `2:expired` for one about certificate 2.
pub fn codes(report: &Value, list: &str) -> Vec<String> {
    let listed = report[list].as_array().expect("a list").iter();
    let codes = listed.map(|each| {
        let code = each["code"].as_str().expect("a word");
        match each["certificate"].as_u64() {
            Some(number) => format!("{number}:{code}"),
            None => code.to_owned(),
        }
    });
    codes.collect()
}

/// Asserts exit code 2, no standard output, and this text on standard error.
#[track_caller]
pub fn assert_unreadable(args: &[&str], expected: &str) {
    let output = steppe(args);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(output.stdout, b"", "{told}");
    assert!(
        told.starts_with("steppe: ") && told.contains(expected),
        "{told}"
    );
}
