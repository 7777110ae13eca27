//! `redirect`: sends clients elsewhere.

use std::sync::Arc;

use super::factory::{FilterFactory, FilterParts};
use super::{About, Filter, Step, respond_with};
use crate::config::Redirect;
use crate::error::GatewayError;
use crate::head::RequestHead;
use crate::respond::Respond;

/// Answers every request with a `Location` (RFC 9110 §10.2.2).
#[derive(Debug)]
pub struct RedirectFilter(Redirect);

impl RedirectFilter {
    /// A filter that sends there.
    #[must_use]
    pub fn new(redirect: Redirect) -> Self {
        Self(redirect)
    }
}

impl FilterFactory for Redirect {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(RedirectFilter::new(self.clone()))
    }
}

impl Filter for RedirectFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        self.0.answer(head).map(Step::Respond)
    }
}

impl Redirect {
    /// The response to `head`.
    ///
    /// # Errors
    /// Where what it inserts is not valid text.
    pub fn answer(&self, head: &RequestHead) -> Result<Respond, GatewayError> {
        let fields = vec![("location".to_owned(), self.location(head)?)];
        Ok(respond_with(self.status, "", fields))
    }

    /// The URL that the client of `head` is sent to.
    ///
    /// # Errors
    /// Where what it inserts is not valid text.
    pub fn location(&self, head: &RequestHead) -> Result<String, GatewayError> {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| GatewayError::bad_request());
        let query = match head.query() {
            Some(query) => format!("?{}", text(query)?),
            None => String::new(),
        };
        let parts = [
            ("{host}", text(head.host())?),
            ("{path}", text(head.path())?),
            ("{query}", &query),
        ];
        Ok(filled(&self.to, &parts))
    }
}

/// `template` with each name replaced, in one pass: what replaces one is not looked at again.
fn filled(template: &str, parts: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    'next: while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        for (name, value) in parts {
            if let Some(after) = rest.strip_prefix(name) {
                out.push_str(value);
                rest = after;
                continue 'next;
            }
        }
        out.push('{');
        rest = &rest[1..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn what_replaces_a_name_is_not_looked_at_again() {
        let parts = [("{path}", "/{host}"), ("{host}", "a.example")];
        let location = filled("https://{host}{path}{x}{", &parts);
        assert_eq!(location, "https://a.example/{host}{x}{");
    }
}
