//! The most memory that parsed JSON (`serde_json::Value`) takes, by the punctuation of its text.
//!
//! A value follows a bracket or a comma, so their number bounds that of values, whatever stands in strings. Parsing is
//! [measured](steppe_mem::measured); this is what is reserved before, and too much by a factor of 2 to 5.

use serde_json::Value;
use steppe_mem::alloc::block_bytes;

/// An object's hash table and entries of their smallest size. indexmap: four buckets; the entries of three.
const OBJECT_BYTES: usize = 64 + block_bytes(3 * ENTRY_BYTES);
/// A member: its name, hash and value.
const ENTRY_BYTES: usize = size_of::<Value>() + size_of::<String>() + size_of::<u64>();
/// Lists double: up to half of a list is free, and size classes round by up to a quarter. A text has a block.
const VALUE_BYTES: usize = 2 * (ENTRY_BYTES + 24) * 5 / 4 + 2 * block_bytes(1);
/// Each array begins with room for four.
const ARRAY_BYTES: usize = block_bytes(4 * size_of::<Value>());

/// Bytes that a parsed `text` takes at most.
pub(super) fn json_bytes_max(text: &[u8]) -> usize {
    let (mut objects, mut arrays, mut commas) = (0, 0, 0);
    for byte in text {
        match byte {
            b'{' => objects += 1,
            b'[' => arrays += 1,
            b',' => commas += 1,
            _ => {}
        }
    }
    let values = objects + arrays + commas + 1;
    // Texts and names: a long one is rounded to its class.
    let texts = text.len() * 5 / 4 + block_bytes(text.len());
    objects * OBJECT_BYTES + arrays * ARRAY_BYTES + values * VALUE_BYTES + texts
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;
    use steppe_mem::alloc::thread_block_bytes;

    use super::*;

    /// Bytes that a parsed text takes, and those that were to be reserved for it.
    fn taken_and_reserved(text: &str) -> (usize, usize) {
        let before = thread_block_bytes();
        let value: Value = serde_json::from_str(text).expect("JSON");
        let taken = usize::try_from(thread_block_bytes() - before).expect("more than before");
        drop(value);
        (taken, json_bytes_max(text.as_bytes()))
    }

    /// Texts of `bytes` bytes that take much.
    pub(super) fn greedy(bytes: usize) -> Vec<String> {
        let repeat = |part: &str| {
            let parts = vec![part; (bytes - 2) / (part.len() + 1)];
            format!("[{}]", parts.join(","))
        };
        let mut members = String::from("{\"a\":0");
        for at in 0.. {
            if members.len() + 12 > bytes {
                break;
            }
            write!(members, ",\"{at:x}\":[]").expect("a string");
        }
        members.push('}');
        let deep = format!("{}0{}", "{\"\":".repeat(120), "}".repeat(120));
        vec![
            repeat("{\"\":0}"),
            repeat("0"),
            repeat("[0]"),
            repeat("[{\"\":[]}]"),
            repeat("\"\""),
            repeat("\"abcdefghijklmnopq\""),
            repeat(&deep),
            members,
        ]
    }

    #[test]
    fn what_takes_most_takes_less_than_is_reserved() {
        assert!(steppe_mem::alloc::is_counting());
        for bytes in [1 << 10, 6 << 10, 64 << 10] {
            for text in greedy(bytes) {
                let (taken, reserved) = taken_and_reserved(&text);
                let start: String = text.chars().take(24).collect();
                assert!(taken <= reserved, "{start}: {taken} of {reserved}");
                // Otherwise a busy node refuses tokens for memory that nobody needs.
                let is_close = reserved <= 8 * taken + 2 * text.len();
                assert!(is_close, "{start}: {taken} of {reserved}");
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a-z{},\"\\\\]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 400, 20, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                prop::collection::vec(("[a-z]{0,20}", inner), 0..20)
                    .prop_map(|members| members.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_takes_more_than_is_reserved(value in values()) {
            let (taken, reserved) = taken_and_reserved(&value.to_string());
            prop_assert!(taken <= reserved, "{taken} of {reserved}");
        }
    }
}
