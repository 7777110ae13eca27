//! The reach of a change: the packages and test programs that it can break, with reasons.
//!
//! A change is what differs from the last commit whose whole first tier was green in this target directory,
//! changes that are not committed included. A file counts for its package, and with it for every package that
//! depends on that one; `reach.toml` has what cargo does not know. Files of the workspace as a whole (manifests,
//! the lock file, the toolchain, set-up) reach everything, as does a file of no package and no entry of `reach.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;
use crate::{git, process};

/// The packages and test programs that have to run.
pub struct Affected {
    /// Why everything runs; `None` when a part of it is enough.
    pub everything: Option<String>,
    /// Packages that the change reaches, with the changed packages that reach them.
    packages: BTreeMap<String, BTreeSet<String>>,
    /// Single test programs (`package/program`) with the changed files that they read.
    programs: BTreeMap<String, String>,
    reach: Reach,
    /// Decides about the steps that are compared with the last commit where no green run is on record.
    pub rare: Rare,
}

/// Decides about steps that take long and judge single crates: libFuzzer, loom, other systems.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rare {
    /// The changed packages themselves, without their dependents. `None`: nothing to compare with.
    pub changed: Option<BTreeSet<String>>,
    /// True when a file of the workspace as a whole changed.
    pub is_everything: bool,
    /// True when the lab's statistics changed.
    pub has_statistics: bool,
    /// The commit that the checkout is compared with, in words.
    pub since: String,
}

impl Rare {
    /// True when this package, or all of the workspace, changed.
    pub fn has(&self, package: &str) -> bool {
        let changed = self.changed.as_ref();
        self.is_everything || changed.is_some_and(|changed| changed.contains(package))
    }
}

/// `reach.toml`.
#[derive(Deserialize, Default)]
pub struct Reach {
    files: BTreeMap<String, Vec<String>>,
    /// Changed crate → the programs of `steppe` that it reaches.
    reach: BTreeMap<String, Vec<String>>,
    /// Changed crate → packages whose tests run what it is part of.
    run_time: BTreeMap<String, Vec<String>>,
}

impl Reach {
    fn read() -> Result<Self> {
        let path = process::root().join("xtask/reach.toml");
        let text = fs::read_to_string(&path)?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// The readers of a file that lies in no package; `None` for a file of the workspace as a whole.
    fn readers(&self, path: &str) -> Option<&[String]> {
        let fits = |key: &str| key == path || (key.ends_with('/') && path.starts_with(key));
        (self.files.iter())
            .filter(|(key, _)| fits(key))
            .max_by_key(|(key, _)| key.len())
            .map(|(_, readers)| readers.as_slice())
    }
}

/// The package whose test programs `reach.toml` tells apart.
const NODE_TESTS: &str = "steppe";

impl Affected {
    /// Compares the checkout. `everything`: the reason when the caller asks for all of it.
    pub fn find(everything: Option<&str>) -> Result<Self> {
        let workspace = Workspace::read()?;
        let reach = Reach::read()?;
        let green = Green::read().filter(|green| git::commit(&green.commit).is_some());
        let (changed, since) = match &green {
            Some(green) => (
                Some(git::changed_since(&green.commit)?),
                format!("{}, the last that was green here", short(&green.commit)),
            ),
            None => match git::commit("HEAD^") {
                Some(parent) => (
                    Some(git::changed_since(&parent)?),
                    format!("{}, the commit before", short(&parent)),
                ),
                None => (None, "no earlier commit in this clone".to_owned()),
            },
        };
        let mut affected = Self::of(&workspace, reach, &changed.clone().unwrap_or_default());
        affected.rare.since = since;
        if changed.is_none() {
            affected.rare.changed = None;
        }
        if green.is_none() {
            affected.everything = Some("no green run is on record here".to_owned());
        }
        if let Some(reason) = everything {
            affected.everything = Some(reason.to_owned());
            affected.rare.is_everything = true;
        }
        Ok(affected)
    }

