//! `api-keys`: asks for a key of a list, of which hashes alone are known.
//!
//! Invariant: no key is kept, shown or, unless it is asked for, sent on: a server receives the name of the client that
//! the key is for. Of the places of `from`, it receives no other key either.
//!
//! Spec: RFC 9110 §11 (challenges), RFC 6750 §3 where keys come as bearer tokens.

mod keys;

use std::sync::Arc;

use super::sources::{self, Unfit};
use super::{About, Filter, Step, refusal};
use crate::config::{ApiKeys, TokenSource};
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::RequestHead;

pub(crate) use keys::keep_current;
pub use keys::{ApiKeyFiles, KeyFile, NewKey};

/// Passes requests with a known key, and says whose it is.
#[derive(Debug)]
pub struct ApiKeysFilter {
    config: ApiKeys,
    file: Arc<KeyFile>,
}

/// Why a request does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// It has no key.
    Missing,
    /// Its key is none of the file.
    Unknown,
    /// Two keys in one place.
    Malformed,
    /// There is no memory for its change.
    OverBudget,
}

impl From<Unfit> for Refused {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Malformed => Self::Malformed,
            Unfit::OverBudget => Self::OverBudget,
        }
    }
}

impl ApiKeysFilter {
    /// A filter that knows the keys of `file`.
    #[must_use]
    pub fn new(config: ApiKeys, file: Arc<KeyFile>) -> Self {
        Self { config, file }
    }

    /// The name of the client that sends a request, which loses its key.
    fn pass(&self, head: &mut RequestHead) -> Result<Arc<str>, Refused> {
        let key = sources::find(&self.config.from, head)?.ok_or(Refused::Missing)?;
        let name = self.file.keys().name_of(key).ok_or(Refused::Unknown)?;
        let kept = match self.config.forward_key {
            true => key.to_vec(),
            // No key is empty.
            false => Vec::new(),
        };
        sources::keep_verified(&self.config.from, head, &kept)?;
        let field = self.config.forward_name.as_bytes();
        let set = head.fields.set(field, name.as_bytes());
        set.map_err(|_| Refused::OverBudget)?;
        Ok(name)
    }

    fn refuse(&self, refused: Refused) -> Result<Step, GatewayError> {
        let is_bearer = |source: &TokenSource| match source {
            TokenSource::Header(name) => name == "authorization",
            TokenSource::Cookie(_) | TokenSource::Query(_) => false,
        };
        // No scheme is registered for keys in fields of their own.
        let scheme = match self.config.from.iter().any(is_bearer) {
            true => "Bearer",
            false => "ApiKey",
        };
        let (status, text, error) = match refused {
            Refused::OverBudget => return Err(GatewayError::over_budget()),
            Refused::Missing => (401, "an API key is required\n", ""),
            Refused::Unknown => (401, "unknown API key\n", ", error=\"invalid_token\""),
            Refused::Malformed => (400, "several API keys\n", ", error=\"invalid_request\""),
        };
        let challenge = format!("{scheme} realm=\"steppe\"{error}");
        let fields = vec![("www-authenticate".to_owned(), challenge)];
        Ok(refusal(status, text, fields))
    }
}

impl Filter for ApiKeysFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        // A client's own says nothing.
        head.fields.remove(self.config.forward_name.as_bytes());
        match self.pass(head) {
            Ok(name) => {
                about.identity.set_api_key(name);
                Ok(Step::Continue)
            }
            Err(refused) => self.refuse(refused),
        }
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        trailers.remove(self.config.forward_name.as_bytes());
        sources::remove_from_trailers(&self.config.from, trailers);
    }
}
