//! The packages of the workspace as `cargo metadata` tells of them: folders, and dependencies on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// The packages by name.
pub struct Workspace {
    packages: BTreeMap<String, Package>,
}

/// One of them.
pub struct Package {
    /// Its folder, relative to the root of the workspace.
    pub folder: String,
    /// Packages of the workspace that it needs to be built, tested or benched.
    pub dependencies: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Packages of this checkout are named by path.
    path: Option<String>,
}

impl Workspace {
    /// Reads it.
    pub fn read() -> Result<Self> {
        let arguments = ["metadata", "--locked", "--format-version=1", "--no-deps"];
        Self::parse(&process::output(&mut process::cargo(&arguments))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let metadata: Metadata = serde_json::from_str(text).context("cargo metadata")?;
        let packages = metadata.packages.into_iter().map(|package| {
            let manifest = Path::new(&package.manifest_path);
            let folder = manifest.parent().context("a manifest lies in a folder")?;
            let folder = folder.strip_prefix(process::root()).unwrap_or(folder);
            let folder = folder.to_string_lossy().into_owned();
            let ours = package.dependencies.into_iter();
            let ours = ours.filter(|dependency| dependency.path.is_some());
            let dependencies = ours.map(|dependency| dependency.name).collect();
            Ok((
                package.name,
                Package {
                    folder,
                    dependencies,
                },
            ))
        });
        Ok(Self {
            packages: packages.collect::<Result<_>>()?,
        })
    }

    /// The package of this name.
    #[cfg(test)]
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.get(name)
    }

    /// The package whose folder the file lies in; of nested folders the innermost. `path` is relative to the root.
    pub fn package_of(&self, path: &str) -> Option<&str> {
        let holds = |folder: &str| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        (self.packages.iter())
            .filter(|(_, package)| holds(&package.folder))
            .max_by_key(|(_, package)| package.folder.len())
            .map(|(name, _)| name.as_str())
    }

    /// The package and all that depend on it, however indirectly.
    pub fn dependents(&self, name: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::from([name.to_owned()]);
        loop {
            let more: Vec<String> = (self.packages.iter())
                .filter(|(name, package)| {
                    !found.contains(*name) && !package.dependencies.is_disjoint(&found)
                })
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A workspace of these packages: name, folder, and the dependencies' names.
    pub fn workspace(packages: &[(&str, &str, &[&str])]) -> Workspace {
        let packages = packages.iter().map(|(name, folder, dependencies)| {
            let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
            let package = Package {
                folder: (*folder).to_owned(),
                dependencies,
            };
            ((*name).to_owned(), package)
        });
        Workspace {
            packages: packages.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_read() {
        let workspace = Workspace::read().unwrap();
        assert_eq!(
            workspace.package_of("crates/steppe-mem/src/lib.rs"),
            Some("steppe-mem")
        );
        assert_eq!(workspace.package_of("crates/steppe-memory/x"), None);
        assert_eq!(workspace.package_of("README.md"), None);
        assert_eq!(workspace.package("xtask").unwrap().folder, "xtask");
        let of_mem = workspace.dependents("steppe-mem");
        assert!(of_mem.contains("steppe-http") && of_mem.contains("steppe-node"));
        assert!(!of_mem.contains("steppe-lab"));
        assert_eq!(workspace.dependents("xtask").len(), 1);
    }

    #[test]
    fn the_innermost_folder_counts() {
        let workspace = testing::workspace(&[("bench", "bench", &[]), ("load", "bench/load", &[])]);
        assert_eq!(workspace.package_of("bench/load/src/a.rs"), Some("load"));
        assert_eq!(workspace.package_of("bench/src/a.rs"), Some("bench"));
    }
}