    fn of(workspace: &Workspace, reach: Reach, changed: &BTreeSet<String>) -> Self {
        let mut affected = Self {
            everything: None,
            packages: BTreeMap::new(),
            programs: BTreeMap::new(),
            reach,
            rare: Rare::default(),
        };
        let mut packages = BTreeSet::new();
        for path in changed {
            affected.rare.has_statistics |=
                STATISTICS.iter().any(|folder| path.starts_with(folder));
            let is_runner = RUNNER.contains(&path.as_str());
            if let Some(package) = workspace.package_of(path).filter(|_| !is_runner) {
                packages.insert(package.to_owned());
                continue;
            }
            if path.starts_with(LIBFUZZER) && !path.starts_with(CORPORA) {
                packages.insert(LIBFUZZER_PACKAGE.to_owned());
            }
            let Some(readers) = affected.reach.readers(path) else {
                affected.everything = Some(format!("{path} is of the workspace as a whole"));
                affected.rare.is_everything = true;
                continue;
            };
            for reader in readers {
                if reader.contains('/') {
                    (affected.programs).insert(reader.clone(), path.clone());
                } else {
                    let reached = affected.packages.entry(reader.clone()).or_default();
                    reached.insert(path.clone());
                }
            }
        }
        for package in &packages {
            let mut reached = workspace.dependents(package);
            let at_run_time = reached
                .iter()
                .filter_map(|name| affected.reach.run_time.get(name));
            let at_run_time: Vec<String> = at_run_time.flatten().cloned().collect();
            reached.extend(at_run_time);
            for dependent in reached {
                let reached = affected.packages.entry(dependent).or_default();
                reached.insert(package.clone());
            }
        }
        affected.rare.changed = Some(packages);
        affected
    }

    /// Why a test program of a package has to run; `None`: the change does not reach it.
    pub fn reason(&self, package: &str, program: &str) -> Option<String> {
        if let Some(reason) = &self.everything {
            return Some(reason.clone());
        }
        if let Some(path) = self.programs.get(&format!("{package}/{program}")) {
            return Some(format!("{path} changed"));
        }
        self.reason_among(package, |changed| {
            let only = self.reach.reach.get(changed);
            package != NODE_TESTS || only.is_none_or(|only| only.iter().any(|name| name == program))
        })
    }

    /// Why anything of a package has to run.
    pub fn package_reason(&self, package: &str) -> Option<String> {
        if let Some(reason) = &self.everything {
            return Some(reason.clone());
        }
        self.reason_among(package, |_| true)
    }

