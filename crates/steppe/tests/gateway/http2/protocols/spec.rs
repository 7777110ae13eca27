//! h2spec: what a server of HTTP/2 does with every frame, right ones and wrong ones. Long tier only.

use std::path::{Path, PathBuf};

use steppe_testkit::{is_left_to_long_tier, skip};

use super::*;

/// No package has it: `go install` builds it. With a network it comes from Go's proxy, which vouches
/// for its content.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// Below the build's folder, where the first run puts it. Why it can't be had, where it can't.
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

/// Where a listener speaks HTTP/1.1 too, what is no preface of HTTP/2 is a request of it, and answered with a
/// 400 before the connection ends. h2spec wants it to end without a word.
const IS_HTTP1: &str = "× 2: Sends invalid connection preface";

/// Its report, without colors.
fn run(program: &Path, site: &Site, down: Downstream) -> String {
    let address = site.address(down);
    let mut command = Command::new(program);
    command
        .args(["-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        // What it asks for has content.
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
