//! Media types, which are all that needs neither a file nor a request.

use super::*;

#[test]
fn types_follow_the_ending() {
    for (path, index, kind) in [
        ("/a/b.html", None, "text/html; charset=utf-8"),
        ("/a/b.HTML", None, "text/html; charset=utf-8"),
        ("/a/b.css", None, "text/css; charset=utf-8"),
        ("/a/b.js", None, "text/javascript; charset=utf-8"),
        ("/a/b.mjs", None, "text/javascript; charset=utf-8"),
        ("/a/b.json", None, "application/json"),
        ("/a/b.wasm", None, "application/wasm"),
        ("/a/b.svg", None, "image/svg+xml"),
        ("/a/b.webp", None, "image/webp"),
        ("/a/b.avif", None, "image/avif"),
        ("/a/b.woff2", None, "font/woff2"),
        ("/a/b.pdf", None, "application/pdf"),
        ("/a/b.tar.gz", None, "application/gzip"),
        ("/a.html/b", None, "application/octet-stream"),
        ("/a/b.", None, "application/octet-stream"),
        ("/a/b.nobody-knows", None, "application/octet-stream"),
        ("/a/", Some("index.html"), "text/html; charset=utf-8"),
    ] {
        let kind_of = media_type(path.as_bytes(), index.map(str::as_bytes));
        assert_eq!(kind_of.as_str(), kind, "{path}");
    }
}
