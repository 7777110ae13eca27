//! The PROXY protocol: a header is read the same however much follows it, and what it says
//! reads back when it is written.

use steppe_net::limits::PROXY_V2_BYTES_MAX;
use steppe_net::proxy_protocol::{EncodedHeader, ProxyHeader, ProxyVersion, parse};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    // A reader that reads on while more is needed never needs more than this.
    let least =
        (0..=bytes.len().min(PROXY_V2_BYTES_MAX)).find(|&end| parse(&bytes[..end]) != Ok(None));
    let verdict = parse(bytes);
    match least {
        Some(end) => assert_eq!(parse(&bytes[..end]), verdict),
        None => assert!(bytes.len() < PROXY_V2_BYTES_MAX && verdict == Ok(None)),
    }
    let Ok(Some((header, count))) = verdict else {
        return;
    };
    assert_eq!(least, Some(count));
    if let ProxyHeader::For(ends) = header {
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            let encoded = EncodedHeader::new(version, Some(ends));
            let Ok(Some((ProxyHeader::For(again), all))) = parse(encoded.as_bytes()) else {
                panic!("{ends:?} does not read back");
            };
            assert_eq!(all, encoded.as_bytes().len());
            assert_eq!(
                again.source.ip().to_canonical(),
                ends.source.ip().to_canonical()
            );
            assert_eq!(again.source.port(), ends.source.port());
        }
    }
}
