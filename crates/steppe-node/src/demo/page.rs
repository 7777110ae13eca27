//! The page: an introduction to Steppe, and the request as it arrived.

use std::fmt::Write;

use axum::extract::Request;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use steppe_telemetry::Escaped;

use super::limits::{FIELDS_SHOWN_MAX, VALUE_BYTES_SHOWN_MAX};

/// Shows the request.
pub(super) async fn show(request: Request) -> Response {
    let (head, _) = request.into_parts();
    let fields = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        // No resource is loaded and no script runs, whatever a request contains.
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'",
        ),
    ];
    (fields, page(&head)).into_response()
}

fn page(head: &Parts) -> String {
    let mut fields = String::new();
    for (name, value) in head.headers.iter().take(FIELDS_SHOWN_MAX) {
        let (name, value) = (shown(name.as_str().as_bytes()), shown(value.as_bytes()));
        // Writing to a string does not fail.
        let _ = writeln!(fields, "<tr><td>{name}<td>{value}");
    }
    let hidden = head.headers.len().saturating_sub(FIELDS_SHOWN_MAX);
    if hidden > 0 {
        let _ = writeln!(fields, "<tr><td>…<td>{hidden} more");
    }
    let target = head
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    TEMPLATE
        .replace("{method}", &shown(head.method.as_str().as_bytes()))
        .replace("{version}", &format!("{:?}", head.version))
        .replace("{target}", &shown(target.as_bytes()))
        // Last: a value may contain any of the names above.
        .replace("{fields}", &fields)
}

/// The text printable, cut, and without markup.
fn shown(bytes: &[u8]) -> String {
    let text = Escaped::first(bytes, VALUE_BYTES_SHOWN_MAX).to_string();
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // A template's name in a value must not be filled in.
            '{' => html.push_str("&#123;"),
            _ => html.push(character),
        }
    }
    html
}

const TEMPLATE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Steppe</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; color: #222; background: #fdfcf8 }
  h1 { font-weight: 600 } code, td, pre { font: 14px/1.5 ui-monospace, monospace }
  table { border-collapse: collapse; width: 100% } td { padding: .2rem .6rem .2rem 0; vertical-align: top; overflow-wrap: anywhere; border-top: 1px solid #ddd }
  td:first-child { color: #666; white-space: nowrap } a { color: #05603a }
  @media (prefers-color-scheme: dark) { body { color: #ddd; background: #171a17 } td { border-color: #333 } td:first-child { color: #999 } a { color: #7fd1a5 } }
</style>
<h1>It works.</h1>
<p>This is Steppe's demo origin, a small server inside the node. The gateway, an edge
proxy whose memory stays within a budget, forwarded your request to it as follows:</p>
<pre>{method} {target} {version}</pre>
<table>
{fields}</table>
<h2>More to try</h2>
<table>
<tr><td><a href="/bytes/1000000">/bytes/1000000</a><td>streams the given number of bytes
<tr><td><a href="/slow?ms=2000">/slow?ms=2000</a><td>responds after two seconds
<tr><td><a href="/events">/events</a><td>one event per second
<tr><td><a href="/status/503">/status/503</a><td>responds with the given status
<tr><td>/echo<td>returns the request content: <code>curl --data-binary @file …/echo</code>
<tr><td>/ws<td>a WebSocket that echoes messages
</table>
<p>Metrics, memory and configuration are served on the admin address that the node
printed at its start.</p>
</html>
"#;

#[cfg(test)]
mod tests {
    use axum::http::Request as HttpRequest;

    use super::*;

    fn page_of(target: &str, value: &[u8]) -> String {
        let value = axum::http::HeaderValue::from_bytes(value).expect("a field value");
        let request = HttpRequest::builder()
            .uri(target)
            .header("x-test", value)
            .body(());
        page(&request.expect("a request").into_parts().0)
    }

    #[test]
    fn the_request_is_shown() {
        let page = page_of("/some/path?a=b", b"value");
        assert!(page.contains("<pre>GET /some/path?a=b HTTP/1.1</pre>"));
        assert!(page.contains("<tr><td>x-test<td>value"));
    }

    #[test]
    fn markup_and_control_bytes_do_not_get_through() {
        let page = page_of(
            "/?a='b'",
            b"<img src=x onerror=\"alert('1')\">&\t\xff{fields}",
        );
        assert!(!page.contains("<img") && !page.contains("'b'"));
        let shown =
            r"&lt;img src=x onerror=\&quot;alert(\&#39;1\&#39;)\&quot;&gt;&amp;\t\xff&#123;fields}";
        assert!(page.contains(shown), "{page}");
        assert_eq!(page.matches("<table>").count(), 2);
    }
}
