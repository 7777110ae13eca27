//! Steppe on the repository's own `examples/gateway-bench-h1.toml`: the file that people copy is
//! the file that is measured.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Proxy, Setup, origin, version, write_config};
use crate::server::{Launch, ensure_free};

pub fn prepare(setup: &Setup) -> Result<Launch> {
    let program = match &setup.steppe {
        Some(program) => fs::canonicalize(program)
            .with_context(|| format!("no program at {}", program.display()))?,
        None => built(setup)?,
    };
    ensure_free(super::loopback(ADMIN_PORT), "steppe's admin")?;
    let example = setup.root.join("examples/gateway-bench-h1.toml");
    let text = fs::read_to_string(&example)
        .with_context(|| format!("cannot read {}", example.display()))?;
    for address in [
        Proxy::Steppe.address(),
        origin::ADDRESS,
        super::loopback(ADMIN_PORT),
    ] {
        let named = text.contains(&format!("\"{address}\""));
        ensure!(
            named,
            "{} names no \"{address}\", which this bench needs",
            example.display()
        );
    }
    let config = write_config(setup, "steppe.toml", &text)?;
    Ok(Launch {
        name: "steppe",
        version: version(&program, &["version"])?,
        program,
        arguments: vec!["run".into(), "-c".into(), config.into()],
        environment: Vec::new(),
        address: Proxy::Steppe.address(),
    })
}

const ADMIN_PORT: u16 = 28900;

/// Builds the release binary and returns where it is.
fn built(setup: &Setup) -> Result<PathBuf> {
    eprintln!("building steppe (cargo build --release -p steppe-node)");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", "steppe-node"])
        .current_dir(&setup.root)
        .status()
        .context("cannot run cargo")?;
    ensure!(
        status.success(),
        "cargo build of steppe ended with {status}"
    );
    Ok(target_dir(setup).join("release/steppe"))
}

fn target_dir(setup: &Setup) -> PathBuf {
    let parent = setup.cache_dir.parent();
    parent
        .expect("the cache is a folder of the target folder")
        .to_owned()
}
