//! `cargo xtask lab-truths` and `lab-healthy`: planted sicknesses and healthy twins, soaked by the lab.
//!
//! Each truth is a real process of which it is known what grows. The lab soaks it with no key that names
//! what was planted, and the table of verdicts is written to `docs/performance/lab.md`. Other load of the
//! machine is in the figures; a disturbed truth is run again by its name. Leaves out verdicts of seconds,
//! which are tests of the lab's crate.

mod planted;
mod soaked;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process;
use planted::{TRUTHS, Truth};
use soaked::{Length, Programs, Soaked};

/// Soaks the truths that are named, or all, and writes the table of all that were ever soaked here.
/// True: each verdict is one that its truth allows.
pub fn command(names: &[String]) -> Result<bool> {
    let known = || TRUTHS.iter().map(|truth| truth.name);
    if let Some(unknown) = names.iter().find(|name| !known().any(|it| it == *name)) {
        let known: Vec<&str> = known().collect();
        bail!("no truth `{unknown}`; known: {}", known.join(", "));
    }
    let wanted = TRUTHS
        .iter()
        .filter(|truth| names.is_empty() || names.iter().any(|name| name == truth.name));
    let programs = Programs::build()?;
    for truth in wanted {
        let soaked = programs.soak(truth, Length::Own, &folder().join(truth.name))?;
        println!("{}\n", table::line(truth, &soaked));
    }
    let rows: Vec<(&Truth, Soaked)> = TRUTHS
        .iter()
        .filter_map(|truth| Some((truth, Soaked::read(&folder().join(truth.name)).ok()?)))
        .collect();
    write("truths", &table::of(&rows))?;
    Ok(rows.iter().all(|(truth, soaked)| truth.allows(soaked)))
}

/// Soaks healthy truths in turn, a minute each, and writes how many of the verdicts were alarms. True: none.
pub fn healthy(runs: usize) -> Result<bool> {
    let healthy: Vec<&Truth> = TRUTHS.iter().filter(|truth| truth.is_healthy()).collect();
    let programs = Programs::build()?;
    let mut rows = Vec::new();
    for (number, truth) in healthy.into_iter().cycle().take(runs).enumerate() {
        let place = folder().join(format!("healthy-{}", number + 1));
        let soaked = programs.soak(truth, Length::Minute, &place)?;
        println!("{}\n", table::line(truth, &soaked));
        rows.push((truth, soaked));
    }
    write("healthy", &table::of_healthy(&rows))?;
    Ok(rows.iter().all(|(_, soaked)| !soaked.is_alarm()))
}

fn folder() -> PathBuf {
    process::target_directory().join("lab-truths")
}

/// Replaces what stands between the markers of `name` in the lab's page of figures.
fn write(name: &str, text: &str) -> Result<()> {
    let path = process::root().join("docs/performance/lab.md");
    let old = fs::read_to_string(&path).context("docs/performance/lab.md")?;
    let new = table::between(&old, name, text)?;
    fs::write(&path, new).with_context(|| display(&path))?;
    println!("written: {}", display(&path));
    Ok(())
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
