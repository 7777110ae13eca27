//! Relative links in Markdown lead to files, and to headings, that exist.

use super::Finding;
use super::markdown::{Heading, headings, links};
use super::tree::Tree;

/// Checks the links of every Markdown file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.ending(".md");
    let links = files.flat_map(|file| {
        links(&file.text)
            .into_iter()
            .map(|(line, target)| (file.path.as_str(), line, target))
    });
    let broken = links.filter_map(|(path, line, target)| {
        let complaint = complaint(tree, path, &target)?;
        Some(Finding::new(path, line, complaint))
    });
    broken.collect()
}

fn complaint(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let leads_outside = target.contains("://") || target.starts_with("mailto:");
    if leads_outside {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() {
        from.to_owned()
    } else {
        resolved(from, path)
    };
    if !tree.has(&path) {
        return Some(format!("link to '{target}', which is not there"));
    }
    let has_anchor = |text: &str| {
        headings(text)
            .iter()
            .map(Heading::anchor)
            .any(|a| a == anchor)
    };
    let leads_nowhere = !anchor.is_empty()
        && path.ends_with(".md")
        && tree.file(&path).is_some_and(|file| !has_anchor(&file.text));
    leads_nowhere.then(|| format!("link to '{target}': '{path}' has no such heading"))
}

/// `to`, seen from the directory of the file `from`; from the root when it begins with `/`.
fn resolved(from: &str, to: &str) -> String {
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let base = if to.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = Vec::new();
    for part in base
        .split('/')
        .chain(to.split('/'))
        .filter(|part| !matches!(*part, "" | "."))
    {
        if part == ".." && !matches!(parts.last(), None | Some(&"..")) {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(readme: &str) -> Vec<String> {
        let glossary = (
            "docs/glossary.md",
            "# Words\n## Hop-by-hop\nSee [up](../README.md).\n",
        );
        let tree = Tree::of(&[("README.md", readme), glossary]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn good_links_are_fine() {
        let readme = "# Top\n[a](docs/glossary.md#hop-by-hop) [b](#top) [c](docs) [d](/docs/) \
                      [e](https://example.com/x) [f](mailto:a@example.com)";
        assert_eq!(messages(readme), Vec::<String>::new());
    }

    #[test]
    fn links_to_nothing_are_found() {
        assert_eq!(
            messages("[a](docs/adr.md)"),
            ["link to 'docs/adr.md', which is not there"]
        );
        assert!(messages("[a](../other/README.md)")[0].contains("not there"));
    }

    #[test]
    fn anchors_to_nothing_are_found() {
        assert!(messages("[a](docs/glossary.md#hop)")[0].ends_with("has no such heading"));
        assert!(messages("[a](#top)")[0].ends_with("has no such heading"));
    }
}
