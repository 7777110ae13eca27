//! `security-headers`: tells browsers to be careful.

use super::{About, Filter, Step};
use crate::error::GatewayError;
use crate::head::{RequestHead, ResponseHead};

/// Adds fields to responses whose server says nothing by that name.
#[derive(Debug)]
pub struct SecurityHeadersFilter(Vec<(String, String)>);

impl SecurityHeadersFilter {
    /// A filter that adds these.
    #[must_use]
    pub fn new(fields: Vec<(String, String)>) -> Self {
        Self(fields)
    }
}

impl Filter for SecurityHeadersFilter {
    fn begin(&self, _: &About<'_>, _: &mut RequestHead) -> Result<Step, GatewayError> {
        Ok(Step::Continue)
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        for (name, value) in &self.0 {
            let is_there = head.fields.values_named(name.as_bytes()).next().is_some();
            if !is_there {
                head.fields.append(name.as_bytes(), value.as_bytes())?;
            }
        }
        Ok(())
    }
}
