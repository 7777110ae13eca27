//! `Content-Type` by the end of a file's name. Spec: RFC 9110 §8.3.

use std::path::Path;

/// What is said of names that tell nothing.
const UNKNOWN: &str = "application/octet-stream";

/// The media type of the file at `path`, without parameters.
pub(super) fn of(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let name = std::str::from_utf8(name).unwrap_or_default();
    match mime_guess::from_path(Path::new(name)).first_raw() {
        // RFC 9239 §6: one name for all of it.
        Some("application/javascript") => "text/javascript",
        guess => guess.unwrap_or(UNKNOWN),
    }
}

/// What follows the type: text is UTF-8 these days, and a browser that is not told guesses.
pub(super) fn parameters(media_type: &str) -> &'static str {
    if media_type.starts_with("text/") {
        "; charset=utf-8"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_types() {
        for (path, expected) in [
            ("a/b.html", "text/html"),
            ("b.HTML", "text/html"),
            ("site.css", "text/css"),
            ("app.js", "text/javascript"),
            ("app.mjs", "text/javascript"),
            ("a.wasm", "application/wasm"),
            ("a.json", "application/json"),
            ("a.svg", "image/svg+xml"),
            ("a.webp", "image/webp"),
            ("a.woff2", "font/woff2"),
            ("a.b/README", UNKNOWN),
            ("caf\u{e9}.txt", "text/plain"),
        ] {
            assert_eq!(of(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(of(b"\xff.html"), UNKNOWN);
        assert_eq!(parameters("text/css"), "; charset=utf-8");
        assert_eq!(parameters("image/png"), "");
    }
}
