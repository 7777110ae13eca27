//! Release binaries of this workspace, built where none was named.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Setup;

/// Builds the release binary of a package and returns where it is.
pub fn built(setup: &Setup, package: &str) -> Result<PathBuf> {
    eprintln!("building {package} (cargo build --release -p {package})");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", package])
        .current_dir(&setup.root)
        .status()
        .context("cannot run cargo")?;
    ensure!(
        status.success(),
        "cargo build of {package} ended with {status}"
    );
    let program = package.strip_suffix("-node").unwrap_or(package);
    Ok(target_dir(setup).join("release").join(program))
}

fn target_dir(setup: &Setup) -> PathBuf {
    let parent = setup.cache_dir.parent();
    parent
        .expect("the cache is a folder of the target folder")
        .to_owned()
}
