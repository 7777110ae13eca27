//! Parts of messages in either model, and settings of the other implementation.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

/// Names and values of fields.
pub fn fields() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![
        Just("x-a".to_owned()),
        "x-[a-z]{1,12}",
        Just("cookie".to_owned())
    ];
    let value = "[ -~]{0,40}".prop_map(|value| value.trim().to_owned());
    let long = (0..6000_usize).prop_map(|bytes| "v".repeat(bytes));
    proptest::collection::vec((name, prop_oneof![9 => value, 1 => long]), 0..12)
}

/// Lengths of the pieces of content.
pub fn pieces() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![0..20_usize, 0..40_000_usize], 0..5)
}

/// Bytes that a transport moves at once, one after the other, from the beginning again.
pub fn splits() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![1..10_usize, 1..5000_usize], 1..8)
}

/// Settings of the other implementation.
#[derive(Debug, Clone)]
pub struct Settings {
    pub window: u32,
    pub connection_window: u32,
    pub table: u32,
    pub frame: u32,
}

pub fn settings() -> impl Strategy<Value = Settings> {
    (
        prop_oneof![1000..5000_u32, 1000..200_000_u32],
        65_535..300_000_u32,
        prop_oneof![Just(4096_u32), 0..10_000_u32],
        prop_oneof![Just(16_384_u32), 16_384..100_000_u32],
    )
        .prop_map(|(window, connection_window, table, frame)| Settings {
            window,
            connection_window,
            table,
            frame,
        })
}

/// Fields of a message of the other implementation.
pub fn map(fields: &[(String, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("it is a name");
        map.append(name, HeaderValue::from_str(value).expect("it is a value"));
    }
    map
}

/// Content of a piece, told apart from others by its index.
pub fn content(index: usize, bytes: usize) -> Bytes {
    let byte = |at: usize| u8::try_from((at * 7 + index) % 251).expect("it is small");
    (0..bytes).map(byte).collect::<Vec<_>>().into()
}

/// Those of `fields` that are echoed, in the order of their names.
pub fn echoed(fields: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let is_echoed = |name: &HeaderName| name.as_str().starts_with("x-");
    let lines = fields.iter().filter(|(name, _)| is_echoed(name));
    let mut lines: Vec<_> = lines
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    // Values of one name stay in their order.
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    lines
}
