//! `redirect`: sends clients elsewhere.

use super::{About, Filter, Step, refusal};
use crate::config::Redirect;
use crate::error::GatewayError;
use crate::head::RequestHead;

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

impl Filter for RedirectFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
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
        let location = filled(&self.0.to, &parts);
        let fields = vec![("location".to_owned(), location)];
        Ok(refusal(self.0.status, "", fields))
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
