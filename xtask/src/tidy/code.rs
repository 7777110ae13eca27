//! Code that clippy cannot judge: hidden arguments, openings of documentation, ignored tests.
//!
//! A signature hides arguments, and flags, in a tuple, an `Option` or a reference; a method of a trait
//! is as the trait has it. The first line of documentation names its subject and asks no question; so
//! do commits after the one that added this file. Exceptions from clippy's lints are counted.

use syn::visit::{self, Visit};

use super::circles::modules_of;
use super::finding::Finding;
use super::tree::{Tree, has_word};

const ARGUMENTS_MAX: usize = 4;

const QUESTIONS: &str = "Who What Whose Whoever Whatever Nobody Whether How";

/// Checks every Rust file, and the subjects of commits.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut code = Code::default();
    for file in tree.ending(".rs") {
        code.path.clone_from(&file.path);
        file.code.iter().for_each(|file| code.visit_file(file));
    }
    for (hash, subject) in tree
        .commits
        .iter()
        .filter_map(|commit| commit.split_once(' '))
    {
        let verb = subject.split_once(": ").map_or(subject, |(_, verb)| verb);
        if let Some(word) = question(verb) {
            code.path = format!("commit {hash}");
            code.add("", 0, format!("the subject opens with '{word}': {subject}"));
        }
    }
    code.findings
}

/// The file that reads the real time for all others of its crate and of the gateway.
const CLOCK: &str = "crates/steppe-net/src/clock.rs";

/// Finds reads of the real time in the crates whose clock tests stop (ADR 0031), but for the clock itself.
pub fn check_clock(tree: &Tree) -> Vec<Finding> {
    let packages = ["crates/steppe-net/", "crates/steppe-http/"].into_iter();
    let modules = packages.flat_map(|package| modules_of(tree, package));
    let others = modules.filter(|module| module.path != CLOCK);
    let reads = others.flat_map(|module| {
        let message = "a read of a clock that tests can't stop: use `steppe_net::clock`";
        let mut finding = Finding::new(module.path, 0, message);
        let is_read = |path: &&Vec<String>| path.len() > 1 && path[path.len() - 2] == "Instant";
        finding.rule = "clock";
        finding.count = module.mentions.paths.iter().filter(is_read).count();
        Some(finding).filter(|finding| finding.count > 0)
    });
    reads.collect()
}

/// The word of a question that a text opens with.
pub fn question(text: &str) -> Option<&'static str> {
    let opening = text.trim_start_matches(|c: char| c.is_whitespace() || c == '*' || c == '"');
    let word = opening.split(|c: char| !c.is_alphanumeric()).next()?;
    let is_word = |question: &&str| question.eq_ignore_ascii_case(word);
    QUESTIONS.split(' ').find(is_word)
}

#[derive(Default)]
struct Code {
    path: String,
    findings: Vec<Finding>,
    /// The line after the last one of documentation.
    next_line: usize,
    /// The comment of that line has a line that is not blank.
    has_opened: bool,
    /// The functions at hand are as a trait has them.
    is_of_trait: bool,
}

impl Code {
    fn add(&mut self, rule: &'static str, line: usize, message: String) {
        let finding = Finding::new(&self.path, line, message);
        self.findings.push(Finding { rule, ..finding });
    }

    fn see_doc(&mut self, line: usize, text: &str) {
        self.has_opened &= line == self.next_line;
        if let (false, Some(word)) = (self.has_opened, question(text)) {
            let message = format!("documentation opens with '{word}': open it with its subject");
            self.add("openings", line, message);
        }
        self.has_opened |= !text.trim().is_empty();
        self.next_line = line + 1;
    }
}

