//! A request that a configuration has a route for.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use steppe_http::config::{Gateway, HostPattern, Route};
use steppe_http::path::PatternSegment;
use steppe_net::ListenAddress;

/// A GET request that some route takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// The host; `None`: any host.
    pub(super) host: Option<String>,
    pub(super) path: String,
}

/// Unreserved characters are not escaped: RFC 3986 §2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

impl Sample {
    /// The simplest request at an address; `None` if every route needs more than a host and a path.
    pub(super) fn at(address: &ListenAddress, gateway: &Gateway) -> Option<Self> {
        let routes = gateway.routes.iter();
        let routes = routes.filter(|route| is_simple(route) && route.is_on(address));
        let samples = routes.map(|route| Self {
            host: route.hosts.first().map(host),
            path: path(route),
        });
        samples.min_by_key(|sample| (sample.host.is_some(), sample.path.len()))
    }
}

fn is_simple(route: &Route) -> bool {
    let takes_get = route.methods.is_empty() || route.methods.iter().any(|method| method == "GET");
    let asks_more =
        !route.headers.is_empty() || !route.query.is_empty() || route.client_cert.is_some();
    takes_get && !asks_more
}

fn host(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(suffix) => format!("www{suffix}"),
    }
}

fn path(route: &Route) -> String {
    let segments = route.path.segments().iter();
    segments
        .map(|segment| match segment {
            PatternSegment::Literal(bytes) => format!("/{}", percent_encode(bytes, RESERVED)),
            PatternSegment::Capture(_) => "/x".to_owned(),
            PatternSegment::Rest(_) => "/".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_taken_by_a_route() {
        for (routes, expected) in [
            (&["path = '/{rest*}'"][..], Some((None, "/"))),
            (&["path = '/api/{rest*}'"], Some((None, "/api/"))),
            (&["path = '/v1/users/{id}'"], Some((None, "/v1/users/x"))),
            (
                &["path = '/a%20b'\nhost = 'a.example'"],
                Some((Some("a.example"), "/a%20b")),
            ),
            (
                &["path = '/'\nhost = '*.example'", "path = '/long'"],
                Some((None, "/long")),
            ),
            (
                &["path = '/'\nhost = '*.example'"],
                Some((Some("www.example"), "/")),
            ),
            (&["path = '/'\nmethods = ['POST']"], None),
            (&["path = '/'\nheaders = { x = '1' }"], None),
            (
                &[
                    "path = '/'\nhost = 'a.example'\nlistener = '127.0.0.1:81'",
                    "path = '/long'\nlistener = '127.0.0.1:80'",
                ],
                Some((None, "/long")),
            ),
            (&[], None),
        ] {
            let routes: Vec<_> = (routes.iter().enumerate())
                .map(|(number, route)| {
                    format!("[[http.route]]\nname = '{number}'\nupstream = 'a'\n{route}\n")
                })
                .collect();
            let text = format!(
                "[[http.listener]]\nlisten = '127.0.0.1:80'\n[[http.listener]]\nlisten = '127.0.0.1:81'\n[http.upstream.a]\nrespond = {{}}\n{}",
                routes.concat()
            );
            let config = crate::config::parse("a.toml", &text).expect("valid");
            let sample = Sample::at(&config.http.listeners[0].address, &config.http);
            let sample = sample
                .as_ref()
                .map(|sample| (sample.host.as_deref(), sample.path.as_str()));
            assert_eq!(sample, expected, "{text}");
        }
    }
}
