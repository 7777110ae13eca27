//! Rust source without its comments and literals.
//!
//! A word in what is left is code. It is a scanner, not a parser: it knows where comments, strings
//! and characters begin and end (The Rust Reference, "Tokens"), and nothing else.

/// The code of a source text: every comment, string and character is gone, line breaks stay.
pub fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_name = code
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        let skipped = comment_or_literal(rest, after_name);
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..skipped].chars().filter(|&c| c == '\n'));
            code.push(' ');
            rest = &rest[skipped..];
        }
    }
    code
}

/// Length of the comment or literal at the start of `rest`; 0 when there is none.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn comment_or_literal(rest: &str, after_name: bool) -> usize {
    let raw = if after_name { 0 } else { raw_string(rest) };
    if raw > 0 {
        raw
    } else if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        block_comment(rest)
    } else if rest.starts_with('"') {
        quoted(rest, '"')
    } else if is_character(rest) {
        quoted(rest, '\'')
    } else {
        0
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> usize {
    let prefixes = ["br", "cr", "r"];
    let Some(body) = prefixes.iter().find_map(|prefix| rest.strip_prefix(prefix)) else {
        return 0;
    };
    let content = body.trim_start_matches('#');
    let Some(content) = content.strip_prefix('"') else {
        return 0;
    };
    let hashes = "#".repeat(body.len() - content.len() - 1);
    let end = content
        .find(&format!("\"{hashes}"))
        .map(|end| end + 1 + hashes.len());
    rest.len() - content.len() + end.unwrap_or(content.len())
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// Tells `'x'` and `'\n'` from the lifetime `'x`: the second char is `\`, or the third is `'`.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('\'') && (chars.next() == Some('\\') || chars.next() == Some('\''))
}

/// Code without its items under `#[cfg(test)]`, and the modules in files that they declare.
///
/// The code is what [`code_of`] returned; line breaks stay.
pub fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let mut shipped = String::with_capacity(code.len());
    let mut modules = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        shipped.push_str(&rest[..start]);
        let item = &rest[start..];
        let end = MARK.len() + item_len(&item[MARK.len()..]);
        modules.extend(declared_module(&item[MARK.len()..end]));
        shipped.extend(item[..end].chars().filter(|&c| c == '\n'));
        rest = &item[end..];
    }
    shipped.push_str(rest);
    (shipped, modules)
}

/// Length of the item at the start of `rest`: to its closing brace, `;`, or, for a field or an
/// argument, `,`.
fn item_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut inside_braces = false;
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            '{' => {
                depth += 1;
                inside_braces |= depth == 1;
            }
            // The end of what the item stands in.
            ')' | ']' | '}' if depth == 0 => return at,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth == 0 && c == '}' && inside_braces {
                    return at + 1;
                }
            }
            ';' | ',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The name in `mod name;`.
fn declared_module(item: &str) -> Option<String> {
    let mut words = item.trim().strip_suffix(';')?.split_whitespace();
    words.find(|word| *word == "mod")?;
    words.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        code_of(text)
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn comments_are_no_code() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(code_of("a /* \n\n */ b").lines().count(), 3);
    }

    #[test]
    fn literals_are_no_code() {
        assert_eq!(words(r#"a "b \" c" d '"' e '\'' f"#), ["a", "d", "e", "f"]);
        assert_eq!(words("a r#\"b \" c\"# d br\"e\\\" f"), ["a", "d", "f"]);
    }

    #[test]
    fn lifetimes_and_names_are_code() {
        assert_eq!(
            words("fn f<'a>(x: &'a str) y"),
            ["fn", "f<'a>(x:", "&'a", "str)", "y"]
        );
        assert_eq!(words("for r#type in car"), ["for", "r#type", "in", "car"]);
    }

    #[test]
    fn open_ends_end_with_the_text() {
        for text in ["\"a", "/* a", "r#\"a", "'\\", "// a"] {
            assert_eq!(words(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn tests_are_cut_and_their_files_named() {
        let code = "a\n#[cfg(test)]\nmod x;\nb\n#[cfg(test)]\npub mod y { c { d } }\ne";
        let (shipped, modules) = without_tests(code);
        assert_eq!(
            shipped.split_whitespace().collect::<Vec<_>>(),
            ["a", "b", "e"]
        );
        assert_eq!(shipped.lines().count(), code.lines().count());
        assert_eq!(modules, ["x"]);
        let code =
            "struct S { #[cfg(test)] a: u8, b: u8 } #[cfg(test)] fn f(a: u8, b: u8) { g; } h";
        let (shipped, _) = without_tests(code);
        assert_eq!(shipped, "struct S {  b: u8 }  h");
    }
}
