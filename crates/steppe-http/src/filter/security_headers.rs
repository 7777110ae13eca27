//! `security-headers`: tells browsers to be careful.

use std::sync::Arc;

use super::factory::{FilterFactory, FilterParts};
use super::{About, Filter, Step};
use crate::config::SecurityHeaders;
use crate::error::GatewayError;
use crate::field::{Lines, NameSet};
use crate::head::{RequestHead, ResponseHead};

/// Adds fields to responses whose server says nothing by that name.
#[derive(Debug)]
pub struct SecurityHeadersFilter {
    fields: Vec<(String, String)>,
    names: NameSet,
    lines: Lines,
}

impl SecurityHeadersFilter {
    /// A filter that adds these, whose names differ.
    #[must_use]
    pub fn new(fields: Vec<(String, String)>) -> Self {
        let lines = || fields.iter().map(|(name, value)| (&**name, &**value));
        Self {
            names: lines().map(|(name, _)| name).collect(),
            lines: lines().collect(),
            fields,
        }
    }
}

impl FilterFactory for SecurityHeaders {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(SecurityHeadersFilter::new(self.0.clone()))
    }
}

impl Filter for SecurityHeadersFilter {
    fn begin(&self, _: &About<'_>, _: &mut RequestHead) -> Result<Step, GatewayError> {
        Ok(Step::Continue)
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        let fields = &mut head.fields;
        if !fields.has_any(&self.names) {
            return Ok(fields.append_all(&self.lines)?);
        }
        for (name, value) in &self.fields {
            let is_there = fields.values_named(name.as_bytes()).next().is_some();
            if !is_there {
                fields.append(name.as_bytes(), value.as_bytes())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::head::ContentLength;

    #[test]
    fn what_a_server_says_stays_and_the_rest_is_added() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let filter = SecurityHeadersFilter::new(vec![
            field("x-content-type-options", "nosniff"),
            field("x-frame-options", "deny"),
        ]);
        let sent = |lines: &[(&str, &str)]| {
            let lease = Budget::new(1 << 20).root().lease();
            let head = ResponseHead::new(200, ContentLength::Empty, &lease);
            let mut head = head.expect("room");
            for (name, value) in lines {
                let added = head.fields.append(name.as_bytes(), value.as_bytes());
                added.expect("room");
            }
            filter.response(&mut head).expect("room");
            let lines = head
                .fields
                .iter()
                .map(|(_, name, value)| [name, b": ", value].concat());
            lines
                .map(|line| String::from_utf8(line).expect("ASCII"))
                .collect::<Vec<_>>()
        };
        let nosniff = "x-content-type-options: nosniff";
        assert_eq!(
            sent(&[("server", "a")]),
            ["server: a", nosniff, "x-frame-options: deny"]
        );
        assert_eq!(
            sent(&[("X-Frame-Options", "sameorigin")]),
            ["X-Frame-Options: sameorigin", nosniff]
        );
    }
}
