//! h2spec: the behavior of a server of HTTP/2 for valid and invalid frames. Long tier only.

use std::path::{Path, PathBuf};

use steppe_testkit::{is_left_to_long_tier, skip};

use super::*;

/// No package of the system has it: `go install` builds it. The module comes from Go's proxy, which verifies its
/// content.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// The path of h2spec below the build's folder, where the first run installs it. An error says why that failed.
fn h2spec() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let folder = target.expect("it lies in one").join("tools");
    let program = folder.join("h2spec");
    if program.exists() {
        return Ok(program);
    }
    let output = Command::new("go")
        .args(["install", MODULE])
        .env("GOBIN", &folder)
        .env("GOFLAGS", "")
        .output();
    let output = output.map_err(|_| "go is not installed".to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().last().unwrap_or_default();
    if output.status.success() {
        Ok(program)
    } else {
        Err(format!("h2spec can't be built: {why}"))
    }
}

/// A listener that also speaks HTTP/1.1 parses an invalid preface of HTTP/2 as a request, and answers 400 before it
/// closes the connection. h2spec expects a close without an answer.
const IS_HTTP1: &str = "× 2: Sends invalid connection preface";

/// Runs h2spec; returns its report, without colors.
fn run(program: &Path, site: &Site, down: Downstream) -> String {
    let address = site.address(down);
    let mut command = Command::new(program);
    command
        .args(["-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        // The response has content.
        .args(["-P", "/big", "--timeout", "10"])
        .env("NO_COLOR", "1")
        .env("TERM", "dumb");
    if down.is_tls() {
        command.args(["--tls", "--insecure"]);
    }
    let output = command.output().expect("it is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn h2spec_finds_nothing() {
    const TEST: &str = "h2spec_finds_nothing";
    if is_left_to_long_tier(TEST) {
        return;
    }
    let program = match h2spec() {
        Ok(program) => program,
        Err(why) => return skip(TEST, &why),
    };
    let Some(site) = Site::start(TEST) else {
        return;
    };
    for down in [Downstream::H2c, Downstream::H2] {
        let report = run(&program, &site, down);
        println!("{down:?}: {report}");
        let failed: Vec<&str> = (report.lines().map(str::trim))
            .skip_while(|line| !line.starts_with("Failures:"))
            .filter(|line| line.starts_with('×'))
            .collect();
        let tests = report.lines().last().unwrap_or_default();
        if down.is_tls() {
            assert_eq!(tests, "145 tests, 145 passed, 0 skipped, 0 failed");
        } else {
            assert_eq!(failed, [IS_HTTP1], "{report}");
            assert_eq!(tests, "145 tests, 144 passed, 0 skipped, 1 failed");
        }
    }
}
