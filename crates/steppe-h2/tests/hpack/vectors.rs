//! The examples of RFC 7541 appendix C.

use std::fmt::Write;

use steppe_h2::hpack::Decoder;

use crate::sink::entries;
use crate::support::{decode, unhex};

/// Decodes the blocks of the file, and writes the file as the decoder sees it.
#[test]
fn examples_of_the_rfc() {
    let text = include_str!("../../testdata/hpack/rfc7541-appendix-c.txt");
    let mut decoder = Decoder::new(0);
    let mut seen = String::new();
    let mut blocks = 0;
    for line in text.lines() {
        let (kind, rest) = line.split_once(' ').unwrap_or_default();
        match kind {
            "connection" => decoder = Decoder::new(rest.parse().expect("a size")),
            "block" => blocks += 1,
            _ => continue,
        }
        writeln!(seen, "{line}").expect("a string");
        if kind == "block" {
            let (_, hex) = rest.split_once(' ').expect("a block");
            decode_block(&mut decoder, &unhex(hex), &mut seen);
        }
    }
    let text: String = text
        .split_inclusive('\n')
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(seen, text);
    assert_eq!(blocks, 16);
}

fn decode_block(decoder: &mut Decoder, block: &[u8], seen: &mut String) {
    let text = |string: &[u8]| String::from_utf8_lossy(string).into_owned();
    for ((name, value), _) in decode(decoder, block).expect("valid") {
        writeln!(seen, "field {}: {}", text(&name), text(&value)).expect("a string");
    }
    for (name, value) in entries(decoder.table()) {
        let size = name.len() + value.len() + 32;
        writeln!(seen, "entry {size} {}: {}", text(&name), text(&value)).expect("a string");
    }
    writeln!(seen, "size {}", decoder.table().size()).expect("a string");
}
