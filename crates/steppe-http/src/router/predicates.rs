//! Predicates of a route: its listeners, methods, fields and query parameters.

use std::cmp::Ordering;

use steppe_net::ListenAddress;
use steppe_net::tls::x509::Summary;

use super::query::RouteQuery;
use crate::config::{ClientCertMatch, Filter, FilterKind, ListenerRoutes, Route};
use crate::path::{compare_decoded, escaped_byte};

/// The conditions of a route beside host and path.
#[derive(Debug)]
pub(super) struct Predicates {
    listeners: Vec<ListenAddress>,
    methods: Vec<String>,
    headers: Vec<(String, String)>,
    query: Vec<(String, String)>,
    client_cert: Option<ClientCertMatch>,
    /// A filter of the route answers preflights, which lack the fields that the route requires.
    answers_preflight: bool,
}

/// The result of checking a request against a route's predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PredicateMatch {
    /// Every predicate holds.
    Holds,
    /// All but the method hold.
    OtherMethod,
    /// This one fails.
    Fails(Unmet),
}

/// The condition of a route, beside host and path, that a request does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmet {
    /// The listener.
    Listener,
    /// The method.
    Method,
    /// The field of this index in [`Route::headers`].
    Header(usize),
    /// The query parameter of this index in [`Route::query`].
    Query(usize),
    /// The client's certificate.
    ClientCert,
}

impl Predicates {
    /// The predicates of a route that refers to `filters`.
    pub(super) fn new(route: &Route, filters: &[Filter]) -> Self {
        let mut kinds = route.filters.iter().map(|&index| &filters[index].kind);
        Self {
            listeners: route.listeners.clone(),
            methods: route.methods.clone(),
            headers: route.headers.clone(),
            query: route.query.clone(),
            client_cert: route.client_cert.clone(),
            answers_preflight: kinds.any(|kind| matches!(kind, FilterKind::Cors(_))),
        }
    }

    /// The number of predicates, for the order of routes.
    pub(super) fn count(&self) -> usize {
        let lists = [!self.listeners.is_empty(), !self.methods.is_empty()];
        let lists = lists.map(usize::from).iter().sum::<usize>();
        let of_cert = usize::from(self.client_cert.is_some());
        lists + self.headers.len() + self.query.len() + of_cert
    }

    /// True if the request came to one of its listeners.
    fn is_for(&self, request: &RouteQuery<'_>) -> bool {
        match self.listeners.is_empty() {
            true => request.routes == ListenerRoutes::Shared,
            false => self.listeners.contains(request.listener),
        }
    }

    pub(super) fn check(&self, request: &RouteQuery<'_>) -> PredicateMatch {
        if !self.is_for(request) {
            return PredicateMatch::Fails(Unmet::Listener);
        }
        if let Some(method) = request.preflight.filter(|_| self.answers_preflight) {
            let is_named = |known: &String| known.as_bytes() == method;
            return match self.methods.is_empty() || self.methods.iter().any(is_named) {
                true => PredicateMatch::Holds,
                false => PredicateMatch::Fails(Unmet::Method),
            };
        }
        let lacks_field = |(name, value): &(String, String)| !has_field(request, name, value);
        if let Some(at) = self.headers.iter().position(lacks_field) {
            return PredicateMatch::Fails(Unmet::Header(at));
        }
        let lacks_parameter =
            |(name, value): &(String, String)| !has_parameter(request.query, name, value);
        if let Some(at) = self.query.iter().position(lacks_parameter) {
            return PredicateMatch::Fails(Unmet::Query(at));
        }
        let has_cert = || {
            let wanted = self.client_cert.as_ref();
            wanted.is_none_or(|wanted| {
                request
                    .client_cert
                    .is_some_and(|cert| is_cert(cert, wanted))
            })
        };
        if !has_cert() {
            return PredicateMatch::Fails(Unmet::ClientCert);
        }
        let is_named = |method: &String| method.as_bytes() == request.method;
        // A tunnel is for routes that name it.
        let is_any = self.methods.is_empty() && request.method != b"CONNECT";
        if is_any || self.methods.iter().any(is_named) {
            PredicateMatch::Holds
        } else {
            PredicateMatch::OtherMethod
        }
    }
}

/// True when a client's certificate meets every condition.
fn is_cert(cert: &Summary, wanted: &ClientCertMatch) -> bool {
    let ClientCertMatch {
        subject,
        san,
        fingerprint,
    } = wanted;
    subject
        .as_ref()
        .is_none_or(|subject| *subject == cert.subject)
        && san.as_ref().is_none_or(|san| cert.names.contains(san))
        && fingerprint.is_none_or(|fingerprint| fingerprint == cert.fingerprint)
}

/// True if the field has just that value: all lines of that name, joined by `, ` (RFC 9110 §5.3), white space
/// around each aside. A server that reads one of several lines, or a list, is asked for nothing else than the
/// route was.
fn has_field(request: &RouteQuery<'_>, name: &str, value: &str) -> bool {
    // The part of the value that the lines before have left; `None`: they differ.
    let (mut left, mut is_first) = (None, true);
    request.fields.each_value(name, &mut |line| {
        let rest = match is_first {
            true => Some(value.as_bytes()),
            false => left.and_then(|rest: &[u8]| rest.strip_prefix(b", ")),
        };
        is_first = false;
        left = rest.and_then(|rest| rest.strip_prefix(trim_ows(line)));
    });
    left.is_some_and(<[u8]>::is_empty)
}

/// True if there is a parameter of that name, and each has just that value; without `=`, it is empty. Servers
/// differ in which of several they read.
///
/// Percent-encoded bytes are decoded. `+` is a plus sign: that it encodes a space is a rule of HTML
/// forms, not of URIs. A parameter with an invalid escape matches nothing.
fn has_parameter(query: Option<&[u8]>, name: &str, value: &str) -> bool {
    let Some(query) = query else { return false };
    let parameters = query.split(|&byte| byte == b'&').map(|parameter| {
        let name_end = memchr::memchr(b'=', parameter).unwrap_or(parameter.len());
        let (sent_name, sent_value) = parameter.split_at(name_end);
        (
            sent_name,
            sent_value.strip_prefix(b"=").unwrap_or(sent_value),
        )
    });
    let mut named = parameters
        .filter(|(sent, _)| is_decoded(sent, name))
        .peekable();
    named.peek().is_some() && named.all(|(_, sent)| is_decoded(sent, value))
}

fn is_decoded(sent: &[u8], text: &str) -> bool {
    compare_decoded(sent, text.as_bytes()) == Ordering::Equal && has_valid_escapes(sent)
}

fn has_valid_escapes(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'%', bytes).all(|percent| escaped_byte(&bytes[percent..]).is_some())
}

/// RFC 9110 §5.6.3: optional white space is spaces and tabs.
fn trim_ows(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let Some(start) = value.iter().position(is_text) else {
        return &[];
    };
    let end = value
        .iter()
        .rposition(is_text)
        .map_or(start, |last| last + 1);
    &value[start..end]
}
