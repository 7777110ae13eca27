//! No function that other files call has a boolean parameter: the call would not say what it means.
//!
//! Judged are functions with a visibility (`pub`, `pub(crate)`, `pub(super)`), those of `pub` traits,
//! and setters too. A parameter is boolean if its type is `bool`, a reference to one, or an `Option`
//! of one. Non-goals: predicates (`impl Fn(&T) -> bool`), fields, private functions, and methods of
//! traits that are not ours.

use super::Finding;
use super::modules::Module;
use super::places::{Place, check_against};
use super::tree::{Tree, has_word};

const THIS_FILE: &str = "xtask/src/tidy/booleans.rs";

const LISTED: &[Place] = &[
    Place {
        file: "steppe-http/src/h1/encode.rs",
        function: "refusal",
        reason: "a response has content or, to HEAD, none",
    },
    Place {
        file: "steppe-http/src/h1/framing.rs",
        function: "response",
        reason: "a response is to HEAD or not; nothing else of the request matters",
    },
    Place {
        file: "steppe-http/src/head.rs",
        function: "of",
        reason: "a response is to HEAD or not; nothing else of the request matters",
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "set_drained",
        reason: "a setter: the argument is the state",
    },
    Place {
        file: "steppe-http/src/upstream/state.rs",
        function: "probed",
        reason: "a setter: the argument is the state",
    },
    Place {
        file: "steppe-http/src/upstream/target.rs",
        function: "set_drained",
        reason: "a setter: the argument is the state",
    },
    Place {
        file: "steppe-http/src/upstream/target.rs",
        function: "set_unhealthy",
        reason: "a setter: the argument is the state",
    },
    Place {
        file: "steppe-node/src/admin/endpoints.rs",
        function: "router",
        reason: "probes stand beside the rest or alone",
    },
];

/// Checks the signatures of all functions that other files call.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, THIS_FILE, LISTED, boolean_parameters)
}

/// The functions that have one.
fn boolean_parameters(module: &Module) -> Vec<(String, Finding)> {
    let mut found = Vec::new();
    for function in public_functions(&module.code) {
        let parameter = function.parameters.iter().find(|&text| is_boolean(text));
        if let Some(parameter) = parameter {
            let finding = finding(module, &function, parameter);
            found.push((function.name.to_owned(), finding));
        }
    }
    found
}

fn finding(module: &Module, function: &Function<'_>, parameter: &str) -> Finding {
    let message = format!(
        "`{}` has the boolean parameter `{parameter}`: make it an enum with a name for each case, \
         or two functions; if it has to stay, list it with its reason in \
         {THIS_FILE}",
        function.name
    );
    Finding::new(&module.path, function.line, message)
}

/// The signature of a function that other files can call.
struct Function<'a> {
    name: &'a str,
    line: usize,
    parameters: Vec<&'a str>,
}

fn public_functions(code: &str) -> Vec<Function<'_>> {
    let traits = public_traits(code);
    let mut functions = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_public = is_visible(&code[..at]) || traits.iter().any(|range| range.contains(&at));
        let is_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if is_word
            && is_public
            && let Some((name, parameters)) = signature(&code[at + 3..])
        {
            functions.push(Function {
                name,
                line: code[..at].matches('\n').count() + 1,
                parameters,
            });
        }
    }
    functions
}

/// Whether what stands before `fn` makes it visible to other files.
fn is_visible(before: &str) -> bool {
    let statement = before
        .rfind(['{', '}', ';', ']', ','])
        .map_or(0, |end| end + 1);
    has_word(&before[statement..], "pub")
}

/// The ranges of code inside the braces of visible traits.
fn public_traits(code: &str) -> Vec<std::ops::Range<usize>> {
    let found = code
        .match_indices("trait ")
        .filter(|&(at, _)| is_visible(&code[..at]));
    let ranges = found.filter_map(|(at, _)| {
        let open = at + code[at..].find('{')?;
        Some(open..open + group_len(&code[open..]))
    });
    ranges.collect()
}

