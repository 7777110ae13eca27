//! The tokens of a Rust file without its tests: lines of code, doc comments, calls of methods by name.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::parse::Parser;

use crate::tidy::mentions::is_test;

/// The first line of a doc comment block.
#[derive(Debug, PartialEq, Eq)]
pub struct Opening {
    /// From 1.
    pub line: usize,
    pub text: String,
}

/// The tokens without items for tests.
pub fn without_tests(stream: TokenStream) -> TokenStream {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < trees.len() {
        let item = at + attributes_len(&trees[at..]);
        if is_for_tests(&trees[at..item]) {
            at = item + item_len(&trees[item..]);
            continue;
        }
        let end = item.max(at + 1);
        kept.extend(trees[at..end].iter().cloned().map(tree_without_tests));
        at = end;
    }
    kept.into_iter().collect()
}

fn tree_without_tests(tree: TokenTree) -> TokenTree {
    let TokenTree::Group(group) = tree else {
        return tree;
    };
    let mut kept = Group::new(group.delimiter(), without_tests(group.stream()));
    kept.set_span(group.span());
    kept.into()
}

/// The number of tokens of the outer attributes at the start.
fn attributes_len(trees: &[TokenTree]) -> usize {
    let pairs = trees.chunks_exact(2);
    2 * pairs
        .take_while(|pair| is_punct(&pair[0], '#') && bracketed(&pair[1]).is_some())
        .count()
}

fn is_for_tests(attributes: &[TokenTree]) -> bool {
    let stream = attributes.iter().cloned().collect();
    let attributes = syn::Attribute::parse_outer.parse2(stream);
    let attributes = attributes.unwrap_or_default();
    let is_named = |attribute: &syn::Attribute| {
        let last = attribute.path().segments.last();
        last.is_some_and(|last| last.ident == "test")
    };
    is_test(&attributes) || attributes.iter().any(is_named)
}

const ENDED_BY_SEMICOLON: [&str; 5] = ["use", "static", "type", "let", "const"];
const ENDED_BY_BRACES: [&str; 11] = [
    "fn",
    "mod",
    "struct",
    "enum",
    "union",
    "impl",
    "trait",
    "unsafe",
    "async",
    "extern",
    "macro_rules",
];

/// The number of tokens of the item, field or statement at the start, its separator included.
fn item_len(trees: &[TokenTree]) -> usize {
    let words = trees.iter().filter_map(|tree| match tree {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    });
    let mut words = words.filter(|word| word != "pub");
    let word = words.next().unwrap_or_default();
    let is_function = word == "fn" || words.next().is_some_and(|word| word == "fn");
    let by_braces = is_function || !ENDED_BY_SEMICOLON.contains(&&word[..]);
    let by_comma = by_braces && !is_function && !ENDED_BY_BRACES.contains(&&word[..]);
    let is_end = |tree: &TokenTree| match tree {
        TokenTree::Group(group) => by_braces && group.delimiter() == Delimiter::Brace,
        tree => is_punct(tree, ';') || by_comma && is_punct(tree, ','),
    };
    trees
        .iter()
        .position(is_end)
        .map_or(trees.len(), |at| at + 1)
}

/// The numbers of the lines that have code.
pub fn code_lines(stream: TokenStream) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        if let Some(doc) = doc_at(&trees[at..]) {
            at += doc.tokens;
            continue;
        }
        let span = trees[at].span();
        match &trees[at] {
            TokenTree::Group(group) => {
                lines.extend([span.start().line, span.end().line]);
                lines.extend(code_lines(group.stream()));
            }
            _ => lines.extend(span.start().line..=span.end().line),
        }
        at += 1;
    }
    lines
}

/// The openings of all doc comment blocks.
pub fn openings(stream: TokenStream) -> Vec<Opening> {
    let mut openings = Vec::new();
    // The line after the block at hand, and whether its opening was found.
    let (mut next_line, mut has_opened) = (0, false);
    for trees in levels(stream) {
        for at in 0..trees.len() {
            let Some(doc) = doc_at(&trees[at..]) else {
                continue;
            };
            has_opened &= doc.line == next_line;
            next_line = doc.last_line + 1;
            let mut lines = (doc.line..).zip(doc.text.lines());
            if let (false, Some((line, text))) = (
                has_opened,
                lines.find(|(_, text)| !opening_of(text).is_empty()),
            ) {
                let text = opening_of(text).to_owned();
                openings.push(Opening { line, text });
                has_opened = true;
            }
        }
    }
    openings
}

fn opening_of(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || c == '*' || c == '"')
}

/// The lines of calls of these methods, those in macros too.
pub fn method_calls(stream: TokenStream, methods: &[&str]) -> Vec<usize> {
    let mut lines = Vec::new();
    for trees in levels(stream) {
        for three in trees.windows(3) {
            let [dot, TokenTree::Ident(name), TokenTree::Group(group)] = three else {
                continue;
            };
            let is_call = is_punct(dot, '.') && group.delimiter() == Delimiter::Parenthesis;
            if is_call && methods.iter().any(|method| name == method) {
                lines.push(name.span().start().line);
            }
        }
    }
    lines.sort_unstable();
    lines
}

