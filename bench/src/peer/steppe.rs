//! Steppe on the repository's own `examples/gateway-bench-h1.toml`: the file that people copy is
//! the file that is measured.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::{Proxy, Setup, cargo, origin, version, write_config};
use crate::server::{Launch, ensure_free};

/// What the second one is called.
pub const WITH_LOG: &str = "steppe+log";

pub fn prepare(setup: &Setup) -> Result<Launch> {
    launch(setup, Proxy::Steppe, ADMIN_PORT, str::to_owned)
}

/// The same file but for its ports, and a line of `combined` for each request.
pub fn prepare_with_log(setup: &Setup) -> Result<Launch> {
    let log = setup.run_dir.join("access.log");
    let access = format!("access = {{ file = \"{}\" }}", log.display());
    // It is measured from an empty file on.
    fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    launch(setup, Proxy::SteppeLog, ADMIN_PORT_WITH_LOG, |text| {
        let address = |proxy: Proxy| format!("\"{}\"", proxy.address());
        let admin = |port| format!("\"{}\"", super::loopback(port));
        text.replace(&address(Proxy::Steppe), &address(Proxy::SteppeLog))
            .replace(&admin(ADMIN_PORT), &admin(ADMIN_PORT_WITH_LOG))
            .replace("access = \"off\"", &access)
    })
}

fn launch(
    setup: &Setup,
    proxy: Proxy,
    admin_port: u16,
    edit: impl Fn(&str) -> String,
) -> Result<Launch> {
    let program = match &setup.steppe {
        Some(program) => fs::canonicalize(program)
            .with_context(|| format!("no program at {}", program.display()))?,
        None => cargo::built(setup, "steppe-node")?,
    };
    ensure_free(super::loopback(admin_port), "steppe's admin")?;
    let example = setup.root.join("examples/gateway-bench-h1.toml");
    let text = fs::read_to_string(&example)
        .with_context(|| format!("cannot read {}", example.display()))?;
    let text = edit(&text);
    for address in [
        proxy.address(),
        origin::ADDRESS,
        super::loopback(admin_port),
    ] {
        let named = text.contains(&format!("\"{address}\""));
        ensure!(
            named,
            "{} names no \"{address}\", which this bench needs",
            example.display()
        );
    }
    let config = write_config(setup, &format!("{}.toml", proxy.name()), &text)?;
    Ok(Launch {
        name: proxy.name(),
        version: version(&program, &["version"])?,
        program,
        arguments: vec!["run".into(), "-c".into(), config.into()],
        environment: Vec::new(),
        address: proxy.address(),
    })
}

const ADMIN_PORT: u16 = 28900;
const ADMIN_PORT_WITH_LOG: u16 = 28901;
