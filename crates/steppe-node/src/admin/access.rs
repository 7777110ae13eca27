//! Access to admin.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::token::Token;

/// The proof that a request must carry.
#[derive(Debug, Clone)]
pub(super) enum Access {
    /// The token.
    Token(Token),
    /// A `Host` that no page in a local browser can have made up; on loopback without a token.
    /// Otherwise a name that an attacker's DNS points at 127.0.0.1 would make admin same-origin
    /// with the attacker's page (DNS rebinding).
    LoopbackNames,
    /// No proof: the mode of a Unix socket's file is the access control.
    Open,
}

/// Lets a request through, or refuses it.
pub(super) async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    match access.refusal(request.headers(), request.uri()) {
        None => next.run(request).await,
        Some(refusal) => refusal,
    }
}

/// Refuses requests that a page of another site makes a browser send, reads included: a page that
/// cannot see the response still occupies a connection and an event stream.
pub(super) async fn refuse_other_sites(request: Request, next: Next) -> Response {
    let fields = request.headers();
    if is_from_other_site(fields) || !is_origin_ours(fields) {
        return (StatusCode::FORBIDDEN, OTHER_SITE).into_response();
    }
    next.run(request).await
}

const OTHER_SITE: &str = "admin refuses requests from a page of another site; \
    to open the admin page, type its address or use a bookmark\n";

impl Access {
    /// The access to the page's files, which hold no data: the page's script asks for the token and
    /// sends it.
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
                (
                    StatusCode::UNAUTHORIZED,
                    challenge,
                    "a bearer token is required\n",
                )
                    .into_response()
            }),
            Self::LoopbackNames => (!names_loopback(headers, uri)).then(|| {
                let why =
                    "without a token, admin accepts only IP addresses and localhost as Host\n";
                (StatusCode::FORBIDDEN, why).into_response()
            }),
            Self::Open => None,
        }
    }
}

/// True if exactly one field has the token: with two, another hop may have checked the other one.
fn shows(token: &Token, headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values
        .next()
        .is_some_and(|value| token.opens(value.as_bytes()));
    first && values.next().is_none()
}

/// True if the browser marks the request as one of a page of another site, or of another port of
/// this host ([Fetch Metadata][] §2.4). Programs, and browsers from before 2023, send no such
/// field; those browsers send `Origin` with some requests.
///
/// [Fetch Metadata]: https://www.w3.org/TR/fetch-metadata/
fn is_from_other_site(fields: &HeaderMap) -> bool {
    let mut sites = fields.get_all(SEC_FETCH_SITE).iter();
    // `none`: the user typed the address or opened a bookmark.
    !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// True if the request names no origin page, or admin's own.
///
/// Browsers send `Origin` with methods other than GET and HEAD, and with reads across origins, such
/// as event streams (Fetch §3.2). A POST without content needs no CORS preflight, hence this check.
fn is_origin_ours(fields: &HeaderMap) -> bool {
    let host = fields.get(HOST).map(HeaderValue::as_bytes);
    let mut origins = fields.get_all(ORIGIN).iter();
    origins.all(|origin| {
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
    fn only_pages_of_ours_are_answered() {
        let is_ours = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.append(HOST, HeaderValue::from_static("127.0.0.1:9900"));
            if let Some(origin) = origin {
                headers.append(ORIGIN, HeaderValue::from_static(origin));
            }
            is_origin_ours(&headers)
        };
        assert!(is_ours(None), "not a browser");
        assert!(is_ours(Some("http://127.0.0.1:9900")));
        for elsewhere in ["http://127.0.0.1:9901", "https://attacker.example", "null"] {
            assert!(!is_ours(Some(elsewhere)), "{elsewhere}");
        }
    }

    #[test]
    fn the_browser_tells_whether_another_site_asks() {
        let is_refused = |sites: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for site in sites {
                headers.append(SEC_FETCH_SITE, HeaderValue::from_static(site));
            }
            is_from_other_site(&headers)
        };
        assert!(!is_refused(&[]), "not a browser");
        assert!(!is_refused(&["same-origin"]) && !is_refused(&["none"]));
        for site in [
            "cross-site",
            "same-site",
            "",
            "Same-Origin",
            "something-new",
        ] {
            assert!(is_refused(&[site]), "{site}");
        }
        assert!(is_refused(&["same-origin", "cross-site"]));
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