/// The name and the parameters of the function whose name stands at the start.
fn signature(rest: &str) -> Option<(&str, Vec<&str>)> {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let name = &rest[..end];
    let generics = if rest[end..].starts_with('<') {
        group_len(&rest[end..])
    } else {
        0
    };
    let open = end + generics;
    let group = &rest[open..open + group_len(&rest[open..])];
    let inside = group.strip_prefix('(')?.strip_suffix(')')?;
    Some((name, split_at_commas(inside)))
}

/// Length of the group of brackets at the start, to its end; `->` closes nothing.
fn group_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut previous = ' ';
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if previous == '-' || previous == '=' => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + c.len_utf8();
        }
        previous = c;
    }
    rest.len()
}

fn split_at_commas(inside: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(c) = inside[at..].chars().next() {
        if c == ',' {
            parts.push(inside[start..at].trim());
            start = at + 1;
        }
        let is_group = matches!(c, '(' | '[' | '{' | '<');
        at += if is_group {
            group_len(&inside[at..])
        } else {
            c.len_utf8()
        };
    }
    parts.push(inside[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn is_boolean(parameter: &str) -> bool {
    // The first colon that is no part of `::`; a receiver and a pattern's path have none.
    let Some((_, kind)) = parameter.split_once(": ") else {
        return false;
    };
    let kind = kind.trim_start_matches('&');
    let kind = match kind
        .strip_prefix('\'')
        .and_then(|rest| rest.split_once(' '))
    {
        Some((_, after_lifetime)) => after_lifetime,
        None => kind,
    };
    let kind = kind.strip_prefix("mut ").unwrap_or(kind).trim();
    matches!(kind, "bool" | "Option<bool>")
}

#[cfg(test)]
mod tests {
    use super::super::places::one_file::{assert_stale_is_found, listed, printed, tree_of};
    use super::*;

    fn found(code: &str, list: &[Place]) -> Vec<String> {
        printed(&check_against(
            &tree_of(code),
            THIS_FILE,
            list,
            boolean_parameters,
        ))
    }

    #[test]
    fn booleans_are_found_behind_every_visibility() {
        for code in [
            "pub fn f(a: u8, is_b: bool) {}",
            "pub(crate) async fn f<T: Fn() -> u8>(&self, mut is_b: bool) {}",
            "pub(super) const fn f(\n    is_b: &mut bool,\n) {}",
            "impl A { /// Doc: pub.\n #[must_use]\n pub unsafe fn f(self, is_b: Option<bool>) -> Self {} }",
            "pub trait A { fn g(&self); fn f(&self, is_b: bool); }",
        ] {
            let found = found(code, &[]);
            assert_eq!(found.len(), 1, "{code}");
            assert!(
                found[0].contains("`f` has the boolean parameter `"),
                "{}",
                found[0]
            );
        }
        assert!(found("//!\n\npub fn f(is_b: bool) {}", &[])[0].contains("a.rs:3: "));
    }

    #[test]
    fn what_is_no_boolean_of_a_public_function_is_fine() {
        for code in [
            "fn f(is_b: bool) {}",
            "pub fn f(keep: impl Fn(&u8, bool) -> bool, map: Map<u8, bool>) -> bool {}",
            "pub struct A { fn_: u8 } fn f(is_b: bool) {}",
            "trait A { fn f(&self, is_b: bool); }",
            "impl Visitor for A { fn f(self, is_b: bool) {} }",
            "pub trait A { fn f(&self); }\nfn g(is_b: bool) {}",
            "#[cfg(test)]\npub fn f(is_b: bool) {}",
            "// pub fn f(is_b: bool) {}",
        ] {
            assert_eq!(found(code, &[]), Vec::<String>::new(), "{code}");
        }
    }

    #[test]
    fn a_listed_function_is_fine_and_a_stale_entry_is_found() {
        let code = "pub fn f(is_b: bool) {}";
        assert_eq!(found(code, &[listed("f")]), Vec::<String>::new());
        let found = found("pub fn f() {}", &[listed("f")]);
        assert_stale_is_found("f", &found);
    }
}
