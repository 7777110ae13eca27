//! Dependencies between our own crates point down only.

use super::Finding;
use super::tree::{SourceFile, Tree};

/// What each crate may link of ours. A crate that is missing here may link none of them, which is
/// said too: a new crate gets its line.
const BELOW: [(&str, &[&str]); 21] = [
    // The ground: an allocator of ours knows nothing of ours.
    ("steppe-malloc", &[]),
    ("steppe-malloc-abi", &["steppe-malloc"]),
    ("steppe-mem", &[]),
    ("steppe-telemetry", &["steppe-mem"]),
    ("steppe-net", &["steppe-mem"]),
    (
        "steppe-http",
        &["steppe-mem", "steppe-telemetry", "steppe-net"],
    ),
    (
        "steppe-dns",
        &["steppe-mem", "steppe-telemetry", "steppe-net"],
    ),
    ("steppe-etcd", &["steppe-net"]),
    (
        "steppe-plane",
        &[
            "steppe-mem",
            "steppe-telemetry",
            "steppe-net",
            "steppe-etcd",
        ],
    ),
    (
        "steppe-node",
        &[
            "steppe-malloc",
            "steppe-mem",
            "steppe-telemetry",
            "steppe-net",
            "steppe-http",
            "steppe-dns",
            "steppe-etcd",
            "steppe-plane",
        ],
    ),
    // The binary; all but the first for its integration tests.
    (
        "steppe",
        &[
            "steppe-node",
            "steppe-mem",
            "steppe-net",
            "steppe-http",
            "steppe-dns",
            "steppe-plane",
        ],
    ),
    // It watches any process, and is released alone.
    ("steppe-lab", &[]),
    ("steppe-testkit", &[]),
    // An addon of Node.js, released alone.
    ("steppe-audio", &[]),
    ("steppe-bench", &["steppe-testkit", "steppe-net"]),
    // The allocator under them is preloaded.
    ("steppe-malloc-load", &[]),
    ("plane-peers", &["steppe-mem", "steppe-plane"]),
    ("steppe-malloc-peers", &[]),
    ("steppe-fuzz", &["steppe-fuzz-targets"]),
    (
        "steppe-fuzz-targets",
        &[
            "steppe-malloc",
            "steppe-mem",
            "steppe-telemetry",
            "steppe-net",
            "steppe-http",
            "steppe-dns",
            "steppe-plane",
            "steppe-node",
        ],
    ),
    ("xtask", &[]),
];

/// For tests only, so from any crate.
const TESTKIT: &str = "steppe-testkit";

/// Checks every manifest.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending("Cargo.toml")
        .flat_map(|file| match file.text.parse() {
            Ok(manifest) => check_manifest(file, &manifest),
            Err(error) => vec![Finding::new(&file.path, 0, format!("not TOML: {error}"))],
        })
        .collect()
}

fn check_manifest(file: &SourceFile, manifest: &toml::Table) -> Vec<Finding> {
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name")?.as_str());
    // A virtual manifest links nothing.
    let Some(name) = name else { return Vec::new() };
    let Some((_, below)) = BELOW.iter().find(|(crate_name, _)| *crate_name == name) else {
        let message = format!("crate '{name}' has no line in xtask/src/tidy/arrows.rs");
        return vec![Finding::new(&file.path, 0, message)];
    };
    let is_allowed = |kind: &str, dependency: &str| {
        below.contains(&dependency) || (kind == "dev-dependencies" && dependency == TESTKIT)
    };
    own_dependencies(manifest)
        .into_iter()
        .filter(|(kind, dependency)| !is_allowed(kind, dependency))
        .map(|(kind, dependency)| {
            let message =
                format!("'{name}' may not link '{dependency}' ({kind}): arrows point down");
            Finding::new(&file.path, 0, message)
        })
        .collect()
}

/// Our own crates among the dependencies, by kind, those of `[target.…]` tables too.
fn own_dependencies(table: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let names = table.get(kind).and_then(|kind| kind.as_table());
        let names = names
            .into_iter()
            .flat_map(|names| names.iter().map(|(name, _)| name.to_owned()));
        let ours = names.filter(|name| BELOW.iter().any(|(ours, _)| ours == name));
        found.extend(ours.map(|name| (kind.to_owned(), name)));
    }
    let targets = table.get("target").and_then(|targets| targets.as_table());
    for (_, target) in targets.into_iter().flat_map(toml::Table::iter) {
        found.extend(target.as_table().map(own_dependencies).unwrap_or_default());
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
