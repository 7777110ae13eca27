//! Programs of the long tests that only PyPI has, each in a folder of its own below the build's.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::report::Outcome;

/// A program of PyPI, installed in a folder of its own.
pub struct Program {
    name: &'static str,
    /// Pinned versions. A new one may judge differently: a commit adopts it, not a date.
    packages: &'static [&'static str],
}

/// A scanner of TLS.
pub const SSLYZE: Program = Program {
    name: "sslyze",
    packages: &["sslyze==6.1.0"],
};

/// cargo-zigbuild and its linker, by which cargo links for older versions of glibc and for musl.
pub const ZIGBUILD: Program = Program {
    name: "cargo-zigbuild",
    packages: &["cargo-zigbuild==0.24.0", "ziglang==0.15.2"],
};

impl Program {
    /// The folder of the program.
    pub fn folder(&self) -> PathBuf {
        self.environment().join("bin")
    }

    /// Installs the program, unless it is there. Without a network the tests that need it are skipped, each
    /// by its name.
    pub fn install(&self) -> Result<Outcome> {
        let program = self.folder().join(self.name);
        if program.exists() {
            return Ok(Outcome::Passed);
        }
        let made = process::output(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(self.environment()),
        );
        let pip = self.folder().join("pip");
        let install = ["install", "--quiet", "--disable-pip-version-check"];
        let installed =
            made.and_then(|_| process::output(Command::new(pip).args(install).args(self.packages)));
        match installed {
            Ok(_) if program.exists() => Ok(Outcome::Passed),
            Ok(_) => bail!("{} has no program", self.packages.join(", ")),
            Err(error) => Ok(Outcome::Skipped(format!("{error:#}"))),
        }
    }

    fn environment(&self) -> PathBuf {
        process::target_directory().join(self.name)
    }
}
