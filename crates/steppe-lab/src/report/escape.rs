//! Escapes foreign text for the place where it is shown.
//!
//! Names, command lines and messages come from scenarios and targets: none of it may become markup
//! of a page, a cell of a table, or a command of a terminal. Characters that XML forbids (and
//! terminals obey) are shown by their code point; marks that turn the direction of text are too.

use std::fmt::Write;

/// Escapes for HTML, SVG and XML, in text and in quoted attributes.
pub(super) fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => push_visible(&mut safe, c),
        }
    }
    safe
}

/// Escapes for a line of GitHub-flavored Markdown, also within a table.
pub(super) fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let after = characters.peek().copied().unwrap_or(' ');
        let is_inside_word = before.is_alphanumeric() && after.is_alphanumeric();
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            // An address would become a link.
            ':' if after == '/' => safe.push_str("\\:"),
            '_' if is_inside_word => safe.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' | '!' => {
                safe.push('\\');
                safe.push(c);
            }
            '\n' | '\r' | '\t' => safe.push(' '),
            c => push_visible(&mut safe, c),
        }
        before = c;
    }
    safe
}

/// A block of code in Markdown, with a fence that the text can't close.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let mut block = format!("{fence}text\n");
    for c in text.trim_end().chars() {
        push_visible(&mut block, c);
    }
    block.push('\n');
    block.push_str(&fence);
    block
}

/// Escapes for a line on a terminal.
pub(crate) fn terminal(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => safe.push(' '),
            c => push_visible(&mut safe, c),
        }
    }
    safe
}

/// Escapes for lines on a terminal.
pub(crate) fn terminal_lines(text: &str) -> String {
    text.lines().map(terminal).collect::<Vec<_>>().join("\n")
}

fn push_visible(text: &mut String, c: char) {
    if is_forbidden(c) && !matches!(c, '\n' | '\r' | '\t') {
        // Writing to a string can't fail.
        let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
    } else {
        text.push(c);
    }
}

/// True for control characters, marks that turn the direction of text, and characters that XML does
/// not have.
pub(crate) fn is_forbidden(c: char) -> bool {
    let turns_direction =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') || turns_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_stays_text() {
        assert_eq!(
            markup("<b a='1'>\"&\u{0}\u{1b}[2J\u{202e}"),
            "&lt;b a=&#39;1&#39;&gt;&quot;&amp;\\u{0}\\u{1b}[2J\\u{202e}"
        );
    }

    #[test]
    fn a_cell_stays_a_cell() {
        assert_eq!(
            markdown("a|b\n*c* `d` rss_growth _e_ http://f <g> $1$"),
            "a\\|b \\*c\\* \\`d\\` rss_growth \\_e\\_ http\\://f &lt;g&gt; \\$1\\$"
        );
    }

    #[test]
    fn a_fence_outlasts_its_text() {
        assert_eq!(fenced("a\n````\nb\n"), "`````text\na\n````\nb\n`````");
        assert_eq!(fenced("plain"), "```text\nplain\n```");
    }

    #[test]
    fn a_terminal_obeys_nothing() {
        assert_eq!(
            terminal("a\u{1b}[31m\u{7}\u{9b}\nb"),
            "a\\u{1b}[31m\\u{7}\\u{9b} b"
        );
        assert_eq!(terminal_lines("a\u{1b}c\nb\r"), "a\\u{1b}c\nb ");
    }
}
