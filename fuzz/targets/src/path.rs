//! Path normalization: the normal form is a fixed point, is never longer, and keeps no second
//! reading.

use steppe_http::path::{Normalized, normalize};

/// Checks one input; panics where a property fails.
pub fn run(path: &[u8]) {
    let mut out = vec![0; path.len()];
    let normal = match normalize(path, &mut out) {
        Ok(Normalized::Clean) => path,
        Ok(Normalized::Rewritten { len }) => &out[..len],
        Err(_) => return,
    };
    assert!(normal.len() <= path.len());
    assert_eq!(
        normalize(normal, &mut vec![0; normal.len()]),
        Ok(Normalized::Clean)
    );
    assert!(normal.starts_with(b"/"));
    let mut segments = normal[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        assert!(segment != b"." && segment != b"..", "dot segment");
        assert!(
            !segment.is_empty() || segments.peek().is_none(),
            "empty segment"
        );
    }
}
