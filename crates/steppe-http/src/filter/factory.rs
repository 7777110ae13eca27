//! The making of filters: a factory has a filter's configuration, and knows the files, upstream and account that the
//! filter needs.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use steppe_mem::Account;
use steppe_net::tls::LoadError;

use super::explained::{Judgment, by_beginning};
use super::{About, Filter};
use crate::cache::Caches;
use crate::error::GatewayError;
use crate::head::RequestHead;

/// One filter of a configuration, before it is built.
///
/// Order of calls:
/// 1. [`FilterFactory::load`] on the control thread, at each start, check and reload.
/// 2. [`FilterFactory::build`] once a configuration is in force. A filter without files whose configuration a reload
///    did not change stays as it is.
/// 3. [`FilterFactory::explain`] for `steppe explain`, with a filter of its own.
pub trait FilterFactory: fmt::Debug + Send + Sync {
    /// Index of the upstream that its filter asks: [`About::pool`] is the worker's pool of it.
    fn upstream(&self) -> Option<usize> {
        None
    }

    /// Reads the files that the configuration of the filter `name` names.
    ///
    /// # Errors
    /// A file can't be used; the error names the key.
    fn load(&self, _name: &str) -> Result<FilterFiles, FileError> {
        Ok(FilterFiles::default())
    }

    /// The filter.
    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter>;

    /// Judges a request for `steppe explain`, without sending anything: as `filter` judges it, unless the filter goes
    /// by what no command can know.
    ///
    /// # Errors
    /// The error that the client is refused with.
    fn explain(
        &self,
        filter: &dyn Filter,
        about: &About<'_>,
        head: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        by_beginning(filter, about, head)
    }
}

/// The content of the files that a filter has read; none by default.
#[derive(Clone, Default)]
pub struct FilterFiles(Option<Arc<dyn Any + Send + Sync>>);

impl FilterFiles {
    /// The `content` that was read.
    #[must_use]
    pub fn new(content: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(content)))
    }

    /// The content that was read; `None` where nothing was, or something else.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.clone()?.downcast().ok()
    }

    /// True where a filter has files: they may have changed although its configuration did not.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for FilterFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys and passwords are secrets.
        f.debug_tuple("FilterFiles").field(&self.is_some()).finish()
    }
}

/// A file that a configuration names can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct FileError {
    /// The key that names it.
    pub key: &'static str,
    /// The problem with it.
    pub cause: LoadError,
}

impl FileError {
    /// Makes the error of a file that `key` names, for `map_err`.
    pub fn at(key: &'static str) -> impl FnOnce(LoadError) -> Self {
        move |cause| Self { key, cause }
    }
}

/// Everything that a filter is made of, beside its configuration.
pub struct FilterParts<'a> {
    /// The filter's name.
    pub name: &'a str,
    /// The files that [`FilterFactory::load`] read; none where a gateway was made without it.
    pub files: &'a FilterFiles,
    /// The account of all filters. A filter that keeps something of its own has a child of it.
    pub account: &'a Account,
    /// The filter of this name in the configuration before.
    pub last: Option<&'a dyn Filter>,
    /// The caches that there are.
    pub(crate) caches: &'a Caches,
}