impl<'ast> Visit<'ast> for Code {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.is_of_trait = item.trait_.is_some();
        visit::visit_item_impl(self, item);
        self.is_of_trait = false;
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let inputs = signature.inputs.iter();
        let types = inputs.clone().filter_map(|input| match input {
            syn::FnArg::Typed(argument) => Some(&*argument.ty),
            syn::FnArg::Receiver(_) => None,
        });
        let inside = types.clone().flat_map(arguments_in);
        let plain = inputs.len();
        let count = plain - types.clone().count() + inside.clone().count();
        let complaint = if self.is_of_trait {
            return;
        } else if count > ARGUMENTS_MAX && plain <= ARGUMENTS_MAX {
            format!("takes {count} arguments, elements of tuples among them: make a struct")
        } else if inside.filter(is_bool).count() > types.filter(is_bool).count() {
            "takes a flag: make it an enum, or two functions".to_owned()
        } else {
            return;
        };
        let (name, line) = (&signature.ident, signature.ident.span().start().line);
        self.add("arguments", line, format!("`{name}` {complaint}"));
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let line = attribute.pound_token.span.start().line;
        match &attribute.meta {
            meta if meta.path().is_ident("ignore") => {
                self.add("", line, "switches a test off: make it long".to_owned());
            }
            syn::Meta::NameValue(meta) if meta.path.is_ident("doc") => {
                if let syn::Expr::Lit(literal) = &meta.value
                    && let syn::Lit::Str(text) = &literal.lit
                {
                    self.see_doc(line, &text.value());
                }
            }
            syn::Meta::List(list) => {
                let tokens = list.tokens.to_string();
                let mut lints = ["too_many_arguments", "fn_params_excessive_bools"].iter();
                if let Some(lint) = lints.find(|lint| has_word(&tokens, lint)) {
                    let message = format!("an exception from {lint}: make a struct, or an enum");
                    self.add("exceptions", line, message);
                }
            }
            _ => {}
        }
    }
}

/// The arguments that a type stands for: the elements of a tuple, and what is wrapped.
pub fn arguments_in(ty: &syn::Type) -> Vec<&syn::Type> {
    match ty {
        syn::Type::Tuple(tuple) => tuple.elems.iter().flat_map(arguments_in).collect(),
        syn::Type::Reference(reference) => arguments_in(&reference.elem),
        ty => inside_option(ty).map_or_else(|| vec![ty], arguments_in),
    }
}

