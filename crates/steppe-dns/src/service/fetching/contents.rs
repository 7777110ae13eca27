//! Check of a fetched list: the page of a captive portal, or a truncated list, does not replace a good one.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::files::{for_each_line, open};
use crate::limits::LIST_SHRINKS_MAX;
use crate::rules::{PlainScope, Reader};

/// Bytes at the front of a file that are searched for the start of a page.
const FRONT_BYTES: u64 = 4096;

/// The reason why a fetched file must not replace the `last` good one; `None` if it may.
///
/// # Errors
/// If one of the files can't be read.
pub(super) fn refusal(
    fetched: &Path,
    last: Option<&Path>,
    plain: PlainScope,
) -> io::Result<Option<String>> {
    if is_page(open(fetched)?)? {
        return Ok(Some("an HTML page, not a list".to_owned()));
    }
    let rules = rules(fetched, plain)?;
    if rules == 0 {
        return Ok(Some("no rule in the fetched list".to_owned()));
    }
    let Some(last) = last else {
        return Ok(None);
    };
    let before = self::rules(last, plain)?;
    let has_shrunk = rules.saturating_mul(LIST_SHRINKS_MAX) < before;
    Ok(has_shrunk.then(|| {
        let last = last.display();
        format!("{rules} rules instead of {before}: delete {last} to accept the new list")
    }))
}

/// True for a file of HTML or XML: no line of a list begins with `<`.
fn is_page(file: impl Read) -> io::Result<bool> {
    let mut front = BufReader::new(file.take(FRONT_BYTES));
    loop {
        let bytes = front.fill_buf()?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        match text.trim_ascii_start().first() {
            Some(first) => return Ok(*first == b'<'),
            None if bytes.is_empty() => return Ok(false),
            None => {
                let len = bytes.len();
                front.consume(len);
            }
        }
    }
}

/// The number of rules in a list; 0 for a text such as an error message.
fn rules(file: &Path, plain: PlainScope) -> io::Result<u64> {
    let (mut reader, mut rules) = (Reader::new(plain), 0);
    for_each_line(open(file)?, |_, line| {
        reader.line(line, |_| rules += 1);
        io::Result::Ok(())
    })?;
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_no_list_whatever_it_has() {
        for (text, expected) in [
            ("<!DOCTYPE html>\nads.example\n", true),
            ("\u{feff}\r\n  <html><body>", true),
            ("<?xml version=\"1.0\"?>", true),
            ("", false),
            ("\n\n", false),
            ("! <html>\n||ads.example^", false),
            ("ads.example", false),
        ] {
            assert_eq!(is_page(text.as_bytes()).expect("reads"), expected, "{text}");
        }
        let far = format!("{}<html>", " ".repeat(2000));
        assert!(is_page(far.as_bytes()).expect("reads"));
    }
}