    /// The changes that reach a package, of those that pass; `None`: there is none.
    fn reason_among(&self, package: &str, passes: impl Fn(&str) -> bool) -> Option<String> {
        let changed = self.packages.get(package)?.iter().map(String::as_str);
        let changed: Vec<&str> = changed.filter(|changed| passes(changed)).collect();
        (!changed.is_empty()).then(|| format!("{} changed", changed.join(", ")))
    }
}

/// The lab's statistics, and the code that judges by them.
const STATISTICS: [&str; 3] = [
    "crates/steppe-lab/src/stats",
    "crates/steppe-lab/src/judge",
    "crates/steppe-lab/tests/simulation",
];
/// Files that decide what runs: a mistake there would hide other mistakes, so everything runs.
const RUNNER: [&str; 6] = [
    "xtask/reach.toml",
    "xtask/src/affected.rs",
    "xtask/src/jobs.rs",
    "xtask/src/programs.rs",
    "xtask/src/tiers.rs",
    "xtask/src/workspace.rs",
];
/// The workspace of libFuzzer's programs; its library and its corpora are of the main one.
const LIBFUZZER: &str = "fuzz/";
const LIBFUZZER_PACKAGE: &str = "steppe-fuzz";
/// Ordinary tests replay them.
const CORPORA: &str = "fuzz/corpus/";

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// The record of the last green run, in the target directory.
#[derive(Serialize, Deserialize)]
pub struct Green {
    commit: String,
}

impl Green {
    fn read() -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::path()).ok()?).ok()
    }

    /// The commit that a run which starts now can show to be green: none with changes that are not committed.
    pub fn candidate() -> Option<Self> {
        let commit = git::head().filter(|_| git::is_clean())?;
        Some(Self { commit })
    }

    /// Puts it on record, unless the checkout changed since the run began.
    ///
    /// # Errors
    /// The record can't be written.
    pub fn record(&self) -> Result<()> {
        let is_same = Self::candidate().is_some_and(|now| now.commit == self.commit);
        if is_same {
            fs::write(Self::path(), serde_json::to_vec(self)?)?;
        }
        Ok(())
    }

    fn path() -> PathBuf {
        process::target_directory().join("first-tier-green.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::testing::workspace;

    fn affected(changed: &[&str]) -> Affected {
        let workspace = workspace(&[
            ("mem", "crates/mem", &[]),
            ("plane", "crates/plane", &["mem"]),
            ("node", "crates/node", &["mem", "plane"]),
            ("steppe", "crates/steppe", &["node"]),
            ("lab", "crates/lab", &[]),
            ("audio", "clients/audio", &[]),
        ]);
        let reach = Reach {
            files: [
                ("docs/", vec!["lab"]),
                ("docs/adr/", vec![]),
                ("examples/plane.toml", vec!["steppe/plane"]),
            ]
            .map(|(key, readers)| {
                (
                    key.to_owned(),
                    readers.into_iter().map(str::to_owned).collect(),
                )
            })
            .into(),
            reach: [("plane".to_owned(), vec!["plane".to_owned()])].into(),
            run_time: [("steppe".to_owned(), vec!["audio".to_owned()])].into(),
        };
        let changed = changed.iter().map(|&path| path.to_owned()).collect();
        Affected::of(&workspace, reach, &changed)
    }

    #[test]
    fn a_package_reaches_its_dependents_and_no_other() {
        let affected = affected(&["crates/mem/src/lib.rs"]);
        assert_eq!(affected.everything, None);
        let reason = Some("mem changed".to_owned());
        assert_eq!(affected.reason("steppe", "dns"), reason);
        assert_eq!(affected.reason("plane", "calls"), reason);
        assert_eq!(affected.reason("lab", "lab"), None);
        assert_eq!(affected.package_reason("audio"), reason);
        assert!(affected.rare.has("mem") && !affected.rare.has("plane"));
    }

    #[test]
    fn a_leaf_reaches_the_programs_that_the_table_names() {
        let affected = affected(&["crates/plane/src/lib.rs"]);
        assert!(affected.reason("steppe", "plane").is_some());
        assert_eq!(affected.reason("steppe", "dns"), None);
        assert!(affected.reason("node", "node").is_some());
        let audio = affected.package_reason("audio");
        assert_eq!(audio.as_deref(), Some("plane changed"));
        let both = self::affected(&["crates/plane/src/lib.rs", "crates/mem/src/lib.rs"]);
        assert_eq!(
            both.reason("steppe", "plane").as_deref(),
            Some("mem, plane changed")
        );
        assert_eq!(both.reason("steppe", "dns").as_deref(), Some("mem changed"));
    }

    #[test]
    fn files_of_no_package_reach_their_readers() {
        let docs = affected(&["docs/lab.md", "docs/adr/0001-a.md"]);
        assert_eq!(
            docs.reason("lab", "lab").as_deref(),
            Some("docs/lab.md changed")
        );
        assert_eq!(docs.reason("steppe", "dns"), None);
        let example = affected(&["examples/plane.toml"]);
        assert!(example.reason("steppe", "plane").is_some());
        assert_eq!(example.reason("steppe", "dns"), None);
    }

    #[test]
    fn programs_of_libfuzzer_are_built_and_corpora_are_replayed() {
        let reach = |path: &str| {
            let changed = BTreeSet::from([path.to_owned()]);
            Affected::of(
                &Workspace::read().unwrap(),
                Reach::read().unwrap(),
                &changed,
            )
        };
        let program = reach("fuzz/fuzz_targets/path.rs");
        assert!(program.rare.has("steppe-fuzz") && !program.rare.is_everything);
        let seed = reach("fuzz/corpus/path/new");
        assert_eq!(seed.rare.changed, Some(BTreeSet::new()));
        assert!(seed.reason("steppe-fuzz-targets", "replay").is_some());
    }

    #[test]
    fn a_root_and_an_unplaced_file_reach_everything() {
        for path in ["Cargo.lock", "examples/new.toml", "xtask/src/tiers.rs"] {
            let affected = affected(&[path]);
            let reason = affected.reason("lab", "lab");
            assert!(reason.is_some_and(|reason| reason.starts_with(path)));
            assert!(affected.rare.has("mem"));
        }
    }

    #[test]
    fn the_table_names_what_there_is() {
        let (reach, workspace) = (Reach::read().unwrap(), Workspace::read().unwrap());
        for (key, readers) in &reach.files {
            assert!(process::root().join(key).exists(), "no {key}");
            for reader in readers {
                let package = reader.split('/').next().unwrap();
                assert!(workspace.package(package).is_some(), "no package {package}");
            }
        }
        for (package, packages) in &reach.run_time {
            let mut named = packages.iter().chain([package]);
            assert!(named.all(|name| workspace.package(name).is_some()));
        }
        for (package, programs) in &reach.reach {
            assert!(workspace.package(package).is_some(), "no package {package}");
            for program in programs {
                let tests = process::root().join("crates/steppe/tests");
                let is_there = tests.join(program).join("main.rs").exists()
                    || tests.join(format!("{program}.rs")).exists();
                assert!(is_there, "no test program {program}");
            }
        }
    }
}
