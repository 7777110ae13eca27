//! `ip`: lets networks in, or keeps them out.

use std::sync::Arc;

use super::factory::{FilterFactory, FilterParts};
use super::{About, Filter, Step, refusal};
use crate::config::IpRules;
use crate::error::GatewayError;
use crate::head::RequestHead;

/// Decides by the client's address, as far as trusted proxies vouch for it.
#[derive(Debug)]
pub struct IpFilter(IpRules);

impl IpFilter {
    /// A filter of these rules.
    #[must_use]
    pub fn new(rules: IpRules) -> Self {
        Self(rules)
    }
}

impl FilterFactory for IpRules {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(IpFilter::new(self.clone()))
    }
}

impl Filter for IpFilter {
    fn begin(&self, about: &About<'_>, _: &mut RequestHead) -> Result<Step, GatewayError> {
        let IpRules { allow, deny } = &self.0;
        // An IPv4 client of a dual-stack socket is one of its IPv4 network.
        let client = about.client.to_canonical();
        let is_denied = deny.iter().any(|network| network.contains(&client));
        let is_allowed = allow.is_empty() || allow.iter().any(|network| network.contains(&client));
        Ok(if is_allowed && !is_denied {
            Step::Continue
        } else {
            refusal(403, "access from this address is not allowed\n", Vec::new())
        })
    }
}
