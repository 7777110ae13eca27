//! Formatting of a file: the same keys, values and comments, in one layout.
//!
//! Invariant: the formatted file reads as the same tree and has the same comments; formatting it again changes nothing. A
//! file with a comment that the layout has no place for is refused. Keys stay in their order, but that `a.b` and `a.c` come
//! together. Layout: `key = value`, nothing indented but items of lists and inline tables of several lines, one
//! blank line before a header and at most one elsewhere. A list that was written in one line stays in one. Strings and
//! numbers of TOML stay as they were written; JSON is written anew.

use toml_edit::{Array, Decor, DocumentMut, InlineTable, Item, RawString, Table, Value};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use crate::syntax::Syntax;

/// The reason why a file is not formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unformatted {
    /// The file has a mistake of syntax.
    Syntax,
    /// A comment between a key and its value, or in a dotted key of an inline table, has no place in the layout.
    Comment,
}

/// The formatted text of a file.
///
/// # Errors
/// If its syntax is wrong, or a comment would be lost.
pub fn format(name: &str, text: &str) -> Result<String, Unformatted> {
    match Syntax::of(name, text) {
        Syntax::Toml => {
            let formatted = toml(text).ok_or(Unformatted::Syntax)?;
            match comments(&formatted) == comments(text) {
                true => Ok(formatted),
                false => Err(Unformatted::Comment),
            }
        }
        Syntax::Json => {
            let json: Result<serde_json::Value, _> = serde_json::from_str(text);
            json.map(|json| format!("{json:#}\n"))
                .map_err(|_| Unformatted::Syntax)
        }
    }
}

/// The comments of a text of TOML, sorted.
fn comments(text: &str) -> Vec<&str> {
    let tokens = Source::new(text).lex();
    let comments = tokens.filter(|token| token.kind() == TokenKind::Comment);
    let texts = comments.filter_map(|token| text.get(token.span().start()..token.span().end()));
    let mut comments: Vec<_> = texts.map(str::trim_end).collect();
    comments.sort_unstable();
    comments
}

fn toml(text: &str) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let trailing = lines(document.trailing());
    table(document.as_table_mut());
    document.set_trailing(trailing);
    let formatted = document.to_string();
    let formatted = formatted.trim_start_matches('\n').trim_end();
    Some(match formatted {
        "" => String::new(),
        formatted => format!("{formatted}\n"),
    })
}

/// The entries of a table, and the tables below it.
fn table(table: &mut Table) {
    for (mut key, item) in table.iter_mut() {
        let dotted = key.dotted_decor_mut();
        let above = lines_of(dotted.prefix());
        *dotted = Decor::new(above, "");
        match item {
            Item::Value(value) => {
                let above = lines_of(key.leaf_decor().prefix());
                *key.leaf_decor_mut() = Decor::new(above, " ");
                let comment = comment(value.decor().suffix());
                self::value(value, 0);
                *value.decor_mut() = Decor::new(" ", comment);
            }
            Item::Table(inner) if inner.is_dotted() => self::table(inner),
            Item::Table(inner) => {
                *key.leaf_decor_mut() = Decor::default();
                header(inner);
            }
            Item::ArrayOfTables(items) => {
                *key.leaf_decor_mut() = Decor::default();
                items.iter_mut().for_each(header);
            }
            Item::None => {}
        }
    }
}

/// A table that has a header of its own, or is named by those below it alone.
fn header(table: &mut Table) {
    let above = lines_of(table.decor().prefix());
    let comment = comment(table.decor().suffix());
    // Comments that a blank line separates from the header belong to the table before.
    let is_apart = above.starts_with('\n') || above.contains("\n\n");
    let above = match is_apart {
        true => above,
        false => format!("\n{above}"),
    };
    *table.decor_mut() = Decor::new(above, comment);
    self::table(table);
}

/// A value, within so many lists and inline tables of several lines.
fn value(value: &mut Value, depth: usize) {
    match value {
        Value::Array(array) => self::array(array, depth),
        Value::InlineTable(table) => inline(table, depth),
        _ => {}
    }
}

