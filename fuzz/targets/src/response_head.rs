//! Response heads: one reading, the same as another parser's, and none before the head is whole.

use steppe_http::field::FieldList;
use steppe_http::h1::parse::{HeadLimits, response};
use steppe_mem::Budget;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 8192,
    fields: 64,
};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let lease = Budget::new(1 << 20).root().lease();
    let mut fields = FieldList::take();
    let Ok(Some(line)) = response(bytes, LIMITS, &mut fields, &lease) else {
        return;
    };
    assert!((100..600).contains(&line.status));
    let head = &bytes[..line.head_bytes];
    let mut others = FieldList::take();
    for end in [0, head.len() / 2, head.len() - 1] {
        assert_eq!(
            response(&head[..end], LIMITS, &mut others, &lease),
            Ok(None),
            "{end}"
        );
    }

    // The oracle knows no higher minor version.
    let minor = bytes["HTTP/1.".len()];
    if minor > b'1' {
        return;
    }
    let mut read = [httparse::EMPTY_HEADER; 64];
    let mut oracle = httparse::Response::new(&mut read);
    let parsed = oracle
        .parse(bytes)
        .expect("whatever is accepted here is accepted there");
    assert_eq!(parsed, httparse::Status::Complete(line.head_bytes));
    assert_eq!(oracle.code, Some(line.status));
    // The oracle gives no phrase that has bytes beyond ASCII in it.
    let reason = line.reason.of(bytes);
    if reason.is_ascii() {
        assert_eq!(oracle.reason.map(str::as_bytes), Some(reason));
    }
    assert_eq!(oracle.headers.len(), fields.len());
    for (field, header) in fields.iter().zip(oracle.headers.iter()) {
        assert_eq!(field.name(bytes), header.name.as_bytes());
        assert_eq!(field.value(bytes), header.value);
    }
}
