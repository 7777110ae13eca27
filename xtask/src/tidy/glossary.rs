//! The glossary: each term once, in alphabetical order, each defined.
//!
//! A term is a heading of the second level. That links to terms lead somewhere is the business of
//! the rule on links.

use super::Finding;
use super::markdown::{Heading, headings};
use super::tree::{SourceFile, Tree};

const GLOSSARY: &str = "docs/glossary.md";

/// Checks the glossary.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(GLOSSARY) else {
        return vec![Finding::new(GLOSSARY, 0, "is missing")];
    };
    let mut terms = headings(&file.text);
    terms.retain(|heading| heading.level == 2);
    if terms.is_empty() {
        return vec![Finding::new(
            GLOSSARY,
            0,
            "defines no term: a term is a `##` heading",
        )];
    }
    let order = terms
        .windows(2)
        .filter_map(|pair| out_of_order(&pair[0], &pair[1]));
    let undefined = terms
        .iter()
        .filter(|term| !is_defined(file, term))
        .map(|term| {
            Finding::new(
                GLOSSARY,
                term.line,
                format!("'{}' has no definition", term.text),
            )
        });
    order.chain(undefined).collect()
}

fn out_of_order(before: &Heading, term: &Heading) -> Option<Finding> {
    let (earlier, later) = (before.text.to_lowercase(), term.text.to_lowercase());
    let complaint = match earlier.cmp(&later) {
        std::cmp::Ordering::Less => return None,
        std::cmp::Ordering::Equal => format!("'{}' is defined twice", term.text),
        std::cmp::Ordering::Greater => format!("'{}' stands after '{}'", term.text, before.text),
    };
    Some(Finding::new(GLOSSARY, term.line, complaint))
}

fn is_defined(file: &SourceFile, term: &Heading) -> bool {
    let mut below = file
        .text
        .lines()
        .skip(term.line)
        .filter(|line| !line.trim().is_empty());
    below.next().is_some_and(|line| !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        check(&Tree::of(&[(GLOSSARY, text)]))
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn terms_in_order_are_fine() {
        assert!(messages("# Glossary\n\n## Account\nA sum.\n\n## budget\nA bound.\n").is_empty());
    }

    #[test]
    fn disorder_and_repetition_are_found() {
        assert_eq!(messages("## B\nx\n## A\ny\n"), ["'A' stands after 'B'"]);
        assert_eq!(messages("## A\nx\n## a\ny\n"), ["'a' is defined twice"]);
    }

    #[test]
    fn a_term_without_definition_is_found() {
        assert_eq!(messages("## A\n\n## B\ny\n"), ["'A' has no definition"]);
        assert_eq!(messages("## A\ny\n## B\n"), ["'B' has no definition"]);
    }

    #[test]
    fn an_empty_or_missing_glossary_is_found() {
        assert_eq!(messages("# Glossary\n").len(), 1);
        assert_eq!(check(&Tree::default()).len(), 1);
    }
}
