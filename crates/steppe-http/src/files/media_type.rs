//! `Content-Type` by file name extension. Spec: RFC 9110 §8.3.

use std::path::Path;

/// The type of an unknown extension.
const UNKNOWN: &str = "application/octet-stream";

/// The media type of the file at `path`, without parameters.
pub(crate) fn of(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let name = std::str::from_utf8(name).unwrap_or_default();
    match mime_guess::from_path(Path::new(name)).first_raw() {
        // RFC 9239 §6: the one registered type.
        Some("application/javascript") => "text/javascript",
        guess => guess.unwrap_or(UNKNOWN),
    }
}

/// The type's parameters: text is declared as UTF-8, since browsers guess otherwise.
pub(crate) fn parameters(media_type: &str) -> &'static str {
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
