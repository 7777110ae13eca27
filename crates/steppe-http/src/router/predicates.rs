//! Predicates of a route: its methods, fields and query parameters.

use std::cmp::Ordering;

use steppe_net::ListenAddress;
use steppe_net::tls::x509::Summary;

use super::query::RouteQuery;
use crate::config::{ClientCertMatch, Filter, FilterKind, Route};
use crate::path::{compare_decoded, escaped_byte};

/// The conditions of a route beside host and path.
#[derive(Debug)]
pub(super) struct Predicates {
    /// Of a listener that has routes of its own.
    listener: Option<ListenAddress>,
    methods: Vec<String>,
    headers: Vec<(String, String)>,
    query: Vec<(String, String)>,
    client_cert: Option<ClientCertMatch>,
    /// It has a filter that answers preflights, which have none of what it asks for.
    answers_preflight: bool,
}

/// The result of checking a request against a route's predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every predicate holds.
    Holds,
    /// All but the method hold.
    OtherMethod,
    /// Another predicate fails.
    Fails,
}

impl Predicates {
    /// Of a route that refers to `filters`.
    pub(super) fn new(route: &Route, filters: &[Filter]) -> Self {
        let mut kinds = route.filters.iter().map(|&index| &filters[index].kind);
        Self {
            listener: route.listener.clone(),
            methods: route.methods.clone(),
            headers: route.headers.clone(),
            query: route.query.clone(),
            client_cert: route.client_cert.clone(),
            answers_preflight: kinds.any(|kind| matches!(kind, FilterKind::Cors(_))),
        }
    }

    /// How many there are, for the order of routes.
    pub(super) fn count(&self) -> usize {
        let of_cert = usize::from(self.client_cert.is_some());
        usize::from(!self.methods.is_empty()) + self.headers.len() + self.query.len() + of_cert
    }

    pub(super) fn check(&self, request: &RouteQuery<'_>) -> Verdict {
        if self.listener.as_ref() != request.listener {
            return Verdict::Fails;
        }
        if let Some(method) = request.preflight.filter(|_| self.answers_preflight) {
            let is_named = |known: &String| known.as_bytes() == method;
            return match self.methods.is_empty() || self.methods.iter().any(is_named) {
                true => Verdict::Holds,
                false => Verdict::Fails,
            };
        }
        let has_fields = || self.headers.iter().all(|header| has_field(request, header));
        let has_query = || {
            self.query
                .iter()
                .all(|wanted| has_parameter(request.query, wanted))
        };
        let has_cert = || {
            let wanted = self.client_cert.as_ref();
            wanted.is_none_or(|wanted| {
                request
                    .client_cert
                    .is_some_and(|cert| is_cert(cert, wanted))
            })
        };
        if !has_fields() || !has_query() || !has_cert() {
            return Verdict::Fails;
        }
        let is_named = |method: &String| method.as_bytes() == request.method;
        // A tunnel is for routes that name it.
        let is_any = self.methods.is_empty() && request.method != b"CONNECT";
        if is_any || self.methods.iter().any(is_named) {
            Verdict::Holds
        } else {
            Verdict::OtherMethod
        }
    }
}

/// Whether a client's certificate has all that is wanted of it.
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

/// Whether any field line of that name has just that value, white space around it aside.
fn has_field(request: &RouteQuery<'_>, (name, value): &(String, String)) -> bool {
    request
        .fields
        .any_value(name, &mut |line| trim_ows(line) == value.as_bytes())
}

/// Whether any parameter has just that name and value; without `=`, its value is empty.
///
/// Percent-encoded bytes are decoded. `+` is a plus sign: that it encodes a space is a rule of HTML
/// forms, not of URIs. A parameter with an invalid escape matches nothing.
fn has_parameter(query: Option<&[u8]>, (name, value): &(String, String)) -> bool {
    let Some(query) = query else { return false };
    query.split(|&byte| byte == b'&').any(|parameter| {
        let name_end = memchr::memchr(b'=', parameter).unwrap_or(parameter.len());
        let (sent_name, sent_value) = parameter.split_at(name_end);
        let sent_value = sent_value.strip_prefix(b"=").unwrap_or(sent_value);
        is_decoded(sent_name, name) && is_decoded(sent_value, value)
    })
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
