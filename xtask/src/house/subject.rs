//! A column of the table: packages that are counted together, and their sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::tidy::circles::modules_of;
use crate::tidy::tree::{SourceFile, Tree};

const OURS: [&str; 4] = [
    "steppe-http",
    "steppe-net",
    "steppe-mem",
    "steppe-telemetry",
];

/// Names of files and folders that hold tests, or what only tests use.
const FOR_TESTS: [&str; 3] = ["tests", "testing", "fakes"];

/// Packages and their files.
pub struct Subject {
    pub name: String,
    pub is_ours: bool,
    pub tree: Tree,
    /// The folders of the packages in the tree, each with a `/` at its end.
    packages: Vec<String>,
}

impl Subject {
    /// The four crates.
    ///
    /// # Errors
    /// They can't be read.
    pub fn steppe() -> Result<Self> {
        let mut subject = Self::named("Steppe");
        subject.is_ours = true;
        for name in OURS {
            let folder = format!("crates/{name}");
            subject.add(&process::root().join(&folder), &folder)?;
        }
        Ok(subject)
    }

    /// The package in a folder, or those below it.
    ///
    /// # Errors
    /// There is none.
    pub fn below(folder: &Path) -> Result<Self> {
        let name = folder
            .canonicalize()
            .with_context(|| folder.display().to_string())?;
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let mut subject = Self::named(&name);
        for package in packages_below(folder)? {
            let inside = package.strip_prefix(folder)?.to_string_lossy().into_owned();
            subject.add(&package, &format!("{name}/{inside}"))?;
        }
        ensure!(
            !subject.packages.is_empty(),
            "{}: no package",
            folder.display()
        );
        Ok(subject)
    }

    /// Packages in these folders.
    ///
    /// # Errors
    /// They can't be read.
    pub fn of_folders(name: &str, folders: &[PathBuf]) -> Result<Self> {
        let mut subject = Self::named(name);
        for folder in folders {
            let shown = folder.file_name().unwrap_or_default().to_string_lossy();
            subject.add(folder, &shown)?;
        }
        Ok(subject)
    }

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_ours: false,
            tree: Tree::default(),
            packages: Vec::new(),
        }
    }

    fn add(&mut self, folder: &Path, shown: &str) -> Result<()> {
        let shown = shown.trim_end_matches('/');
        self.tree.add_package(folder, shown)?;
        self.packages.push(format!("{shown}/"));
        Ok(())
    }

    /// The Rust files without those for tests.
    pub fn files(&self) -> Vec<&SourceFile> {
        let modules = self.packages.iter();
        let modules = modules.flat_map(|package| modules_of(&self.tree, package));
        let files = modules.filter_map(|module| self.tree.file(module.path));
        files.filter(|file| !is_for_tests(&file.path)).collect()
    }

    /// A subject of these files, for a test.
    #[cfg(test)]
    pub fn of_files(files: &[(&str, &str)]) -> Self {
        let mut subject = Self::named("test");
        subject.tree = Tree::of(files);
        subject.packages.push("a/".to_owned());
        subject
    }
}

fn is_for_tests(path: &str) -> bool {
    let parts = path.trim_end_matches(".rs").split('/');
    parts.into_iter().any(|part| FOR_TESTS.contains(&part))
}

fn packages_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    if manifest.contains("[package]") {
        return Ok(vec![folder.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(packages_below(&path)?);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_tests_do_not_count() {
        let lib = "#[cfg(test)] mod probe; mod b;";
        let subject = Subject::of_files(&[
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", lib),
            ("a/src/b.rs", ""),
            ("a/src/b/tests.rs", ""),
            ("a/src/b/fakes/c.rs", ""),
            ("a/src/probe.rs", ""),
            ("a/tests/d.rs", ""),
            ("a/build.rs", ""),
        ]);
        let files = subject.files();
        let paths: Vec<&str> = files.iter().map(|file| &file.path[..]).collect();
        assert_eq!(paths, ["a/src/lib.rs", "a/src/b.rs"]);
    }

    #[test]
    fn our_crates_are_read() {
        let subject = Subject::steppe().unwrap();
        assert!(
            subject
                .files()
                .iter()
                .any(|file| file.path == "crates/steppe-http/src/gateway.rs")
        );
    }
}
