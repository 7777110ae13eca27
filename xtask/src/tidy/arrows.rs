//! Dependencies between our own crates point down only, as `arrows.toml` has them.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::tree::Tree;

/// Checks every manifest. A virtual one links nothing.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let below: BTreeMap<String, Vec<String>> =
        toml::from_str(include_str!("arrows.toml")).expect("arrows.toml is a table");
    let mut findings = Vec::new();
    for file in tree.ending("Cargo.toml") {
        let manifest: toml::Table = file.text.parse().unwrap_or_default();
        let package = manifest.get("package");
        let Some(name) = package.and_then(|package| package.get("name")?.as_str()) else {
            continue;
        };
        let mut add = |message| findings.push(Finding::new(&file.path, 0, message));
        let Some(allowed) = below.get(name) else {
            add(format!(
                "crate '{name}' has no line in xtask/src/tidy/arrows.toml"
            ));
            continue;
        };
        for (kind, ours) in dependencies(&manifest) {
            let is_for_tests = kind == "dev-dependencies" && ours == "steppe-testkit";
            let is_allowed = is_for_tests || allowed.iter().any(|name| name == ours);
            if below.contains_key(ours) && !is_allowed {
                add(format!(
                    "'{name}' may not link '{ours}' ({kind}): arrows point down"
                ));
            }
        }
    }
    findings
}

/// The dependencies by kind, those of `[target.…]` tables too.
fn dependencies(table: &toml::Table) -> Vec<(&'static str, &str)> {
    let mut found = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let names = table.get(kind).and_then(|kind| kind.as_table());
        let names = names.into_iter().flat_map(toml::Table::keys);
        found.extend(names.map(|name| (kind, &name[..])));
    }
    let targets = table.get("target").and_then(|targets| targets.as_table());
    for (_, target) in targets.into_iter().flatten() {
        found.extend(target.as_table().map(dependencies).unwrap_or_default());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(manifest: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/x/Cargo.toml", manifest)]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn arrows_down_are_fine() {
        let manifest = "[package]\nname = 'steppe-http'\n[dependencies]\nsteppe-mem.workspace = true\n\
                        bytes = '1'\n[dev-dependencies]\nsteppe-testkit.workspace = true\n";
        assert_eq!(messages(manifest), Vec::<String>::new());
        assert!(messages("[workspace.dependencies]\nsteppe-node = { path = 'x' }\n").is_empty());
    }

    #[test]
    fn arrows_up_are_found() {
        for table in [
            "dependencies",
            "dev-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let manifest = format!(
                "[package]\nname = 'steppe-http'\n[{table}]\nsteppe-node = {{ path = 'x' }}\n"
            );
            let found = messages(&manifest);
            assert_eq!(found.len(), 1, "{table}");
            assert!(
                found[0].starts_with("'steppe-http' may not link 'steppe-node'"),
                "{}",
                found[0]
            );
        }
        let manifest = "[package]\nname = 'steppe-net'\n[dependencies]\nsteppe-testkit = '0'\n";
        assert_eq!(messages(manifest).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert!(messages("[package]\nname = 'steppe-new'\n")[0].contains("has no line"));
    }
}
