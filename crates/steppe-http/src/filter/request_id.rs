//! `request-id`: a name for each request, told to its server and its client.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use std::sync::Arc;

use super::factory::{FilterFactory, FilterParts};
use super::{About, ExchangeFilter, Filter, Step};
use crate::config::RequestId;
use crate::error::GatewayError;
use crate::field::{FieldBlock, is_token};
use crate::head::{RequestHead, ResponseHead};

/// Longest name of a client that is kept, in bytes.
const KEPT_BYTES_MAX: usize = 128;

/// Names requests by 128 bits that nobody can guess: a counter under two keyed hashes.
#[derive(Debug)]
pub struct RequestIdFilter {
    config: RequestId,
    count: AtomicU64,
    keys: [RandomState; 2],
}

/// The name of one request.
#[derive(Debug)]
struct Named {
    field: String,
    id: Vec<u8>,
}

impl RequestIdFilter {
    /// A filter that names requests in this field.
    #[must_use]
    pub fn new(config: RequestId) -> Self {
        Self {
            config,
            count: AtomicU64::default(),
            keys: [RandomState::new(), RandomState::new()],
        }
    }

    fn next(&self) -> Vec<u8> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let [high, low] = &self.keys;
        format!("{:016x}{:016x}", high.hash_one(count), low.hash_one(count)).into_bytes()
    }
}

impl FilterFactory for RequestId {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(RequestIdFilter::new(self.clone()))
    }
}

impl Filter for RequestIdFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let field = &self.config.header;
        let id = {
            let mut sent = head.fields.values_named(field.as_bytes());
            let kept = sent.next().filter(|id| {
                self.config.keep && !id.is_empty() && id.len() <= KEPT_BYTES_MAX && is_token(id)
            });
            let kept = kept.map(<[u8]>::to_vec);
            kept.unwrap_or_else(|| self.next())
        };
        head.fields.set(field.as_bytes(), &id)?;
        Ok(Step::Attach(Box::new(Named {
            field: field.clone(),
            id,
        })))
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        trailers.remove(self.config.header.as_bytes());
    }
}

impl ExchangeFilter for Named {
    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        Ok(head.fields.set(self.field.as_bytes(), &self.id)?)
    }
}