/// The names after `struct` or `enum` in the arguments of a macro, with their lines.
pub fn definitions_in(stream: TokenStream) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for trees in levels(stream) {
        for pair in trees.windows(2) {
            if let [TokenTree::Ident(keyword), TokenTree::Ident(name)] = pair
                && (keyword == "struct" || keyword == "enum")
            {
                found.push((name.to_string(), name.span().start().line));
            }
        }
    }
    found
}

/// The tokens between each pair of brackets, those of the whole first.
fn levels(stream: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut levels = vec![stream.into_iter().collect::<Vec<_>>()];
    let mut at = 0;
    while at < levels.len() {
        let groups = levels[at].iter().filter_map(|tree| match tree {
            TokenTree::Group(group) => Some(group.stream().into_iter().collect()),
            _ => None,
        });
        let groups: Vec<Vec<TokenTree>> = groups.collect();
        levels.extend(groups);
        at += 1;
    }
    levels
}

struct Doc {
    line: usize,
    last_line: usize,
    text: String,
    /// The number of tokens of its attribute.
    tokens: usize,
}

/// The line of documentation at the start: `#[doc = "…"]` or `#![doc = "…"]`.
fn doc_at(trees: &[TokenTree]) -> Option<Doc> {
    let is_inner = is_punct(trees.get(1)?, '!');
    let tokens = if is_inner { 3 } else { 2 };
    let group = bracketed(trees.get(tokens - 1)?).filter(|_| is_punct(&trees[0], '#'))?;
    let content: Vec<TokenTree> = group.stream().into_iter().collect();
    let [TokenTree::Ident(name), equals, TokenTree::Literal(literal)] = &content[..] else {
        return None;
    };
    match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) if name == "doc" && is_punct(equals, '=') => Some(Doc {
            line: trees[0].span().start().line,
            last_line: group.span().end().line,
            text: text.value(),
            tokens,
        }),
        _ => None,
    }
}

fn is_punct(tree: &TokenTree, punct: char) -> bool {
    matches!(tree, TokenTree::Punct(found) if found.as_char() == punct)
}

fn bracketed(tree: &TokenTree) -> Option<&Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some(group),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(code: &str) -> TokenStream {
        without_tests(code.parse().unwrap())
    }

    fn lines(code: &str) -> Vec<usize> {
        code_lines(kept(code)).into_iter().collect()
    }

    #[test]
    fn lines_of_code_are_those_with_a_token_outside_of_documentation() {
        let code =
            "//! A.\n\n/// B.\nfn f() { // c\n\n  g(\n  \"a\n  b\",\n  )\n}\n/** D */ fn h() {}";
        assert_eq!(lines(code), [4, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        for item in [
            "#[cfg(test)] mod tests { fn f() {} }",
            "#[cfg(test)] mod tests;",
            "/// Doc.\n#[cfg(all(unix, test))]\n#[inline] pub(crate) const fn f(a: [u8; 2]) {}",
            "#[cfg(test)] use a::{b, c};",
            "#[cfg(test)] impl A<B, C> for D { }",
            "#[tokio::test] async fn f() { g() }",
            "#[cfg(test)] const A: B = B { c: 1 };",
        ] {
            let code = format!("{item}\nfn kept() {{}}");
            assert_eq!(
                kept(&code).to_string(),
                kept("fn kept() {}").to_string(),
                "{item}"
            );
        }
        let fields =
            "struct A { #[cfg(test)] b: u8, c: u8 } impl A { #[cfg(test)] fn d() {} fn e() {} }";
        let rest = "struct A { c: u8 } impl A { fn e() {} }";
        assert_eq!(kept(fields).to_string(), kept(rest).to_string());
        let kinds = "#[cfg(not(test))] fn a() {} #[cfg(any(unix, test))] fn b() {}";
        assert_eq!(
            kept(kinds).to_string(),
            kinds.parse::<TokenStream>().unwrap().to_string()
        );
    }

    #[test]
    fn a_block_of_documentation_opens_once() {
        let code = "//! First.\n//! What follows.\n\n/// Second.\nfn f() {\n}\n///\n/// **Third** is\nstruct A {\n\
                    /// Fourth\nb: u8 }\nm! { /** \n * Fifth */ struct C; }\n#[cfg(test)] /// No\nfn g() {}";
        let mut found = openings(kept(code));
        found.sort_by_key(|opening| opening.line);
        let texts: Vec<&str> = found.iter().map(|opening| &opening.text[..]).collect();
        assert_eq!(
            texts,
            ["First.", "Second.", "Third** is", "Fourth", "Fifth"]
        );
        let lines: Vec<usize> = found.iter().map(|opening| opening.line).collect();
        assert_eq!(lines, [1, 4, 8, 10, 13]);
    }

    #[test]
    fn calls_and_definitions_in_macros_are_found() {
        let code = "fn f() { a.expect(\"b\"); m!(c.unwrap()); expect(d); e.expect; g.unwrap_or(h) }\n\
                    #[test] fn i() { j.unwrap() }";
        assert_eq!(method_calls(kept(code), &["expect", "unwrap"]), [1, 1]);
        let found = definitions_in(kept("a { pub struct B { } enum C {} struct $d; }"));
        let names: Vec<&str> = found.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["B", "C"]);
    }
}