fn array(array: &mut Array, depth: usize) {
    let is_long = is_long(array.trailing())
        || array.iter().any(|item| {
            let decor = item.decor();
            [decor.prefix(), decor.suffix()]
                .into_iter()
                .flatten()
                .any(is_long)
        });
    let within = depth + usize::from(is_long);
    // A comment behind the last item stands behind its comma, if one is added.
    let count = array.len();
    let mut last = array.trailing().clone();
    if let Some(item) = count.checked_sub(1).and_then(|at| array.get_mut(at)) {
        last = behind(item, &last);
    }
    for (number, item) in array.iter_mut().enumerate() {
        let prefix = match is_long {
            true => item_lines(item.decor().prefix(), within),
            false if number == 0 => String::new(),
            false => " ".to_owned(),
        };
        let suffix = before_comma(item.decor().suffix(), within);
        value(item, within);
        *item.decor_mut() = Decor::new(prefix, suffix);
    }
    let trailing = match is_long {
        true => item_lines(Some(&last), depth),
        false => String::new(),
    };
    array.set_trailing(trailing);
    array.set_trailing_comma(is_long && !array.is_empty());
}

fn inline(table: &mut InlineTable, depth: usize) {
    let is_long = is_long(table.trailing())
        || table.iter().any(|(_, item)| {
            let decor = item.decor();
            decor.suffix().is_some_and(is_long)
        })
        || table
            .iter_mut()
            .any(|(key, _)| key.leaf_decor().prefix().is_some_and(is_long));
    let within = depth + usize::from(is_long);
    let is_empty = table.is_empty();
    let mut last = table.trailing().clone();
    if let Some((_, item)) = table.iter_mut().last() {
        last = behind(item, &last);
    }
    for (mut key, item) in table.iter_mut() {
        let prefix = match is_long {
            true => item_lines(key.leaf_decor().prefix(), within),
            false => " ".to_owned(),
        };
        *key.leaf_decor_mut() = Decor::new(prefix, " ");
        let suffix = before_comma(item.decor().suffix(), within);
        value(item, within);
        *item.decor_mut() = Decor::new(" ", suffix);
    }
    let trailing = match is_long {
        true => item_lines(Some(&last), depth),
        false if is_empty => String::new(),
        false => " ".to_owned(),
    };
    table.set_trailing(trailing);
    table.set_trailing_comma(is_long && !is_empty);
}

fn is_long(space: &RawString) -> bool {
    text(Some(space)).contains('\n')
}

fn text(space: Option<&RawString>) -> &str {
    space.and_then(RawString::as_str).unwrap_or_default()
}

fn lines_of(space: Option<&RawString>) -> String {
    lines(space.unwrap_or(&RawString::default()))
}

/// Comments and blank lines above a key: none indented, one blank line for several.
fn lines(space: &RawString) -> String {
    let mut lines = String::new();
    for line in text(Some(space)).split_inclusive('\n') {
        match line.trim() {
            "" if line.ends_with('\n') && !lines.ends_with("\n\n") && lines != "\n" => {
                lines.push('\n');
            }
            "" => {}
            comment => {
                lines.push_str(comment);
                lines.push('\n');
            }
        }
    }
    lines
}

/// The comment behind a value, with the spaces that align it with other comments.
fn comment(space: Option<&RawString>) -> String {
    let text = text(space);
    let Some(at) = text.find('#') else {
        return String::new();
    };
    let (spaces, comment) = text.split_at(at);
    let spaces = match spaces.is_empty() || spaces.contains('\t') {
        true => " ",
        false => spaces,
    };
    format!("{spaces}{}", comment.trim_end())
}

/// The lines before an item, or the bracket that closes a list: the rest of the line before, comments, and the indentation.
fn item_lines(space: Option<&RawString>, depth: usize) -> String {
    let mut lines = text(space).split('\n');
    let rest = lines.next().unwrap_or_default();
    let mut out = comment(Some(&rest.into()));
    let comments = lines.map(str::trim).filter(|line| !line.is_empty());
    let indentation = "  ".repeat(depth);
    // Comments above the bracket belong to the items.
    let of_items = "  ".repeat(depth.max(1));
    for comment in comments {
        out.push('\n');
        out.push_str(&of_items);
        out.push_str(comment);
    }
    out.push('\n');
    out.push_str(&indentation);
    out
}

