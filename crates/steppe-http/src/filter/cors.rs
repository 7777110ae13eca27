//! `cors`: which other origins may read responses, and what their scripts may send.
//!
//! Spec: Fetch, "CORS protocol"; RFC 6454 for origins. What a server says of CORS by itself is
//! replaced, since two answers are none.

use std::sync::Arc;

use super::factory::{FilterFactory, FilterParts};
use super::{About, ExchangeFilter, Filter, Step, refusal};
use crate::config::Cors;
use crate::error::GatewayError;
use crate::field::elements;
use crate::head::{RequestHead, ResponseHead};

/// Fields that only this filter writes.
const OURS: [&str; 6] = [
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-expose-headers",
    "access-control-max-age",
];

/// Answers preflights, and marks the responses that other origins may read.
#[derive(Debug)]
pub struct CorsFilter {
    config: Cors,
    allows_all: bool,
    /// Lists, as they are sent.
    methods: String,
    headers: String,
    expose: String,
}

/// A request of an origin that may read the response, where not every one may.
#[derive(Debug)]
struct Allowed {
    origin: String,
    has_credentials: bool,
    expose: String,
}

/// The value of `Access-Control-Allow-Origin` for every origin.
const ALL: &str = "*";

impl CorsFilter {
    /// A filter of these rules.
    #[must_use]
    pub fn new(config: Cors) -> Self {
        Self {
            // Which the configuration refuses with credentials.
            allows_all: config.origins.iter().any(|origin| origin == ALL),
            methods: config.methods.join(", "),
            headers: config.headers.join(", "),
            expose: config.expose.join(", "),
            config,
        }
    }

    fn allows(&self, origin: &str) -> bool {
        self.allows_all
            || self
                .config
                .origins
                .iter()
                .any(|known| is_origin(known, origin))
    }

    /// The value of `Access-Control-Allow-Origin`.
    fn told<'a>(&self, origin: &'a str) -> &'a str {
        match self.allows_all {
            true => ALL,
            false => origin,
        }
    }

    fn preflight(&self, origin: Option<&str>, method: &[u8], head: &RequestHead) -> Step {
        let vary = "origin, access-control-request-method, access-control-request-headers";
        let mut fields = vec![("vary".to_owned(), vary.to_owned())];
        let Some(origin) = origin.filter(|origin| self.allows(origin)) else {
            return refusal(403, "CORS: this origin is not allowed\n", fields);
        };
        let mut methods = self.config.methods.iter();
        // Those need no preflight, and are never refused by one (Fetch, "CORS-preflight fetch").
        let is_simple = matches!(method, b"GET" | b"HEAD" | b"POST");
        if !is_simple && !methods.any(|known| known.as_bytes() == method) {
            return refusal(403, "CORS: this method is not allowed\n", fields);
        }
        let wanted = head.fields.values_named(b"access-control-request-headers");
        let is_known = |name: &[u8]| {
            let mut known = self.config.headers.iter();
            known.any(|known| known.as_bytes().eq_ignore_ascii_case(name))
        };
        if !wanted.flat_map(elements).all(is_known) {
            return refusal(403, "CORS: this request header is not allowed\n", fields);
        }
        let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
        add("access-control-allow-origin", self.told(origin));
        if self.config.credentials {
            add("access-control-allow-credentials", "true");
        }
        add("access-control-allow-methods", &self.methods);
        if !self.headers.is_empty() {
            add("access-control-allow-headers", &self.headers);
        }
        if let Some(max_age) = self.config.max_age {
            add("access-control-max-age", &max_age.as_secs().to_string());
        }
        refusal(204, "", fields)
    }
}

impl FilterFactory for Cors {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(CorsFilter::new(self.clone()))
    }
}

impl Filter for CorsFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let mut origins = head.fields.values_named(b"origin");
        let Some(origin) = origins.next() else {
            return Ok(Step::Continue);
        };
        let origin = std::str::from_utf8(origin).ok();
        if let Some(method) = requested_method(head) {
            return Ok(self.preflight(origin, method, head));
        }
        let Some(origin) = origin.filter(|origin| !self.allows_all && self.allows(origin)) else {
            return Ok(Step::Continue);
        };
        Ok(Step::Attach(Box::new(Allowed {
            origin: origin.to_owned(),
            has_credentials: self.config.credentials,
            expose: self.expose.clone(),
        })))
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        for name in OURS {
            head.fields.remove(name.as_bytes());
        }
        if self.allows_all {
            // Also to a request without `Origin`: a cache may give the response to a script (Fetch, "CORS protocol and
            // HTTP caches").
            return allow(head, ALL, &self.expose);
        }
        // The response to one origin is not that to another.
        head.fields
            .append(b"vary", b"origin")
            .map_err(GatewayError::from)
    }
}

/// Lets scripts of `origin` read the response, and these of its fields.
fn allow(head: &mut ResponseHead, origin: &str, expose: &str) -> Result<(), GatewayError> {
    let fields = &mut head.fields;
    fields.append(b"access-control-allow-origin", origin.as_bytes())?;
    if !expose.is_empty() {
        fields.append(b"access-control-expose-headers", expose.as_bytes())?;
    }
    Ok(())
}

impl ExchangeFilter for Allowed {
    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        allow(head, &self.origin, &self.expose)?;
        if self.has_credentials {
            (head.fields).append(b"access-control-allow-credentials", b"true")?;
        }
        Ok(())
    }
}

/// The method that a preflight asks about; `None`: it is none.
pub(crate) fn requested_method(head: &RequestHead) -> Option<&[u8]> {
    if head.method() != b"OPTIONS" {
        return None;
    }
    head.fields.values_named(b"origin").next()?;
    let mut wanted = head.fields.values_named(b"access-control-request-method");
    wanted.next()
}

/// True when `origin` is the one, or a subdomain of the one, that the configuration has.
fn is_origin(known: &str, origin: &str) -> bool {
    match known.split_once("://*.") {
        None => known == origin,
        Some((scheme, parent)) => {
            let host = origin
                .strip_prefix(scheme)
                .and_then(|rest| rest.strip_prefix("://"));
            let below = host.and_then(|host| host.strip_suffix(parent));
            let label = below.and_then(|below| below.strip_suffix('.'));
            // Nothing that would end the host: what is before the parent is labels.
            let is_label = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
            label.is_some_and(|label| !label.is_empty() && label.bytes().all(is_label))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_origin;

    #[test]
    fn a_wildcard_is_labels_of_the_same_scheme_and_port() {
        let known = "https://*.example.com";
        for good in ["https://a.example.com", "https://a.b.example.com"] {
            assert!(is_origin(known, good), "{good}");
        }
        for bad in [
            "https://example.com",
            "http://a.example.com",
            "https://a.example.com:444",
            "https://badexample.com",
            "https://evil.test/.example.com",
            "https://.example.com",
            "null",
        ] {
            assert!(!is_origin(known, bad), "{bad}");
        }
    }
}
