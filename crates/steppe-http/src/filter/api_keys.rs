//! `api-keys`: asks for a key of a list, of which hashes alone are known.
//!
//! Invariant: no key is kept, shown or, unless it is asked for, sent on: a server receives the name of the client that
//! the key is for. Of the places of `from`, it receives no other key either.
//!
//! Spec: RFC 9110 §11 (challenges), RFC 6750 §3 where keys come as bearer tokens.

mod keys;

use std::sync::Arc;

use super::explained::{Judgment, by_beginning};
use super::factory::{FileError, FilterFactory, FilterFiles, FilterParts};
use super::sources::{self, Unfit};
use super::{About, Filter, Step, refusal};
use crate::config::{ApiKeys, TokenSource};
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::RequestHead;

pub(crate) use keys::keep_current;
pub use keys::{KeyFile, NewKey};

/// Passes requests with a known key, and says whose it is.
#[derive(Debug)]
pub struct ApiKeysFilter {
    config: ApiKeys,
    file: Arc<KeyFile>,
}

/// Why a request does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyRejection {
    /// The request has no key.
    Missing,
    /// The key is not in the file.
    Unknown,
    /// Two keys in one place.
    Malformed,
    /// There is no memory for its change.
    OverBudget,
}

impl From<Unfit> for KeyRejection {
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
    fn pass(&self, head: &mut RequestHead) -> Result<Arc<str>, KeyRejection> {
        let key = sources::find(&self.config.from, head)?.ok_or(KeyRejection::Missing)?;
        let name = self.file.keys().name_of(key).ok_or(KeyRejection::Unknown)?;
        let kept = match self.config.forward_key {
            true => key.to_vec(),
            // No key is empty.
            false => Vec::new(),
        };
        sources::keep_verified(&self.config.from, head, &kept)?;
        let field = self.config.forward_name.as_bytes();
        let set = head.fields.set(field, name.as_bytes());
        set.map_err(|_| KeyRejection::OverBudget)?;
        Ok(name)
    }

    fn refuse(&self, refused: KeyRejection) -> Result<Step, GatewayError> {
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
            KeyRejection::OverBudget => return Err(GatewayError::over_budget()),
            KeyRejection::Missing => (401, "an API key is required\n", ""),
            KeyRejection::Unknown => (401, "unknown API key\n", ", error=\"invalid_token\""),
            KeyRejection::Malformed => (400, "several API keys\n", ", error=\"invalid_request\""),
        };
        let challenge = format!("{scheme} realm=\"steppe\"{error}");
        let fields = vec![("www-authenticate".to_owned(), challenge)];
        Ok(refusal(status, text, fields))
    }
}

