//! Documents: the glossary, the decision records, links, and what no document names.
//!
//! A term of the glossary is a heading of the second level. A reader has another machine than ours,
//! and maybe a mirror of a registry. Of Markdown, HTML and headings that are underlined are not read.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::tree::{SourceFile, Tree, has_word, numbered};

const GLOSSARY: &str = "docs/glossary.md";
const RECORDS: &str = "docs/adr/";

const PATHS: &str = "/home/ /root/ /Users/ /work/ /workspace/ /mnt/";
const HOSTS: &str = "crates.io pypi.org pythonhosted.org registry.npmjs.org proxy.golang.org \
                     repo.maven.apache.org deb.debian.org";
/// Notes to oneself; spelled in two so that this file is none.
const NOTES: &str = concat!("TO", "DO FIX", "ME XX", "X");
/// Endings of the files that people write.
const WRITTEN: [&str; 7] = [".rs", ".toml", ".md", ".sh", ".yml", ".json", "Makefile"];

/// The glossary has each term once, in alphabetical order, each defined.
pub fn check_glossary(tree: &Tree) -> Vec<Finding> {
    let text = tree.file(GLOSSARY).map_or("", |file| &file.text);
    let mut terms = headings(text);
    terms.retain(|heading| heading.level == 2);
    let mut findings = Vec::new();
    let mut add = |line, message: String| findings.push(Finding::new(GLOSSARY, line, message));
    if terms.is_empty() {
        add(0, "defines no term: a term is a `##` heading".to_owned());
    }
    for pair in terms.windows(2) {
        let [before, term] = [&pair[0].text, &pair[1].text];
        if before.to_lowercase() >= term.to_lowercase() {
            add(pair[1].line, format!("'{term}' stands after '{before}'"));
        }
    }
    for term in terms {
        let mut below = text.lines().skip(term.line);
        let below = below.find(|line| !line.trim().is_empty());
        if below.is_none_or(|line| line.starts_with('#')) {
            add(term.line, format!("'{}' has no definition", term.text));
        }
    }
    findings
}

/// Decision records are numbered without a gap, each with its four sections.
pub fn check_records(tree: &Tree) -> Vec<Finding> {
    let is_record =
        |file: &&SourceFile| file.path.starts_with(RECORDS) && !file.path.ends_with("README.md");
    let mut records: Vec<&SourceFile> = tree.ending(".md").filter(is_record).collect();
    records.sort_by_key(|file| &file.path);
    let sections = ["Context", "Decision", "Consequences", "Alternatives"];
    let mut findings = Vec::new();
    for (number, file) in (1..).zip(records) {
        let mut add = |line, message| findings.push(Finding::new(&file.path, line, message));
        let prefix = format!("{RECORDS}{number:04}-");
        let title = format!("# {number:04}: ");
        let found = headings(&file.text);
        let is_missing = |section: &&&str| found.iter().all(|heading| heading.text != **section);
        if !file.path.starts_with(&prefix) {
            let due = format!("the next record is {number:04}: '{prefix}title.md'");
            add(0, due);
        } else if !file.text.starts_with(&title) {
            add(1, format!("begins with '{title}' and its title"));
        }
        if let Some(section) = sections.iter().find(is_missing) {
            add(0, format!("has no section '{section}'"));
        }
    }
    findings
}

/// Relative links lead to files, and to headings, that exist.
pub fn check_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".md") {
        for (line, target) in links(&file.text) {
            let complaint = broken(tree, &file.path, &target);
            findings.extend(complaint.map(|message| Finding::new(&file.path, line, message)));
        }
    }
    findings
}

/// Links to other sites, without their anchors.
pub fn outside_links(tree: &Tree) -> BTreeSet<String> {
    let targets = tree.ending(".md").flat_map(|file| links(&file.text));
    let outside = targets.filter(|(_, target)| is_of_other_site(target));
    let pages = outside.map(|(_, target)| target.split('#').next().unwrap_or_default().to_owned());
    pages.collect()
}

fn is_of_other_site(target: &str) -> bool {
    target.contains("://")
}

fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => from.to_owned(),
        path => resolved(from, path),
    };
    let leads_outside = is_of_other_site(target) || target.starts_with("mailto:");
    if leads_outside || tree.has(&path) && (anchor.is_empty() || !path.ends_with(".md")) {
        return None;
    }
    let Some(file) = tree.file(&path) else {
        return Some(format!("link to '{target}', which is not there"));
    };
    let found = headings(&file.text);
    let is_there = found.iter().any(|heading| self::anchor(heading) == anchor);
    (!is_there).then(|| format!("link to '{target}': '{path}' has no such heading"))
}

