//! `error-pages`: says errors in other words.
//!
//! Invariant: an answer keeps its status and every field but those that describe its content. Pages are read
//! when their configuration is; all answers share their memory. Calls of gRPC are left alone: their
//! errors are told beside the content. Spec: RFC 9110 §8 for what describes content.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use steppe_mem::{Account, Chunk, Lease};
use steppe_net::tls::{LoadError, read};

use super::factory::{FileError, FilterFactory, FilterFiles, FilterParts};
use super::{About, Author, BodyTransform, ExchangeFilter, Filter, Step};
use crate::config::{ErrorContent, ErrorPages, ErrorsOf, Statuses};
use crate::error::GatewayError;
use crate::exchange::{Page, Part};
use crate::field::{FieldBlock, FieldId};
use crate::files::media_type;
use crate::grpc::Dialect;
use crate::head::{ContentLength, RequestHead, ResponseHead};
use crate::limits::{ERROR_PAGE_BYTES_MAX, REPLACED_BYTES_MAX};
use crate::metrics::FilterMetrics;

/// Answers with pages.
#[derive(Debug)]
pub struct ErrorPagesFilter(Arc<ErrorPageSet>);

#[derive(Debug)]
struct ErrorPageSet {
    of: ErrorsOf,
    pages: Vec<(Statuses, Arc<Page>)>,
}

/// The state of one exchange.
#[derive(Debug)]
struct Watching {
    shared: Arc<ErrorPageSet>,
    is_to_head: bool,
    author: Author,
    replacing: Option<Replacing>,
    meter: Option<Rc<FilterMetrics>>,
}

/// A page on its way in place of what its author sends.
#[derive(Debug)]
struct Replacing {
    page: Option<Chunk>,
    /// Bytes of the replaced content that were discarded; `None`: none came yet.
    discarded: Option<usize>,
    is_over: bool,
}

fn content(content: &ErrorContent) -> Result<Bytes, LoadError> {
    match content {
        ErrorContent::Text(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
        ErrorContent::File(path) => {
            let bytes = read(path)?;
            let problem = match bytes.len() {
                0 => "the file is empty".to_owned(),
                1..=ERROR_PAGE_BYTES_MAX => return Ok(bytes.into()),
                _ => format!("larger than {ERROR_PAGE_BYTES_MAX} bytes"),
            };
            Err(LoadError::content(path, problem))
        }
    }
}

/// By the file's name.
fn media_type_of(content: &ErrorContent) -> String {
    let media_type = match content {
        ErrorContent::Text(_) => "text/plain",
        ErrorContent::File(path) => media_type::of(name_of(path)),
    };
    format!("{media_type}{}", media_type::parameters(media_type))
}

fn name_of(path: &Path) -> &[u8] {
    path.file_name().map_or(b"", |name| name.as_encoded_bytes())
}

impl ErrorPagesFilter {
    /// A filter whose pages are charged to `account`. Without room for one, the others are used.
    #[must_use]
    pub fn new(config: &ErrorPages, contents: &[Bytes], account: &Account) -> Self {
        let lease = account.lease();
        let pages = config.pages.iter().zip(contents);
        let pages = pages.filter_map(|(page, content)| {
            let charge = lease.try_reserve(content.len()).ok()?;
            let media_type = page.content_type.clone();
            let media_type = media_type.unwrap_or_else(|| media_type_of(&page.content));
            let made = Page::new(media_type, content.clone(), charge);
            Some((page.statuses.clone(), Arc::new(made)))
        });
        Self(Arc::new(ErrorPageSet {
            of: config.of,
            pages: pages.collect(),
        }))
    }
}

impl FilterFactory for ErrorPages {
    fn load(&self, _: &str) -> Result<FilterFiles, FileError> {
        let key = "http.filter.pages";
        let contents = self.pages.iter().map(|page| content(&page.content));
        let contents: Vec<Bytes> = contents
            .collect::<Result<_, _>>()
            .map_err(FileError::at(key))?;
        Ok(FilterFiles::new(contents))
    }

    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        let contents: Arc<Vec<Bytes>> = parts.files.get().unwrap_or_default();
        Arc::new(ErrorPagesFilter::new(self, &contents, parts.account))
    }
}

impl Filter for ErrorPagesFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        if Dialect::of(head).is_some() {
            return Ok(Step::Continue);
        }
        Ok(Step::Attach(Box::new(Watching {
            shared: Arc::clone(&self.0),
            is_to_head: head.method() == b"HEAD",
            author: Author::Gateway,
            replacing: None,
            meter: None,
        })))
    }
}

