//! Fields of requests for files: ranges lie within the file and apart from each other,
//! entity tags are quoted, weights are at most one.
//!
//! Eight bytes are the size of the file, the others a field's value.

use steppe_http::conditional::any_tag;
use steppe_http::conditional::range::{RequestedRange, requested};
use steppe_http::files::weight;
use steppe_http::limits::RANGES_MAX;

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let Some((bytes, value)) = input.split_first_chunk() else {
        return;
    };
    let bytes = u64::from_le_bytes(*bytes);
    match requested(value, bytes) {
        RequestedRange::Whole | RequestedRange::Unsatisfiable => {}
        RequestedRange::Single(range) => assert!(range.start < range.end && range.end <= bytes),
        RequestedRange::Multiple(mut ranges) => {
            assert!((2..=RANGES_MAX).contains(&ranges.len()));
            ranges.sort_by_key(|range| range.start);
            let are_whole = ranges.iter().all(|range| range.start < range.end);
            assert!(are_whole && ranges.iter().all(|range| range.end <= bytes));
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }
    let is_found = any_tag(value, |tag| {
        let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
        assert!(opaque.len() >= 2 && opaque.starts_with(b"\"") && opaque.ends_with(b"\""));
        false
    });
    assert!(!is_found);
    assert!(weight(value) <= 1000);
}
