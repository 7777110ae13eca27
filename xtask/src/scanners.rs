//! Programs of the long tests that only PyPI has.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::report::Outcome;

const SSLYZE: &str = "sslyze==6.1.0";

/// Installs sslyze below the build's folder, unless it is there. Without a network the tests that
/// ask for it are skipped, each by its name.
pub fn install() -> Result<Outcome> {
    let folder = process::target_directory().join("sslyze");
    if folder.join("bin/sslyze").exists() {
        return Ok(Outcome::Passed);
    }
    let made = process::output(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&folder),
    );
    let pip = folder.join("bin/pip");
    let install = ["install", "--quiet", "--disable-pip-version-check", SSLYZE];
    let installed = made.and_then(|_| process::output(Command::new(pip).args(install)));
    match installed {
        Ok(_) if folder.join("bin/sslyze").exists() => Ok(Outcome::Passed),
        Ok(_) => bail!("{SSLYZE} has no program"),
        Err(error) => Ok(Outcome::Skipped(format!("{error:#}"))),
    }
}
