//! `Cache-Control` and its kin: every number is bounded, a withheld field is a name, and a request selects the
//! response that it was answered with.
//!
//! An input is lines; the first byte of a line is the number of a field, the rest its value.

use steppe_http::cache::control::{RequestControl, ResponseControl, SECONDS_MAX};
use steppe_http::cache::selects_itself;
use steppe_http::field::{FieldBlock, FieldList, is_token, is_value_byte};
use steppe_mem::{Budget, Buffer};

const NAMES: [&[u8]; 6] = [
    b"cache-control",
    b"cdn-cache-control",
    b"vary",
    b"accept-encoding",
    b"a",
    b"pragma",
];

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let budget = Budget::new(1 << 20);
    let Ok(buffer) = Buffer::take(&budget.root().lease(), 4096) else {
        return;
    };
    let mut fields = FieldBlock::new(buffer, FieldList::take());
    for line in input.split(|&byte| byte == b'\n').take(32) {
        let Some((number, value)) = line.split_first() else {
            continue;
        };
        // The codecs of HTTP/1.1 and HTTP/2 refuse every other byte before a line is appended.
        if !value.iter().all(|&byte| is_value_byte(byte)) {
            continue;
        }
        let name = NAMES[usize::from(*number) % NAMES.len()];
        if fields.append(name, value).is_err() {
            return;
        }
    }
    let response = ResponseControl::of(&fields);
    let numbers = [
        response.max_age,
        response.s_maxage,
        response.stale_while_revalidate,
        response.stale_if_error,
    ];
    assert!(
        numbers
            .into_iter()
            .flatten()
            .all(|number| number <= SECONDS_MAX)
    );
    assert!(response.withheld.iter().all(|name| is_token(name)));
    let request = RequestControl::of(&fields);
    let numbers = [
        request.max_age,
        request.min_fresh,
        request.max_stale,
        request.stale_if_error,
    ];
    assert!(
        numbers
            .into_iter()
            .flatten()
            .all(|number| number <= SECONDS_MAX)
    );
    assert!(selects_itself(&fields));
}
