//! Programs that cargo installs, each at a version of its own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// A program of crates.io that steps run.
pub struct Tool {
    /// The package, and the program.
    pub name: &'static str,
    /// Pinned version. A new one may judge differently: a commit adopts it, not a date.
    pub version: &'static str,
    /// Arguments for which the program prints its version.
    pub version_args: &'static [&'static str],
}

impl Tool {
    /// Finds the program in `target/tools`, or builds it there: unoptimized, which takes a minute where a
    /// release build takes several, and is fast enough for its work here.
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
        // One shared build directory: the next version finds most dependencies compiled there.
        install.env("CARGO_TARGET_DIR", tools.join("build"));
        process::run(&mut install).with_context(|| format!("cannot install {}", self.name))?;
        Ok(program)
    }

    fn is_current(&self, program: &PathBuf) -> bool {
        let version = process::output(Command::new(program).args(self.version_args));
        version.is_ok_and(|version| version.trim_end().ends_with(self.version))
    }
}
