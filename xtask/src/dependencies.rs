//! Checks of the workspaces' dependencies: licenses and versions by `cargo tree` and the lists of `deny.toml`, and
//! sources, which are crates.io or a folder.
//!
//! cargo-deny judges more by the same lists (advisories, wildcards, unused exceptions), and takes minutes to build: it
//! is a step of `make test-all`, this one of every change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::process;
use crate::report::Outcome;

/// The lists of `deny.toml` by which packages are judged.
#[derive(Deserialize)]
struct Lists {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skipped>,
}

/// A second version of a crate that is allowed.
#[derive(Deserialize)]
struct Skipped {
    /// `NAME@VERSION`, whose version may leave its last parts out.
    #[serde(rename = "crate")]
    name_and_version: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
    /// True if the source is a folder or crates.io.
    is_known: bool,
}

/// Judges the packages of these manifests.
///
/// # Errors
/// Each package that violates `deny.toml`, with the violation.
pub fn check(manifests: &[&str]) -> Result<Outcome> {
    let lists: Lists = toml::from_str(&fs::read_to_string(process::root().join("deny.toml"))?)?;
    let mut wrong = Vec::new();
    for manifest in manifests {
        let packages = packages(manifest, &lists.graph.targets)?;
        let found = findings(&packages, &lists);
        wrong.extend(found.iter().map(|finding| format!("{manifest}: {finding}")));
    }
    if node_features()?.contains(STOPS_THE_CLOCK) {
        wrong.push(format!(
            "package steppe: tokio has `{STOPS_THE_CLOCK}`, which is for test programs (ADR 0031)"
        ));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(Outcome::Passed)
}

/// A feature of tokio that lets programs stop its clock, and makes each reading of the clock take a lock.
const STOPS_THE_CLOCK: &str = "test-util";

/// The dependents of tokio in the node, with the features that they enable, as `cargo tree` prints them.
fn node_features() -> Result<String> {
    let arguments = [
        "tree",
        "--locked",
        "--package",
        "steppe",
        "--invert",
        "tokio",
    ];
    let text = process::output(process::cargo(&arguments).arg("--edges=normal,features"))?;
    ensure!(
        text.contains("tokio feature"),
        "cargo tree names no feature"
    );
    Ok(text)
}

fn packages(manifest: &str, targets: &[String]) -> Result<BTreeSet<Package>> {
    let arguments = [
        "tree",
        "--locked",
        "--workspace",
        "--all-features",
        "--edges=normal,build,dev",
        "--prefix=none",
    ];
    let mut tree = process::cargo(&arguments);
    tree.args(["--format={p}|{l}", "--manifest-path", manifest]);
    for target in targets {
        tree.args(["--target", target]);
    }
    let text = process::output(&mut tree)?;
    let lines = text.lines().filter(|line| !line.is_empty());
    let packages = lines
        .map(|line| Package::parse(line).with_context(|| format!("cargo tree: {line}")))
        .collect::<Result<BTreeSet<_>>>()?;
    ensure!(!packages.is_empty(), "cargo tree names no package");
    Ok(packages)
}

impl Package {
    /// `libc v0.2.177|MIT OR Apache-2.0`, where a source, if it is not crates.io, and `proc-macro` are in parentheses behind
    /// the version, as `*` is behind the license of a package that was named before.
    fn parse(line: &str) -> Option<Self> {
        let (package, license) = line.split_once('|')?;
        let package = package.trim_end_matches(" (proc-macro)");
        let mut parts = package.splitn(3, ' ');
        let (name, version) = (parts.next()?, parts.next()?.strip_prefix('v')?);
        let is_known = parts.next().is_none_or(|source| source.starts_with("(/"));
        Some(Self {
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.trim_end_matches(" (*)").to_owned(),
            is_known,
        })
    }
}

fn findings(packages: &BTreeSet<Package>, lists: &Lists) -> Vec<String> {
    let allowed: BTreeSet<Vec<String>> = (lists.licenses.allow.iter())
        .map(|license| words(license))
        .collect();
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Package {
        name,
        version,
        license,
        is_known,
    } in packages
    {
        if !is_known {
            found.push(format!("{name} {version} is not of crates.io"));
        }
        match is_allowed(license, &allowed) {
            Ok(true) => {}
            Ok(false) => found.push(format!(
                "{name} {version} has a license that deny.toml does not allow: {license}"
            )),
            Err(error) => found.push(format!(
                "{name} {version}: {license:?} is no license: {error}"
            )),
        }
        let is_skipped = (lists.bans.skip.iter()).any(|skipped| skipped.covers(name, version));
        if !is_skipped {
            versions.entry(name).or_default().insert(version);
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 {
            found.push(format!("{name} has more than one version: {versions:?}; deny.toml can name who needs the older one"));
        }
    }
    found
}

impl Skipped {
    fn covers(&self, name: &str, version: &str) -> bool {
        let Some((its_name, its_version)) = self.name_and_version.split_once('@') else {
            return self.name_and_version == name;
        };
        let rest = version.strip_prefix(its_version);
        its_name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

fn is_allowed(license: &str, allowed: &BTreeSet<Vec<String>>) -> Result<bool> {
    // Older crates write `MIT/Apache-2.0` for `OR`.
    let expression = Expression::parse_mode(license, ParseMode::LAX)
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(expression.evaluate(|asked| allowed.contains(&words(&asked.to_string()))))
}

/// The words of a license such as `Apache-2.0 WITH LLVM-exception`, in any spacing.
fn words(license: &str) -> Vec<String> {
    license.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists() -> Lists {
        Lists {
            graph: Graph {
                targets: Vec::new(),
            },
            licenses: Licenses {
                allow: ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
                    .map(str::to_owned)
                    .into(),
            },
            bans: Bans {
                skip: vec![Skipped {
                    name_and_version: "rand@0.9".to_owned(),
                }],
            },
        }
    }

    #[track_caller]
    fn found(lines: &[&str]) -> String {
        let packages = lines
            .iter()
            .map(|line| Package::parse(line).expect("a package"));
        findings(&packages.collect(), &lists()).join("\n")
    }

    #[test]
    fn licenses_are_those_of_the_list() {
        for allowed in [
            "MIT",
            "MIT OR GPL-3.0-only (*)",
            "Unlicense/MIT",
            "(MIT OR ISC) AND Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(found(&[&format!("a v1.0.0|{allowed}")]), "", "{allowed}");
        }
        for refused in ["GPL-3.0-only", "MIT AND ISC", "MIT WITH LLVM-exception"] {
            let said = found(&[&format!("a v1.0.0|{refused}")]);
            assert!(
                said.starts_with("a 1.0.0 has a license that"),
                "{refused}: {said}"
            );
        }
        let said = found(&["a v1.0.0|", "b v1.0.0|GPL-3.0-only"]);
        assert!(said.starts_with("a 1.0.0: \"\" is no license"), "{said}");
        assert!(said.contains("\nb 1.0.0 has a license"), "{said}");
    }

    #[test]
    fn a_second_version_is_named_unless_it_is_known() {
        assert_eq!(found(&["rand v0.9.2|MIT", "rand v0.10.0|MIT"]), "");
        let said = found(&["rand v0.8.5|MIT", "rand v0.9.2|MIT", "rand v0.10.0|MIT"]);
        assert!(said.contains(r#"{"0.10.0", "0.8.5"}"#), "{said}");
        let said = found(&["rand v0.91.0|MIT", "rand v0.10.0|MIT"]);
        assert!(said.starts_with("rand has more than one version"), "{said}");
    }

    #[test]
    fn crates_come_from_the_registry_or_the_checkout() {
        assert_eq!(
            found(&[
                "a v1.0.0 (proc-macro)|MIT",
                "b v0.1.0 (/my steppe/b) (proc-macro)|MIT"
            ]),
            ""
        );
        for source in ["https://example.org/a#0123abcd", "registry `other`"] {
            let said = found(&[&format!("a v1.0.0 ({source})|MIT")]);
            assert_eq!(said, "a 1.0.0 is not of crates.io", "{source}");
        }
    }
}
