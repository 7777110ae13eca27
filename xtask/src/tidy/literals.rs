//! Sentences in string literals that users can meet: messages, log lines, help texts, reports.
//!
//! A literal with a space in it is taken for a sentence, and must not open with the word of a question. Documentation is
//! the business of `code.rs`; tests, and crates that no user runs, are left out.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::code::question;
use super::finding::Finding;
use super::mentions::is_test;
use super::tree::Tree;

/// Folders whose programs users run.
const FOLDERS: [&str; 2] = ["crates/", "clients/"];

/// Checks the literals of every file that is no test.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut literals = Literals::default();
    let files = tree.ending(".rs").filter(|file| {
        let path = &file.path;
        FOLDERS.iter().any(|folder| path.starts_with(folder))
            && path.contains("/src/")
            && !path.contains("steppe-testkit")
            && !path.ends_with("tests.rs")
            && !path.contains("/tests/")
    });
    for file in files {
        literals.path.clone_from(&file.path);
        file.code.iter().for_each(|code| literals.visit_file(code));
    }
    literals.findings
}

#[derive(Default)]
struct Literals {
    path: String,
    findings: Vec<Finding>,
}

impl Literals {
    fn see(&mut self, literal: &syn::LitStr) {
        let text = literal.value();
        if let Some(word) = question(&text).filter(|_| text.trim().contains(' ')) {
            let line = literal.span().start().line;
            let message = format!("a text opens with '{word}': open it with its subject: {text:?}");
            self.findings.push(Finding::new(&self.path, line, message));
        }
    }

    fn see_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.see_tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.see(&text);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Literals {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Mod(syn::ItemMod { attrs, .. })
            | syn::Item::Fn(syn::ItemFn { attrs, .. })
                if is_test(attrs) => {}
            item => visit::visit_item(self, item),
        }
    }

    /// Messages of errors and helps of arguments; no documentation.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta
            && !list.path.is_ident("expect")
            && !list.path.is_ident("allow")
        {
            self.see_tokens(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.see_tokens(invocation.tokens.clone());
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.see(literal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, code: &str) -> Vec<usize> {
        let findings = check(&Tree::of(&[(path, code)])).into_iter();
        findings.map(|finding| finding.line).collect()
    }

    #[test]
    fn texts_that_open_with_a_question_are_found() {
        let code = "const A: &str = \"Who asks\";\nfn f() { bail!(\"what {} is\", 1) }\n\
                    #[error(\"whoever listens there\")]\nstruct E;\n\
                    fn g() { h(&[(\"a\", \"nobody serves it\")]) }";
        assert_eq!(lines("crates/a/src/b.rs", code), [1, 2, 3, 5]);
        assert!(lines("crates/a/src/tests.rs", code).is_empty());
        assert!(lines("xtask/src/b.rs", code).is_empty());
    }

    #[test]
    fn other_texts_are_fine() {
        let code = "/// Who asks.\nconst A: &str = \"who\";\nfn f() { g(\"a peer is who it says\") }\n\
                    #[expect(lint, reason = \"what for\")]\nfn h() {}\n\
                    #[cfg(test)]\nmod tests { const B: &str = \"Who asks\"; }";
        assert_eq!(lines("crates/a/src/b.rs", code), Vec::<usize>::new());
    }
}