/// The space behind the comma of the last item, with that before it.
fn behind(item: &mut Value, trailing: &RawString) -> RawString {
    let before = text(item.decor().suffix()).to_owned();
    item.decor_mut().set_suffix("");
    format!("{before}{}", text(Some(trailing))).into()
}

/// The space between an item and its comma: only a comment keeps it.
fn before_comma(space: Option<&RawString>, depth: usize) -> String {
    match text(space).contains('#') {
        true => item_lines(space, depth),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::mistakes::Mistakes;
    use crate::syntax::parse;
    use crate::tree::{Value as Tree, ValueKind};

    /// The values of a tree, without their places.
    fn values(tree: &Tree) -> String {
        match &tree.kind {
            ValueKind::List(items) => {
                let items: Vec<_> = items.iter().map(values).collect();
                format!("[{}]", items.join(","))
            }
            ValueKind::Table(entries) => {
                let entries = entries.iter();
                let entries: Vec<_> = entries
                    .map(|entry| format!("{:?}:{}", entry.name, values(&entry.value)))
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            kind => format!("{kind:?}"),
        }
    }

    /// Formats a text, and checks that the result has the same values.
    fn formatted(text: &str) -> String {
        let formatted = format("a.toml", text).expect("its syntax is right");
        let read = |text: &str| {
            let tree = parse(Syntax::Toml, text, &mut Mistakes::default());
            values(&tree.unwrap_or_else(|| panic!("{text}")))
        };
        assert_eq!(read(&formatted), read(text), "{formatted}");
        assert_eq!(comments(&formatted), comments(text), "{formatted}");
        assert_eq!(format("a.toml", &formatted).as_ref(), Ok(&formatted));
        formatted
    }

    #[test]
    fn a_file_gets_one_layout() {
        let text = "\n\n#:schema x\n\n\n  a=1   # one\n# two\n\tb  =  [ 1,2 ,\t3,]\nc.d = 'x'\n c . e = { f=1 ,g = [ ] , h = {} }\n\
                    [ x . y ]   # head\n k = 1\n\n\n\n  # above\n\n[[z]]\nl = [ # first\n1, # after one\n  # before two\n 2\n # last\n]\n\
                    m = { n = [\n { o = 1 },\n ] }\n[[z]]\n[x.w]\nv = \"\"\"\na\n  b\"\"\"\n# end\n\n";
        expect![[r##"
            #:schema x

            a = 1   # one
            # two
            b = [1, 2, 3]
            c.d = 'x'
            c.e = { f = 1, g = [], h = {} }

            [x.y]   # head
            k = 1

            # above

            [[z]]
            l = [ # first
              1, # after one
              # before two
              2,
              # last
            ]
            m = { n = [
              { o = 1 },
            ] }

            [[z]]

            [x.w]
            v = """
            a
              b"""
            # end
        "##]]
        .assert_eq(&formatted(text));
        assert_eq!(formatted(" \n\n"), "");
        assert_eq!(formatted("# only\r\na = 1\r\n"), "# only\na = 1\n");
    }

    #[test]
    fn the_examples_say_the_same() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let files = std::fs::read_dir(folder).expect("it is part of the project");
        let paths = files.map(|file| file.expect("it can be listed").path());
        let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
        let texts = paths.map(|path| std::fs::read_to_string(path).expect("a text"));
        let texts: Vec<_> = texts.collect();
        texts.iter().for_each(|text| _ = formatted(text));
        assert!(texts.len() > 5, "{} examples", texts.len());
    }

    #[test]
    fn a_comment_without_a_place_is_not_lost() {
        for text in [
            "a = { b = # why\n 1 }\n",
            "a = { b # why\n = 1 }\n",
            "a = { b.c = 'x' # why\n }\n",
        ] {
            assert_eq!(format("a.toml", text), Err(Unformatted::Comment), "{text}");
        }
    }

    #[test]
    fn json_is_formatted_too() {
        let formatted = format("a.json", "{\"b\":[1,{\"a\":\"x\"}]}");
        let expected = "{\n  \"b\": [\n    1,\n    {\n      \"a\": \"x\"\n    }\n  ]\n}\n";
        assert_eq!(formatted.as_deref(), Ok(expected));
        assert_eq!(format("a.json", "{"), Err(Unformatted::Syntax));
    }
}
