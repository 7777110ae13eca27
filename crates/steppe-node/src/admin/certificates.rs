//! `/certificates`: what listeners show to clients, and for how long yet.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use steppe_http::certificates::ListenerCertificate;
use steppe_net::tls::x509::fingerprint_text;

use super::Content;
use super::endpoints::json as json_response;

const DAY_SECONDS: i64 = 86_400;

pub(super) async fn report(State(content): State<Arc<Content>>) -> Response {
    let now = now_seconds();
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
        "state": state(said.not_before, said.not_after, now),
    })
}

/// Both ends are within (RFC 5280 §4.1.2.5).
fn state(not_before: i64, not_after: i64, now: i64) -> &'static str {
    if now > not_after {
        "expired"
    } else if now < not_before {
        "not_yet_valid"
    } else {
        "valid"
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates count by the calendar"
)]
fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_its_time_are_within() {
        let states = [9, 10, 20, 21].map(|now| state(10, 20, now));
        assert_eq!(states, ["not_yet_valid", "valid", "valid", "expired"]);
    }
}
