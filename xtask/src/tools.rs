//! Programs that cargo installs, each at a version of its own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// A program of crates.io that steps run.
pub struct Tool {
    /// The package, and the program.
    pub name: &'static str,
    /// A new version may judge differently: it is taken on by a change, not by a date.
    pub version: &'static str,
    /// What it prints its version for.
    pub version_args: &'static [&'static str],
}

impl Tool {
    /// Finds it in `target/tools`, or builds it there: unoptimized, which takes a minute where a release
    /// build takes several and is as quick for what it does here.
    pub fn ensure_installed(&self) -> Result<PathBuf> {
        let tools = process::target_directory().join("tools");
        let program = tools.join("bin").join(self.name);
        if self.is_current(&program) {
            return Ok(program);
        }
        let args = [
            "install",
            self.name,
            "--version",
            self.version,
            "--locked",
            "--debug",
            "--root",
        ];
        let mut install = process::cargo(&args);
        install.arg(&tools).env("CARGO_PROFILE_DEV_DEBUG", "0");
        // One shared directory for what it compiles: the next version finds most of it there.
        install.env("CARGO_TARGET_DIR", tools.join("build"));
        process::run(&mut install).with_context(|| format!("cannot install {}", self.name))?;
        Ok(program)
    }

    fn is_current(&self, program: &PathBuf) -> bool {
        let version = process::output(Command::new(program).args(self.version_args));
        version.is_ok_and(|version| version.trim_end().ends_with(self.version))
    }
}
