//! `/certificates`: the certificates of listeners, and the time for which they are valid.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use steppe_http::certificates::ListenerCertificate;
use steppe_net::tls::x509::{Dates, fingerprint_text, unix_now};

use super::Content;
use super::endpoints::json as json_response;

const DAY_SECONDS: i64 = 86_400;

pub(super) async fn report(State(content): State<Arc<Content>>) -> Response {
    let now = unix_now();
    let certificates = content.certificates.report();
    let rows: Vec<_> = certificates.iter().map(|each| row(each, now)).collect();
    json_response(&json!({ "certificates": rows }))
}

fn row(certificate: &ListenerCertificate, now: i64) -> Value {
    let said = &certificate.summary;
    json!({
        "listener": certificate.listener,
        "file": certificate.file.to_string_lossy(),
        "subject": said.subject,
        "names": said.names,
        "issuer": said.issuer,
        "serial": said.serial,
        "key": said.key.to_string(),
        "fingerprint": fingerprint_text(&said.fingerprint),
        "not_before": said.not_before,
        "not_after": said.not_after,
        "days_left": (said.not_after - now).div_euclid(DAY_SECONDS),
        "state": state(said.dates(now)),
    })
}

fn state(dates: Dates) -> &'static str {
    match dates {
        Dates::Expired => "expired",
        Dates::NotYetValid => "not_yet_valid",
        Dates::Valid => "valid",
    }
}
