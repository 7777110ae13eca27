//! Documents name no machine of ours: no path of somebody's disk, no host of a package registry.
//!
//! A reader has another disk, and maybe a mirror. Source and scripts are not judged: some must
//! name a host to reach it.

use super::Finding;
use super::tree::{SourceFile, Tree};

const PATHS: [&str; 6] = [
    "/home/",
    "/root/",
    "/Users/",
    "/work/",
    "/workspace/",
    "/mnt/",
];

const HOSTS: [&str; 7] = [
    "crates.io",
    "pypi.org",
    "pythonhosted.org",
    "registry.npmjs.org",
    "proxy.golang.org",
    "repo.maven.apache.org",
    "deb.debian.org",
];

/// Checks every Markdown file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".md").flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let find = |(number, line): (usize, &str)| {
        let path = PATHS
            .iter()
            .find(|path| begins_in(line, path))
            .map(|path| (path, "a path of one machine"));
        let host = HOSTS
            .iter()
            .find(|host| line.contains(**host))
            .map(|host| (host, "the host of a registry"));
        let (name, what) = path.or(host)?;
        Some(Finding::new(
            &file.path,
            number,
            format!("'{name}' is {what}"),
        ))
    };
    file.lines().filter_map(find).collect()
}

/// Whether an absolute path that starts with `start` begins in this line.
fn begins_in(line: &str, start: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | '~');
    line.match_indices(start)
        .any(|(at, _)| !line[..at].ends_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(
            count("README.md", "run `/home/jo/steppe`\nfine\nin /root/x"),
            2
        );
        assert_eq!(
            count(
                "README.md",
                "/etc/steppe, example.com/home/x, ./work/x, docs/root/"
            ),
            0
        );
        assert_eq!(count("src/a.rs", "/home/jo"), 0);
    }

    #[test]
    fn hosts_of_registries_are_found() {
        for host in HOSTS {
            assert_eq!(
                count("docs/a.md", &format!("see https://{host}/x")),
                1,
                "{host}"
            );
        }
    }
}