/// `to`, seen from the directory of the file `from`; from the root when it begins with `/`.
fn resolved(from: &str, to: &str) -> String {
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let base = if to.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(to.split('/')) {
        if part == ".." && !matches!(parts.last(), None | Some(&"..")) {
            parts.pop();
        } else if !matches!(part, "" | ".") {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// No document names a path of one machine or the host of a registry, no text a note to oneself.
pub fn check_words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in WRITTEN.iter().flat_map(|end| tree.ending(end)) {
        let is_md = file.path.ends_with(".md");
        let (paths, hosts) = if is_md { (PATHS, HOSTS) } else { ("", "") };
        for (number, line) in numbered(&file.text) {
            let mut add = |message| findings.push(Finding::new(&file.path, number, message));
            for path in paths
                .split_whitespace()
                .filter(|path| begins_in(line, path))
            {
                add(format!("'{path}' is a path of one machine"));
            }
            for host in hosts.split_whitespace().filter(|host| line.contains(host)) {
                add(format!("'{host}' is the host of a registry"));
            }
            for note in NOTES.split(' ').filter(|note| has_word(line, note)) {
                add(format!("stray {note}: do it, or file it"));
            }
        }
    }
    findings
}

/// Tells an absolute path that starts with `start` from the middle of another one.
fn begins_in(line: &str, start: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | '~');
    let mut starts = line.match_indices(start);
    starts.any(|(at, _)| !line[..at].ends_with(continues))
}

/// A text without its code: fenced blocks and code spans are gone, line breaks stay.
fn prose_of(text: &str) -> String {
    let mut in_fence = false;
    let mut prose = String::with_capacity(text.len());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            prose.extend(line.split('`').step_by(2));
        }
        prose.push('\n');
    }
    prose
}

struct Heading {
    line: usize,
    level: usize,
    text: String,
}

