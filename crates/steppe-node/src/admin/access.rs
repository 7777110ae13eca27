//! Who may read admin.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
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
    match access.refusal(request.headers(), request.uri()) {
        None => next.run(request).await,
        Some(refusal) => refusal,
    }
}

impl Access {
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
    use axum::http::HeaderValue;

    use super::*;

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
