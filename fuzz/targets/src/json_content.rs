//! JSON content of requests, decoded and edited: the result is JSON of bounded length in which
//! nothing is left to edit, and no memory is held afterwards.
//!
//! The first byte is the number of a coding, the rest content.

use serde_json::value::RawValue;
use steppe_http::config::{Coding, JsonEdits, Unreadable};
use steppe_http::filter::rewrite_json;
use steppe_mem::Budget;

const BYTES_MAX: u64 = 64 << 10;

fn edits() -> JsonEdits {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    JsonEdits {
        remove: vec!["a".to_owned(), "b.c".to_owned()],
        rename: vec![pair("d", "e"), pair("b.f", "g")],
        set: vec![pair("h", "[1]"), pair("b.i", "null"), pair("j.k.l", "{}")],
        max_bytes: BYTES_MAX,
        unreadable: Unreadable::Refuse,
    }
}

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let Some((coding, content)) = input.split_first() else {
        return;
    };
    let coding = match coding % 4 {
        0 => None,
        1 => Some(Coding::Gzip),
        2 => Some(Coding::Zstd),
        _ => Some(Coding::Br),
    };
    let budget = Budget::new(64 << 20);
    let lease = budget.root().lease();
    let edits = edits();
    if let Ok(edited) = rewrite_json(&edits, coding, content, &lease) {
        let edited = edited.expect("what can't be read is refused");
        assert!(edited.len() as u64 <= BYTES_MAX);
        let text = serde_json::from_slice::<&RawValue>(edited.filled());
        text.expect("it is JSON");
        match rewrite_json(&edits, None, edited.filled(), &lease) {
            Ok(again) => {
                let again = again.expect("it can be read");
                assert_eq!(again.filled(), edited.filled());
            }
            Err(error) => assert_eq!(error.status, 413),
        }
    }
}