fn inside_option(ty: &syn::Type) -> Option<&syn::Type> {
    let syn::Type::Path(path) = ty else {
        return None;
    };
    let last = path.path.segments.last()?;
    match &last.arguments {
        syn::PathArguments::AngleBracketed(of) if last.ident == "Option" => {
            match of.args.first()? {
                syn::GenericArgument::Type(ty) => Some(ty),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_bool(ty: &&syn::Type) -> bool {
    matches!(ty, syn::Type::Path(path) if path.path.is_ident("bool"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(code: &str) -> Vec<String> {
        let findings = check(&Tree::of(&[("src/a.rs", code)])).into_iter();
        findings.map(|finding| finding.to_string()).collect()
    }

    fn lines(code: &str) -> Vec<usize> {
        let findings = check(&Tree::of(&[("src/a.rs", code)])).into_iter();
        findings.map(|finding| finding.line).collect()
    }

    #[test]
    fn elements_of_tuples_are_arguments() {
        for code in [
            "fn f(a: (u8, u8), b: (u8, u8), c: u8) {}",
            "impl A { pub async fn f(&self, a: &(u8, (u8, u8)), b: u8) {} }",
            "trait A { fn f(&self, a: (u8, u8, u8, u8)); }",
            "mod a { fn g() { fn f(a: (u8, u8, u8, u8, u8)) {} } }",
        ] {
            let found = messages(code);
            assert_eq!(found.len(), 1, "{code}");
            assert!(found[0].contains("`f` takes 5 arguments"), "{found:?}");
        }
        for code in [
            "fn f(a: (u8, u8), b: (u8, u8)) {}",
            "fn f(a: u8, b: u8, c: u8, d: u8, e: u8) {} // clippy's",
            "impl A for B { fn f(&self, a: (u8, u8, u8, u8)) {} }",
            "fn f(a: [(u8, u8); 9], b: impl Fn(u8, u8) -> (u8, u8), c: ()) {}",
        ] {
            assert_eq!(messages(code), Vec::<String>::new(), "{code}");
        }
    }

    #[test]
    fn wrapped_flags_are_found() {
        for code in ["&mut bool", "Option<bool>", "(u8, bool)", "&Option<&bool>"] {
            let found = messages(&format!("fn f(a: {code}) {{}}"));
            assert_eq!(found.len(), 1, "{code}");
            assert!(found[0].contains("a.rs:1: `f` takes a flag"), "{found:?}");
        }
        for code in ["bool", "Vec<bool>", "impl Fn(&u8) -> bool", "&[bool]"] {
            assert!(
                messages(&format!("fn f(a: {code}) {{}}")).is_empty(),
                "{code}"
            );
        }
    }

    #[test]
    fn exceptions_from_clippy_are_counted() {
        let code = "#[expect(clippy::too_many_arguments, reason = \"a\")]\nfn f() {}\n\
                    #[allow(clippy::fn_params_excessive_bools)] fn g() {}";
        assert_eq!(messages(code).len(), 2);
        assert!(messages("// clippy::too_many_arguments\n").is_empty());
    }

    #[test]
    fn documentation_that_opens_with_a_question_is_found() {
        for word in QUESTIONS.split(' ') {
            assert_eq!(lines(&format!("//! {word} is there.\n")), [1], "{word}");
        }
        let code = "//! A file.\n\n/// Whether.\n#[x]\nfn f() {}\n/** What's here */\nfn g() {}\n\
                    #[doc = \"how it is\"]\nfn h() {}\nmod m {\n///\n/// *Who* asks.\nfn i() {} }\n\
                    impl A for B {\n/// How.\nfn j() {} }";
        assert_eq!(lines(code), [3, 6, 8, 12, 15]);
    }

    #[test]
    fn other_openings_are_fine() {
        let code = "//! The file.\n//! What follows is the same comment.\n\n/// However it is.\n\
                    ///\n/// How it is: a later paragraph.\nfn f() {}\n// What is no documentation.\n\
                    /// `How` is a type.\nconst A: &str = \"What\";\n#[doc(hidden)] fn g() {}";
        assert_eq!(lines(code), Vec::<usize>::new());
    }

    #[test]
    fn commits_that_open_with_a_question_are_found() {
        let commits = |subjects: &[&str]| {
            let mut tree = Tree::default();
            tree.commits = subjects.iter().map(|line| format!("abc {line}")).collect();
            let findings = check(&tree).into_iter();
            findings
                .map(|finding| finding.to_string())
                .collect::<Vec<_>>()
        };
        let found = commits(&["http: say how it is", "dns: what it is", "Whoever reads"]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("error: commit abc: the subject opens with 'What'"));
    }

    #[test]
    fn reads_of_the_real_time_are_found_where_tests_stop_the_clock() {
        let count = |path: &str, code: &str| check_clock(&Tree::of(&[(path, code)])).len();
        let (http, dns) = ("crates/steppe-http/src/a.rs", "crates/steppe-dns/src/a.rs");
        for code in [
            "LazyLock::new(Instant::now)",
            "m!(tokio::time::Instant::now())",
            "a.elapsed()",
        ] {
            let code = format!("fn f() {{ {code}; }}");
            assert_eq!((count(http, &code), count(dns, &code)), (1, 0), "{code}");
        }
        let code = "fn now() -> Instant { tokio::time::Instant::now() }";
        let (clock, own) = (CLOCK, "crates/steppe-http/src/clock.rs");
        assert_eq!((count(clock, code), count(own, code)), (0, 1));
        let code = "use std::time::Instant; fn f(now: Instant) -> Instant { clock::now() }";
        assert_eq!(count(http, code), 0);
        assert_eq!(
            count(
                http,
                "#[cfg(test)] mod tests { fn f() { Instant::now(); } }"
            ),
            0
        );
    }

    #[test]
    fn tests_that_are_switched_off_are_found() {
        assert_eq!(lines("\n#[ignore = \"slow\"] fn f() {}"), [2]);
        assert!(lines("// #[ignore]\nfn f() { let a = \"#[ignore]\"; }").is_empty());
    }
}
