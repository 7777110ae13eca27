//! The sources of peers, as cargo keeps them: those that this workspace links, and those of a manifest of their own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::subject::Subject;
use crate::process;

/// A column, and the packages that it counts.
type Column = (&'static str, &'static [&'static str]);

const LINKED: [Column; 2] = [("rustls", &["rustls"]), ("hyper", &["hyper"])];

const FETCHED: [Column; 2] = [
    ("quinn", &["quinn", "quinn-proto"]),
    (
        "Pingora",
        &[
            "pingora-cache",
            "pingora-core",
            "pingora-error",
            "pingora-http",
            "pingora-load-balancing",
            "pingora-pool",
            "pingora-proxy",
            "pingora-timeout",
        ],
    ),
];

/// Depends on the packages of [`FETCHED`], each by one version.
const MANIFEST: &str = "\
[package]
name = \"house-peers\"
edition = \"2024\"
publish = false
[workspace]
[dependencies]
quinn = { version = \"=0.11.12\", default-features = false }
quinn-proto = { version = \"=0.11.19\", default-features = false }
pingora-cache = { version = \"=0.9.1\", default-features = false }
pingora-core = { version = \"=0.9.1\", default-features = false }
pingora-load-balancing = { version = \"=0.9.1\", default-features = false }
pingora-proxy = { version = \"=0.9.1\", default-features = false }
";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// The peers that this workspace links, by the versions of its lock file.
///
/// # Errors
/// cargo can't say where they lie.
pub fn of_lock_file() -> Result<Vec<Subject>> {
    let manifest = process::root().join("Cargo.toml");
    columns(&LINKED, &packages(&manifest, &["--locked"])?)
}

/// The other peers, which cargo fetches by a manifest below `target/`.
///
/// # Errors
/// They can't be fetched.
pub fn fetched() -> Result<Vec<Subject>> {
    let folder = process::target_directory().join("house-peers");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = folder.join("Cargo.toml");
    fs::write(&manifest, MANIFEST)?;
    columns(&FETCHED, &packages(&manifest, &[])?)
}

fn packages(manifest: &Path, options: &[&str]) -> Result<Vec<Package>> {
    let mut command = process::cargo(&["metadata", "--format-version=1", "--manifest-path"]);
    let text = process::output(command.arg(manifest).args(options))?;
    let metadata: Metadata = serde_json::from_str(&text).context("cargo metadata")?;
    Ok(metadata.packages)
}

fn columns(columns: &[Column], packages: &[Package]) -> Result<Vec<Subject>> {
    let subjects = columns.iter().map(|(name, names)| {
        let named = packages
            .iter()
            .filter(|package| names.contains(&&package.name[..]));
        let folders = named.filter_map(|package| package.manifest_path.parent());
        let folders: Vec<PathBuf> = folders.map(Path::to_owned).collect();
        ensure!(
            folders.len() == names.len(),
            "{name}: {} packages, {} wanted",
            folders.len(),
            names.len()
        );
        Subject::of_folders(name, &folders)
    });
    subjects.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_peers_are_found() {
        let peers = of_lock_file().unwrap();
        assert!(peers.iter().all(|peer| peer.files().len() > 10));
    }
}