/// The name of a heading in links.
fn anchor(heading: &Heading) -> String {
    let mut anchor = heading.text.to_lowercase().replace(' ', "-");
    anchor.retain(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    anchor
}

/// Headings, outside of code.
fn headings(text: &str) -> Vec<Heading> {
    let prose = prose_of(text);
    // Code spans are gone from the prose; in headings they count as text.
    let lines = numbered(text).zip(prose.lines());
    let heading = |((line, text), prose): ((usize, &str), &str)| {
        let level = prose.chars().take_while(|&c| c == '#').count();
        let text = text.get(level..)?.strip_prefix(' ').filter(|_| level > 0)?;
        let text = text.trim().replace('`', "");
        Some(Heading { line, level, text })
    };
    lines.filter_map(heading).collect()
}

/// Targets of links and images, with their lines: `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in numbered(&prose_of(text)) {
        let inline = line.split("](").skip(1).map(|rest| rest.split(')').next());
        let defined = line.split_once("]: ").filter(|_| line.starts_with('['));
        let targets = inline.flatten().chain(defined.map(|(_, target)| target));
        // A title may follow the target.
        let targets = targets.filter_map(|target| target.split_whitespace().next());
        links.extend(targets.map(|target| (number, target.trim_matches(['<', '>']).to_owned())));
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(Finding::to_string).collect()
    }

    fn glossary(text: &str) -> Vec<String> {
        let findings = check_glossary(&Tree::of(&[(GLOSSARY, text)])).into_iter();
        findings.map(|finding| finding.message).collect()
    }

    #[test]
    fn terms_in_order_are_fine() {
        assert!(glossary("# Glossary\n\n## Account\nA sum.\n\n## budget\nA bound.\n").is_empty());
    }

    #[test]
    fn disorder_and_repetition_are_found() {
        assert_eq!(glossary("## B\nx\n## A\ny\n"), ["'A' stands after 'B'"]);
        assert_eq!(glossary("## A\nx\n## a\ny\n"), ["'a' stands after 'A'"]);
    }

    #[test]
    fn a_term_without_definition_is_found() {
        assert_eq!(glossary("## A\n\n## B\ny\n"), ["'A' has no definition"]);
        assert_eq!(glossary("## A\ny\n## B\n"), ["'B' has no definition"]);
    }

    #[test]
    fn an_empty_or_missing_glossary_is_found() {
        assert_eq!(glossary("# Glossary\n").len(), 1);
        assert_eq!(check_glossary(&Tree::default()).len(), 1);
    }

    fn record(number: &str) -> String {
        format!("# {number}: T\n## Context\n## Decision\n## Consequences\n## Alternatives\n")
    }

    fn records(files: &[(&str, &str)]) -> Vec<String> {
        messages(check_records(&Tree::of(files)))
    }

    #[test]
    fn records_in_a_row_are_fine() {
        let (one, two) = (record("0001"), record("0002"));
        let files = [
            ("docs/adr/README.md", "about"),
            ("docs/adr/0001-a.md", one.as_str()),
            ("docs/adr/0002-b.md", &two),
        ];
        assert_eq!(records(&files), Vec::<String>::new());
    }

    #[test]
    fn gaps_repetitions_and_wrong_titles_are_found() {
        let (one, three) = (record("0001"), record("0003"));
        let gap = [
            ("docs/adr/0001-a.md", one.as_str()),
            ("docs/adr/0003-b.md", &three),
        ];
        assert!(records(&gap)[0].contains("the next record is 0002"));
        let twice = [
            ("docs/adr/0001-a.md", one.as_str()),
            ("docs/adr/0001-b.md", &one),
        ];
        assert!(records(&twice)[0].contains("0001-b.md: the next record is 0002"));
        assert!(records(&[("docs/adr/0001-a.md", &three)])[0].contains("begins with '# 0001: '"));
    }

    #[test]
    fn a_missing_section_is_found() {
        let text = record("0001").replace("## Alternatives\n", "");
        assert!(
            records(&[("docs/adr/0001-a.md", &text)])[0].ends_with("no section 'Alternatives'")
        );
    }

    fn of_links(readme: &str) -> Vec<String> {
        let glossary = (
            "docs/glossary.md",
            "# Words\n## Hop-by-hop\nSee [up](../README.md).\n",
        );
        let tree = Tree::of(&[("README.md", readme), glossary]);
        check_links(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn good_links_are_fine() {
        let readme = "# Top\n[a](docs/glossary.md#hop-by-hop) [b](#top) [c](docs) [d](/docs/) \
                      [e](https://example.com/x) [f](mailto:a@example.com)";
        assert_eq!(of_links(readme), Vec::<String>::new());
    }

    #[test]
    fn links_to_nothing_are_found() {
        assert_eq!(
            of_links("[a](docs/adr.md)"),
            ["link to 'docs/adr.md', which is not there"]
        );
        assert!(of_links("[a](../other/README.md)")[0].contains("not there"));
    }

    #[test]
    fn anchors_to_nothing_are_found() {
        assert!(of_links("[a](docs/glossary.md#hop)")[0].ends_with("has no such heading"));
        assert!(of_links("[a](#top)")[0].ends_with("has no such heading"));
    }

    fn count(path: &str, text: &str) -> usize {
        check_words(&Tree::of(&[(path, text)])).len()
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
        for host in HOSTS.split_whitespace() {
            assert_eq!(
                count("docs/a.md", &format!("see https://{host}/x")),
                1,
                "{host}"
            );
        }
    }

    #[test]
    fn notes_to_oneself_are_found_anywhere() {
        for note in NOTES.split(' ') {
            for path in ["docs/a.md", "src/a.rs", "scripts/a.sh"] {
                let tree = Tree::of(&[(path, &format!("fine\nsee {note}: later\n"))]);
                assert_eq!(check_words(&tree).len(), 1, "{note}");
                assert_eq!(check_words(&tree)[0].line, 2);
            }
        }
        let longer = format!("{}S\n", NOTES.replace(' ', "S and MAX"));
        assert!(check_words(&Tree::of(&[("a.md", &longer)])).is_empty());
    }

    #[test]
    fn code_is_no_prose() {
        assert_eq!(prose_of("a `b` c\n```\nd\n```\ne"), "a  c\n\n\n\ne\n");
    }

    #[test]
    fn headings_have_anchors() {
        let found =
            headings("# The `steppe` node\n```\n# comment\n```\n## Back-pressure, size class\n");
        assert_eq!(
            found.iter().map(|heading| heading.line).collect::<Vec<_>>(),
            [1, 5]
        );
        assert_eq!(anchor(&found[0]), "the-steppe-node");
        assert_eq!(anchor(&found[1]), "back-pressure-size-class");
        assert_eq!(found[1].level, 2);
    }

    #[test]
    fn links_to_other_sites_are_found() {
        let text = "[a](b.md) [c](https://d.example/e#f) `[x](https://y.example)`\n[g](http://h.example \"i\")\n";
        let found = outside_links(&Tree::of(&[("a.md", text)]));
        let expected = ["http://h.example", "https://d.example/e"];
        assert_eq!(found, expected.map(str::to_owned).into());
    }

    #[test]
    fn links_are_found_outside_code() {
        let text = "[a](b.md#c \"title\") ![i](d.png) `[x](y)`\n[name]: <e.md>\n";
        let found: Vec<String> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["b.md#c", "d.png", "e.md"]);
    }
}