impl FilterFactory for ApiKeys {
    fn load(&self, name: &str) -> Result<FilterFiles, FileError> {
        let key = "http.filter.keys_file";
        let file = KeyFile::load(name, &self.keys).map_err(FileError::at(key))?;
        Ok(FilterFiles::new(file))
    }

    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        let file = parts.files.get();
        let file = file.unwrap_or_else(|| Arc::new(KeyFile::empty()));
        Arc::new(ApiKeysFilter::new(self.clone(), file))
    }

    fn explain(
        &self,
        filter: &dyn Filter,
        about: &About<'_>,
        head: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        let mut judgment = by_beginning(filter, about, head)?;
        if let Some(name) = about
            .identity
            .api_key()
            .filter(|_| judgment.reason.is_empty())
        {
            judgment.reason = format!("the key of {name}");
        }
        Ok(judgment)
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

    fn key_file(&self) -> Option<&Arc<KeyFile>> {
        Some(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{Exchange, field, responded};

    /// `printf alpha | sha256sum`.
    const ALPHA: &str = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";

    fn filter(from: &[&str], change: impl FnOnce(&mut ApiKeys)) -> ApiKeysFilter {
        let from = from
            .iter()
            .map(|text| TokenSource::parse(text).expect("a source"));
        let mut config = ApiKeys {
            keys: "keys".into(),
            from: from.collect(),
            forward_name: "x-name".to_owned(),
            forward_key: false,
        };
        change(&mut config);
        let file = KeyFile::holding(&format!("ci {ALPHA}\n"));
        ApiKeysFilter::new(config, Arc::new(file))
    }

    fn has(head: &RequestHead, name: &str, value: &str) -> bool {
        let mut values = head.fields.values_named(name.as_bytes());
        values.any(|found| found == value.as_bytes())
    }

    #[test]
    fn a_name_goes_on_in_place_of_its_key() {
        let filter = filter(&["header:x-api-key", "cookie:key"], |_| ());
        let exchange = Exchange::new();
        let lines = [
            ("x-api-key", "alpha"),
            ("x-name", "root"),
            ("cookie", "key=beta; a=b"),
        ];
        let mut head = exchange.head("/", &lines);
        assert!(matches!(exchange.begin(&filter, &mut head), Step::Continue));
        assert!(has(&head, "x-name", "ci") && !has(&head, "x-name", "root"));
        assert!(head.fields.values_named(b"x-api-key").next().is_none());
        assert!(has(&head, "cookie", "a=b"));
        assert_eq!(exchange.identity.api_key().as_deref(), Some("ci"));
        assert!(exchange.identity.is_authenticated());
    }

    #[test]
    fn the_key_that_was_verified_is_kept_where_that_is_asked_for() {
        let filter = filter(&["header:x-api-key", "cookie:key"], |config| {
            config.forward_key = true;
        });
        let exchange = Exchange::new();
        let lines = [("x-api-key", "alpha"), ("cookie", "key=beta; a=b")];
        let mut head = exchange.head("/", &lines);
        assert!(matches!(exchange.begin(&filter, &mut head), Step::Continue));
        assert!(has(&head, "x-api-key", "alpha") && has(&head, "cookie", "a=b"));
    }

    #[test]
    fn a_request_without_a_known_key_is_refused_and_told_why() {
        let (own, bearer) = (&["header:x-api-key"][..], &["header:authorization"][..]);
        for (from, lines, status, challenge) in [
            (own, &[][..], 401, "ApiKey realm=\"steppe\""),
            (
                own,
                &[("x-api-key", "beta")],
                401,
                "ApiKey realm=\"steppe\", error=\"invalid_token\"",
            ),
            (
                own,
                &[("x-api-key", "alpha"), ("x-api-key", "beta")],
                400,
                "ApiKey realm=\"steppe\", error=\"invalid_request\"",
            ),
            (
                bearer,
                &[("x-api-key", "alpha")],
                401,
                "Bearer realm=\"steppe\"",
            ),
            (
                bearer,
                &[("authorization", "Bearer beta"), ("x-name", "ci")],
                401,
                "Bearer realm=\"steppe\", error=\"invalid_token\"",
            ),
        ] {
            let exchange = Exchange::new();
            let mut head = exchange.head("/", lines);
            let respond = responded(exchange.begin(&filter(from, |_| ()), &mut head));
            assert_eq!(respond.status, status, "{lines:?}");
            assert_eq!(field(&respond, "www-authenticate"), Some(challenge));
            assert!(!exchange.identity.is_authenticated());
        }
    }

    #[test]
    fn trailers_have_neither_a_name_nor_a_key() {
        let filter = filter(&["header:x-api-key"], |_| ());
        let lines = [("x-name", "root"), ("x-api-key", "beta"), ("x-other", "1")];
        let mut trailers = crate::field::testing::fields(&lines);
        filter.request_trailers(&mut trailers);
        assert!(trailers.values_named(b"x-other").next().is_some());
        for name in ["x-name", "x-api-key"] {
            assert!(trailers.values_named(name.as_bytes()).next().is_none());
        }
    }
}
