//! Who may read admin.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode, Uri, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::token::Token;

/// What a request must show.
#[derive(Debug, Clone)]
pub(super) enum Access {
    /// The token.
    Token(Token),
    /// On loopback without a token: a `Host` that no page in a local browser can
    /// have made up. Otherwise a name that an attacker's DNS points at 127.0.0.1
    /// would make admin same-origin with the attacker's page (DNS rebinding).
    LoopbackNames,
    /// The mode of a Unix socket's file decided already.
    Open,
}

/// Lets a request through, or answers it.
pub(super) async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    if !request.method().is_safe() && is_from_elsewhere(request.headers()) {
        let why = "a page of another site may change nothing here\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    match access.refusal(request.headers(), request.uri()) {
        None => next.run(request).await,
        Some(refusal) => refusal,
    }
}

impl Access {
    /// For what holds no data: the page itself, which asks for the token and shows it.
    pub(super) fn without_token(&self) -> Self {
        match self {
            Self::Token(_) => Self::Open,
            other => other.clone(),
        }
    }

    fn refusal(&self, headers: &HeaderMap, uri: &Uri) -> Option<Response> {
        match self {
            Self::Token(token) => (!shows(token, headers)).then(|| {
                let challenge = [(WWW_AUTHENTICATE, "Bearer realm=\"steppe admin\"")];
                (StatusCode::UNAUTHORIZED, challenge, "a token is needed\n").into_response()
            }),
            Self::LoopbackNames => (!names_loopback(headers, uri)).then(|| {
                let why = "without a token, admin answers to IP addresses and localhost only\n";
                (StatusCode::FORBIDDEN, why).into_response()
            }),
            Self::Open => None,
        }
    }
}

/// Exactly one field: with two, somebody else may have judged the other.
fn shows(token: &Token, headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values
        .next()
        .is_some_and(|value| token.opens(value.as_bytes()));
    first && values.next().is_none()
}

/// Browsers name the page that sends whatever is not GET or HEAD (Fetch §3.2), and let any page
/// send a POST without content: it must be one of ours.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let mut origins = headers.get_all(ORIGIN).iter();
    !origins.all(|origin| {
        let origin = origin.as_bytes();
        let authority = origin
            .strip_prefix(b"http://")
            .or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some() && authority == host
    })
}

fn names_loopback(headers: &HeaderMap, uri: &Uri) -> bool {
    let hosts = headers.get_all(HOST);
    let target_is_local = uri
        .authority()
        .is_none_or(|authority| is_local(authority.as_str()));
    let hosts_are_local = hosts.iter().all(|host| host.to_str().is_ok_and(is_local));
    hosts.iter().next().is_some() && target_is_local && hosts_are_local
}

fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let unbracketed = name.trim_start_matches('[').trim_end_matches(']');
    unbracketed.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_ours_may_change_something() {
        let is_refused = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.append(HOST, HeaderValue::from_static("127.0.0.1:9900"));
            if let Some(origin) = origin {
                headers.append(ORIGIN, HeaderValue::from_static(origin));
            }
            is_from_elsewhere(&headers)
        };
        assert!(!is_refused(None), "not a browser");
        assert!(!is_refused(Some("http://127.0.0.1:9900")));
        for elsewhere in ["http://127.0.0.1:9901", "https://attacker.example", "null"] {
            assert!(is_refused(Some(elsewhere)), "{elsewhere}");
        }
    }

    fn passes(hosts: &[&'static str], uri: &str) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_static(host));
        }
        names_loopback(&headers, &uri.parse().expect("a URI"))
    }

    #[test]
    fn addresses_and_localhost_pass() {
        for host in [
            "127.0.0.1:9900",
            "127.0.0.1",
            "[::1]:9900",
            "localhost:9900",
            "LOCALHOST",
        ] {
            assert!(passes(&[host], "/metrics"), "{host}");
        }
    }

    #[test]
    fn names_that_a_resolver_could_point_here_do_not() {
        for host in [
            "attacker.example",
            "localhost.attacker.example:9900",
            "127.0.0.1.nip.io",
            "",
        ] {
            assert!(!passes(&[host], "/metrics"), "{host}");
        }
        assert!(!passes(&[], "/metrics"));
        assert!(!passes(&["127.0.0.1", "attacker.example"], "/metrics"));
        assert!(!passes(&["127.0.0.1"], "http://attacker.example/metrics"));
    }
}
