//! Release binaries of this workspace, built where none was named.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Builds the release binary of a package of the workspace `root`, which has its name, and returns where it is.
///
/// # Errors
/// When it does not build.
pub fn built(root: &Path, target_dir: &Path, package: &str) -> Result<PathBuf> {
    eprintln!("building {package} (cargo build --release -p {package})");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", package])
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    ensure!(
        status.success(),
        "cargo build of {package} ended with {status}"
    );
    Ok(target_dir.join("release").join(package))
}
