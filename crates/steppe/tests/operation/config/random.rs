//! Random texts: reading any of them ends in a configuration or a report.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use steppe_node::config::{self, Drawing};

const PIECES: [&str; 35] = [
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    "\"",
    "\"\"\"",
    "'",
    ",",
    ".",
    "\n",
    "\r",
    "#",
    "\\u0000",
    "\u{0}",
    "\u{1b}",
    "\u{feff}",
    "é",
    "-1",
    "1e999",
    "nan",
    "0x7f",
    "99999999999999999999999",
    "1979-05-27",
    "true",
    "null",
    "\"%\"",
    "unix:",
    "http.route",
    "[[site]]",
    "servers = [{}]",
    "*",
    ":",
];

const SITES: &str = r#"
[[site]]
hosts = ["a.example", "*.b.example"]
proxy = "127.0.0.1:3000"
compress = true
[[site]]
name = "c"
hosts = "www.c.example"
www = "remove"
files = "public"
fallback = "/index.html"
https = { cert = "c.crt", key = "c.key" }
listen = ["[::]:443", "unix:c.sock"]
[[http.listener]]
listen = "[::]:80"
[http]
route = [{ name = "a", listener = "[::]:80", redirect = "https://c.example" }]
"#;

fn example(index: usize) -> String {
    let names = ["gateway.toml", "gateway-bench-h1.toml", "first.toml"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = |name: &str| fs::read_to_string(folder.join(name)).expect("an example");
    match names.get(index) {
        Some(name) => text(name),
        None if index == names.len() => SITES.to_owned(),
        None => {
            let config = config::parse("first.toml", &text("first.toml")).expect("it is valid");
            config.effective().to_string()
        }
    }
}

/// A change of a text: its position, the number of bytes that it removes, and the piece that it
/// inserts.
type Edit = (prop::sample::Index, usize, usize, prop::sample::Index);

fn edited(mut text: String, edits: &[Edit]) -> String {
    for (at, taken, what, from) in edits {
        let floor = |at: usize| {
            (0..=at)
                .rev()
                .find(|&at| text.is_char_boundary(at))
                .unwrap_or(0)
        };
        let start = floor(at.index(text.len() + 1));
        let end = floor((start + taken).min(text.len())).max(start);
        let piece = match PIECES.get(*what) {
            Some(piece) => (*piece).to_owned(),
            // Another part of the same text.
            None => text[floor(from.index(text.len() + 1))..]
                .chars()
                .take(40)
                .collect(),
        };
        text.replace_range(start..end, &piece);
    }
    text
}

fn judge(name: &str, text: &str) {
    let outcome = config::read(name, text);
    assert_eq!(outcome.config.is_none(), outcome.report.errors() > 0);
    for mistake in outcome.report.mistakes() {
        let is_inside = mistake.span.start <= mistake.span.end && mistake.span.end <= text.len();
        assert!(is_inside, "{mistake:?} of {} bytes", text.len());
        assert!(!mistake.message.is_empty());
    }
    let drawn = outcome.report.render(Drawing::Plain);
    assert_eq!(drawn.is_empty(), outcome.report.mistakes().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_example_is_judged(
        index in 0_usize..5,
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), 0_usize..12, 0..PIECES.len() + 10, any::<prop::sample::Index>()),
            1..6,
        ),
    ) {
        judge("a", &edited(example(index), &edits));
    }

    #[test]
    fn pieces_are_judged(pieces in prop::collection::vec(0..PIECES.len(), 0..40), is_json: bool) {
        let text: String = pieces.iter().map(|&piece| PIECES[piece]).collect();
        judge(if is_json { "a.json" } else { "a.toml" }, &text);
    }

    #[test]
    fn any_text_is_judged(text in ".{0,200}", is_json: bool) {
        judge(if is_json { "a.json" } else { "a.toml" }, &text);
    }
}

#[test]
fn depth_and_length_are_bounded() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{a=", "}")] {
        for depth in [31, 33, 79, 81, 600, 100_000] {
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            judge("a.json", &format!("{{\"node\":{open}1{close}}}"));
            judge("a.toml", &format!("node={open}1{close}"));
        }
    }
    judge("a.toml", &"a.".repeat(300_000));
    let long = "#".repeat(config::limits::FILE_BYTES_MAX + 1);
    let report = config::parse("a.toml", &long).expect_err("too long");
    assert_eq!(
        report.mistakes()[0].message,
        "1048577 bytes, at most 1048576 are allowed"
    );
}

#[test]
fn many_mistakes_are_counted_and_few_are_drawn() {
    let text: String = (0..5_000).map(|key| format!("key{key} = 1\n")).collect();
    let report = config::parse("a.toml", &text).expect_err("unknown keys");
    // One more for the missing listener.
    assert_eq!(report.errors(), 5_001);
    let drawn = report.render(Drawing::Plain);
    assert!(
        drawn.ends_with("… and 4901 more\n\na.toml: 5001 errors\n"),
        "{drawn}"
    );
}
