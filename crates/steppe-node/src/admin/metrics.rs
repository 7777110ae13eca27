//! `/metrics`, in the format that a scraper prefers. Spec: RFC 9110 §12.5.1.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use steppe_http::files::weight;
use steppe_telemetry::{Registry, encode};

/// The metrics, encoded.
///
/// # Errors
/// If a collector fails.
pub(super) fn exposition(registry: &Registry, fields: &HeaderMap) -> Result<Response, fmt::Error> {
    let text = encode::exposition(registry)?;
    let accepted = fields.get_all(ACCEPT).iter();
    let accepted: Vec<_> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let (media_type, text) = match prefers_plain(&accepted.join(",")) {
        true => (encode::PLAIN_CONTENT_TYPE, encode::plain(&text)),
        false => (encode::CONTENT_TYPE, text),
    };
    Ok(([(CONTENT_TYPE, media_type), (VARY, "accept")], text).into_response())
}

/// True if `text/plain` is accepted rather than OpenMetrics.
fn prefers_plain(accept: &str) -> bool {
    quality(accept, "text/plain") > quality(accept, "application/openmetrics-text")
}

/// The quality of a media type, in thousandths, by the most specific range that has it; 0: it is not accepted.
fn quality(accept: &str, media_type: &str) -> u16 {
    let kind = media_type.split('/').next().unwrap_or_default();
    let best = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next()?.to_ascii_lowercase();
        let is_kind = range.strip_suffix("/*") == Some(kind);
        let specific = match range.as_str() {
            exact if exact == media_type => 2,
            "*/*" => 0,
            _ if is_kind => 1,
            _ => return None,
        };
        let of_quality = parts.find(|part| part.starts_with("q="));
        Some((specific, weight(of_quality.unwrap_or_default().as_bytes())))
    });
    best.max().map_or(0, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_preferred() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/plain", true),
            ("text/*", true),
            ("Text/Plain;version=0.0.4", true),
            ("text/html,*/*;q=0.8", false),
            ("text/plain;q=0.5, */*;q=0.1", true),
            // The header field that Prometheus sends.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
                false,
            ),
            ("application/openmetrics-text;q=0.2,text/plain;q=0.3", true),
            ("text/plain;q=0", false),
        ] {
            assert_eq!(prefers_plain(accept), expected, "{accept}");
        }
    }
}
