//! Keys of `[trace]`.

use std::path::Path;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::key::{Key, key, share, text};
use steppe_config::keys;
use steppe_config::mistake::shown;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

/// `[trace]`: the collector of spans, and the sampling rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The collector's URL.
    pub otlp: String,
    /// The share of the traces that begin here that is kept: above 0, at most 1.
    pub sample: f64,
}

pub static TABLE: Table = Table::new(
    "trace",
    "Traces of requests (W3C Trace Context), sent as spans by OTLP over HTTP, in JSON. Without \
     this section, no request is read or changed for traces.",
    keys! { OTLP, SAMPLE },
);

static OTLP: Key<String> = key(
    "otlp",
    text(&COLLECTOR),
    "URL of the collector, http or https. Spans are sent to `/v1/traces` below it.",
)
.required();

static SAMPLE: Key<f64> = key(
    "sample",
    share(),
    "Share of the traces begun by this node that is kept. For a trace begun elsewhere, \
     `traceparent` decides.",
)
.or(Absent::Text("1%"));

/// Builds `[trace]`; `None`: a value is invalid, and its mistake was reported.
pub fn build(trace: &Fields) -> Option<Trace> {
    Some(Trace {
        otlp: trace.get(&OTLP)?,
        sample: trace.get(&SAMPLE)?,
    })
}

/// The URL of a collector of traces.
static COLLECTOR: Form<String> =
    Form::new("a URL such as \"http://127.0.0.1:4318\"", collector).pattern("^https?://[^ #?@]+$");

/// Parses the URL of a collector: `http://127.0.0.1:4318`.
fn collector(text: &str, _: &Path) -> Read<String> {
    let uri: Option<hyper::Uri> = text.parse().ok();
    let is_url = uri.is_some_and(|uri| {
        let is_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("@", |authority| authority.as_str());
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        is_scheme && !authority.contains('@') && has_host && uri.query().is_none()
    });
    if is_url && !text.contains('#') {
        return Ok(text.to_owned());
    }
    // The text before an @ may be a secret.
    let refusal = match text.contains('@') {
        true => Refusal::new("the URL of a collector has no user".to_owned()),
        false => Refusal::new(format!("`{}` is not the URL of a collector", shown(text))),
    };
    Err(refusal.help("write a URL such as \"http://127.0.0.1:4318\", without user and query"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_url() {
        for text in [
            "http://127.0.0.1:4318",
            "https://otlp.example/a",
            "http://[::1]",
        ] {
            assert_eq!(collector(text, Path::new("")), Ok(text.to_owned()));
        }
        for text in [
            "127.0.0.1:4318",
            "grpc://a:4317",
            "http://",
            "http://a/?b",
            "http://a/#b",
            "http://user:secret@a",
        ] {
            let refused = collector(text, Path::new("")).map_err(Refusal::told);
            let told = refused.expect_err("it is refused");
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
