//! cargo-deny: licenses, bans and sources always; advisories where their database can be had.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::report::{Outcome, Report};

/// A new version may judge differently: it is taken on by a change, not by a date.
const VERSION: &str = "0.20.2";

/// The product's workspace, where an exception that is not needed any more is an error.
const PRODUCT: &str = "Cargo.toml";
/// The fuzz targets' workspace, which needs few of the exceptions.
const FUZZ: &str = "fuzz/Cargo.toml";

/// The workspace of the plane's peers, which only its bench builds.
const PEERS: &str = "bench/plane-peers/Cargo.toml";

/// Adds the steps of cargo-deny to a report.
pub fn steps(report: &mut Report) {
    // A dependency of a crate that both workspaces have must be in both lock files, or the bench
    // does not build.
    report.step("lock file of the bench's peers", || {
        let args = [
            "update",
            "--workspace",
            "--locked",
            "--manifest-path",
            PEERS,
        ];
        process::run(&mut process::cargo(&args)).context("run the same without --locked")?;
        Ok(Outcome::Passed)
    });
    let mut installed = None;
    report.step("cargo-deny: install", || {
        installed = Some(ensure_installed()?);
        Ok(Outcome::Passed)
    });
    let Some(program) = installed else { return };
    report.step("cargo-deny: licenses, bans, sources", || {
        for (manifest, level) in [(PRODUCT, "--deny"), (FUZZ, "--allow")] {
            let mut check = deny(&program, manifest);
            check.args([
                "check",
                level,
                "unmatched-skip",
                "licenses",
                "bans",
                "sources",
            ]);
            process::run(&mut check)?;
        }
        Ok(Outcome::Passed)
    });
    report.step("cargo-deny: advisories", || {
        if let Err(error) = process::output(deny(&program, PRODUCT).args(["fetch", "db"])) {
            println!("{error:#}");
            return Ok(Outcome::Skipped(
                "the advisory database could not be fetched".to_owned(),
            ));
        }
        for manifest in [PRODUCT, FUZZ] {
            process::run(deny(&program, manifest).args(["check", "advisories"]))?;
        }
        Ok(Outcome::Passed)
    });
}

fn deny(program: &PathBuf, manifest: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(process::root());
    // A fetch that can't get through must end by itself.
    command
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_HTTP_LOW_SPEED_LIMIT", "1000");
    command.env("GIT_HTTP_LOW_SPEED_TIME", "30");
    command.args(["--locked", "--workspace", "--manifest-path", manifest]);
    command
}

/// Finds cargo-deny in `target/tools`, or builds it there: unoptimized, which takes a minute where
/// a release build takes several and is as quick for a graph of this size.
fn ensure_installed() -> Result<PathBuf> {
    let tools = process::target_directory().join("tools");
    let program = tools.join("bin/cargo-deny");
    if is_current(&program) {
        return Ok(program);
    }
    let args = [
        "install",
        "cargo-deny",
        "--version",
        VERSION,
        "--locked",
        "--debug",
        "--root",
    ];
    let mut install = process::cargo(&args);
    install.arg(&tools).env("CARGO_PROFILE_DEV_DEBUG", "0");
    // One shared directory for what it compiles: the next version finds most of it there.
    install.env("CARGO_TARGET_DIR", tools.join("build"));
    process::run(&mut install).context("cargo-deny could not be installed")?;
    Ok(program)
}

fn is_current(program: &PathBuf) -> bool {
    let version = process::output(Command::new(program).arg("--version"));
    version.is_ok_and(|version| version.trim_end().ends_with(VERSION))
}
