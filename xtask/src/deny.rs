//! Checks of dependencies and their lock files: those of every change, and cargo-deny; advisories if their database is
//! reachable.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::dependencies;
use crate::process;
use crate::report::{Outcome, Report};
use crate::tools::Tool;

const TOOL: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    version_args: &["--version"],
};

/// The product's workspace, where an exception that is not needed any more is an error.
const PRODUCT: &str = "Cargo.toml";
/// The fuzz targets' workspace, which needs few of the exceptions.
const FUZZ: &str = "fuzz/Cargo.toml";

/// The workspace of the plane's peers, which only its bench builds.
const PEERS: &str = "bench/plane-peers/Cargo.toml";

/// The steps that take seconds.
pub fn first_steps(report: &mut Report) {
    report.step("licenses, sources, versions", || {
        dependencies::check(&[PRODUCT, FUZZ])
    });
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
}

/// cargo-deny, which takes minutes to build.
pub fn long_steps(report: &mut Report) {
    let mut installed = None;
    report.step("cargo-deny: install", || {
        installed = Some(TOOL.ensure_installed()?);
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
