//! A peer's bytes within a line.
//!
//! Invariant: what is put has no byte below 0x20 and, in `combined`, none above 0x7e; a
//! quote is always escaped.

use steppe_telemetry::LogLine;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// As nginx does it: `"`, `\` and what can't be printed become `\xHH`.
pub(super) fn combined(line: &mut LogLine<'_>, bytes: &[u8]) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' if !matches!(byte, b'"' | b'\\'));
    each(line, bytes, is_plain, |line, byte| {
        line.put(&[
            b'\\',
            b'x',
            HEX[usize::from(byte >> 4)],
            HEX[usize::from(byte & 15)],
        ]);
    });
}

/// The inside of a string of JSON. Where bytes are no UTF-8, U+FFFD stands for them.
pub(super) fn json(line: &mut LogLine<'_>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        json_text(line, chunk.valid());
        if !chunk.invalid().is_empty() {
            line.put("\u{fffd}".as_bytes());
        }
    }
}

/// Controls of eight bits are escaped too: some terminals obey them.
fn json_text(line: &mut LogLine<'_>, text: &str) {
    for run in text.split_inclusive(is_control_1) {
        let control = run.chars().next_back().filter(|&last| is_control_1(last));
        let plain = control.map_or(run.len(), |control| run.len() - control.len_utf8());
        json_ascii(line, &run[..plain]);
        if let Some(control) = control {
            put_escape(line, u8::try_from(u32::from(control)).expect("below 256"));
        }
    }
}

fn is_control_1(character: char) -> bool {
    matches!(character, '\u{80}'..='\u{9f}')
}

fn put_escape(line: &mut LogLine<'_>, byte: u8) {
    let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
    line.put(&[b'\\', b'u', b'0', b'0', high, low]);
}

fn json_ascii(line: &mut LogLine<'_>, text: &str) {
    let is_plain = |byte: &u8| !matches!(byte, 0..=0x1f | b'"' | b'\\' | 0x7f);
    each(line, text.as_bytes(), is_plain, |line, byte| match byte {
        b'"' => line.put(b"\\\""),
        b'\\' => line.put(b"\\\\"),
        b'\t' => line.put(b"\\t"),
        _ => put_escape(line, byte),
    });
}

/// Puts plain bytes in runs, and each of the others by `escape`.
fn each(
    line: &mut LogLine<'_>,
    mut bytes: &[u8],
    is_plain: impl Fn(&u8) -> bool,
    escape: impl Fn(&mut LogLine<'_>, u8),
) {
    loop {
        let run = bytes.iter().position(|byte| !is_plain(byte));
        let Some(run) = run else {
            return line.put(bytes);
        };
        line.put(&bytes[..run]);
        escape(line, bytes[run]);
        bytes = &bytes[run + 1..];
    }
}
