//! As much of Markdown as the rules read: prose, headings with their anchors, links.
//!
//! Left out: HTML, and headings that are underlined.

use super::tree::numbered;

/// A text without its code: fenced blocks and code spans are gone, line breaks stay.
pub fn prose_of(text: &str) -> String {
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

/// A heading.
#[derive(Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its line, from 1.
    pub line: usize,
    /// 1 for `#`, 2 for `##`.
    pub level: usize,
    /// What it says.
    pub text: String,
}

impl Heading {
    /// The name that links use after `#`.
    pub fn anchor(&self) -> String {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        self.text
            .to_lowercase()
            .chars()
            .filter(kept)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    }
}

/// Headings, outside of code.
pub fn headings(text: &str) -> Vec<Heading> {
    let prose = prose_of(text);
    // Code spans are gone from the prose; in headings they count as text.
    let lines = numbered(text).zip(numbered(&prose));
    let heading = |((line, text), (_, prose)): ((usize, &str), (usize, &str))| {
        let level = prose.chars().take_while(|&c| c == '#').count();
        let text = text.get(level..)?.strip_prefix(' ')?;
        (level > 0).then(|| Heading {
            line,
            level,
            text: text.trim().replace('`', ""),
        })
    };
    lines.filter_map(heading).collect()
}

/// Targets of links and images, with their lines: `[text](target)` and `[name]: target`.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in numbered(&prose_of(text)) {
        let inline = line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let defined = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "));
        let targets = inline.chain(defined.map(|(_, target)| target));
        links.extend(targets.map(|target| (number, without_title(target).to_owned())));
    }
    links
}

fn without_title(target: &str) -> &str {
    target
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .trim_matches(['<', '>'])
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(found[0].anchor(), "the-steppe-node");
        assert_eq!(found[1].anchor(), "back-pressure-size-class");
        assert_eq!(found[1].level, 2);
    }

    #[test]
    fn links_are_found_outside_code() {
        let text = "[a](b.md#c \"title\") ![i](d.png) `[x](y)`\n[name]: <e.md>\n";
        let found: Vec<String> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["b.md#c", "d.png", "e.md"]);
    }
}
