//! Request heads: one reading, the same as another parser's, and none before the head is whole.

use steppe_http::field::FieldList;
use steppe_http::h1::parse::{HeadLimits, may_be_complete, request};
use steppe_http::head::Version;
use steppe_mem::Budget;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 8192,
    fields: 64,
};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let lease = Budget::new(1 << 20).root().lease();
    let mut fields = FieldList::take();
    let Ok(Some(line)) = request(bytes, LIMITS, &mut fields, &lease) else {
        return;
    };
    assert!(line.head_bytes <= bytes.len());
    let head = &bytes[..line.head_bytes];
    assert!(
        may_be_complete(head, head.len() - 1),
        "the last byte is what completed it"
    );

    // Nothing shorter is a head, and nothing behind it matters.
    let mut others = FieldList::take();
    for end in [0, head.len() / 2, head.len() - 1] {
        assert_eq!(
            request(&head[..end], LIMITS, &mut others, &lease),
            Ok(None),
            "{end}"
        );
    }
    assert_eq!(request(head, LIMITS, &mut others, &lease), Ok(Some(line)));
    assert_eq!(others.len(), fields.len());

    // The oracle knows no higher minor version.
    let minor = bytes[line.target.end() + " HTTP/1.".len()];
    if minor > b'1' {
        return;
    }
    let mut read = [httparse::EMPTY_HEADER; 64];
    let mut oracle = httparse::Request::new(&mut read);
    let parsed = oracle
        .parse(bytes)
        .expect("whatever is accepted here is accepted there");
    assert_eq!(parsed, httparse::Status::Complete(line.head_bytes));
    assert_eq!(
        oracle.method.map(str::as_bytes),
        Some(line.method.of(bytes))
    );
    assert_eq!(oracle.path.map(str::as_bytes), Some(line.target.of(bytes)));
    let minor = u8::from(line.version == Version::Http11);
    assert_eq!(oracle.version, Some(minor));
    assert_eq!(oracle.headers.len(), fields.len());
    for (field, header) in fields.iter().zip(oracle.headers.iter()) {
        assert_eq!(field.name(bytes), header.name.as_bytes());
        assert_eq!(field.value(bytes), header.value);
    }
}