impl Watching {
    fn page_for(&self, status: u16) -> Option<&Arc<Page>> {
        let mut pages = self.shared.pages.iter();
        let (_, page) = pages.find(|(statuses, _)| statuses.contains(status))?;
        if let Some(meter) = &self.meter {
            meter.count_answer();
        }
        Some(page)
    }
}

impl ExchangeFilter for Watching {
    fn meter(&mut self, meter: &Rc<FilterMetrics>) {
        self.meter = Some(Rc::clone(meter));
    }

    fn written_by(&mut self, author: Author) {
        self.author = author;
    }

    fn page(&self, status: u16) -> Option<Arc<Page>> {
        self.page_for(status).map(Arc::clone)
    }

    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        let is_ours = self.author == Author::Gateway || self.shared.of == ErrorsOf::All;
        if !is_ours || head.is_tunnel() {
            return Ok(());
        }
        let Some(page) = self.page_for(head.status).map(Arc::clone) else {
            return Ok(());
        };
        forget_content(&mut head.fields);
        head.fields
            .append(b"content-type", page.media_type.as_bytes())?;
        if self.is_to_head {
            let length = page.bytes().to_string();
            head.fields.append(b"content-length", length.as_bytes())?;
            head.length = ContentLength::Empty;
            return Ok(());
        }
        head.length = ContentLength::Known(page.bytes());
        self.replacing = Some(Replacing {
            page: Some(page.content()),
            discarded: None,
            is_over: false,
        });
        Ok(())
    }

    fn response_body(&mut self) -> Option<&mut dyn BodyTransform> {
        let replacing = self.replacing.as_mut()?;
        Some(replacing)
    }
}

/// Takes out what describes content that is not sent.
fn forget_content(fields: &mut FieldBlock) {
    const OF_CONTENT: [&[u8]; 12] = [
        b"accept-ranges",
        b"content-digest",
        b"content-disposition",
        b"content-encoding",
        b"content-language",
        b"content-location",
        b"content-md5",
        b"content-range",
        b"digest",
        b"etag",
        b"last-modified",
        b"repr-digest",
    ];
    fields.remove_where(|id| matches!(id, FieldId::ContentLength | FieldId::ContentType));
    for name in OF_CONTENT {
        fields.remove(name);
    }
}

impl BodyTransform for Replacing {
    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        let discarded = self.discarded.unwrap_or(0);
        match part {
            Part::Chunk(chunk) => self.discarded = Some(discarded + chunk.len()),
            Part::End(_) => {
                self.discarded = Some(discarded);
                self.is_over = true;
            }
        }
        Ok(())
    }

    fn poll_part(
        &mut self,
        _: &mut Context<'_>,
        _: &Lease,
    ) -> Poll<Result<Option<Part>, GatewayError>> {
        let Some(discarded) = self.discarded else {
            return Poll::Ready(Ok(None));
        };
        if let Some(page) = self.page.take() {
            return Poll::Ready(Ok(Some(Part::Chunk(page))));
        }
        let is_over = self.is_over || discarded > REPLACED_BYTES_MAX;
        Poll::Ready(Ok(is_over.then_some(Part::End(None))))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use steppe_mem::{Budget, Buffer};

    use super::*;

    /// A server that goes on and on with its error is not listened to for ever.
    #[test]
    fn what_is_replaced_is_read_up_to_a_limit() {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let chunk = |bytes: usize| {
            let mut chunk = Buffer::take(&lease, bytes).expect("room");
            chunk.put(&vec![b'x'; bytes]).expect("room");
            Chunk::from(chunk)
        };
        let mut replacing = Replacing {
            page: Some(chunk(3)),
            discarded: None,
            is_over: false,
        };
        let cx = &mut Context::from_waker(Waker::noop());
        let mut next = |replacing: &mut Replacing| match replacing.poll_part(cx, &lease) {
            Poll::Ready(Ok(part)) => part,
            other => panic!("{other:?}"),
        };
        assert!(next(&mut replacing).is_none());
        for at in 0..=REPLACED_BYTES_MAX / 4096 {
            replacing.put(Part::Chunk(chunk(4096))).expect("taken");
            match next(&mut replacing) {
                Some(Part::Chunk(page)) => assert_eq!((at, page.filled()), (0, &b"xxx"[..])),
                None => assert!(at > 0 && at < REPLACED_BYTES_MAX / 4096),
                Some(Part::End(trailers)) => {
                    assert!(trailers.is_none() && at == REPLACED_BYTES_MAX / 4096);
                }
            }
        }
    }
}
