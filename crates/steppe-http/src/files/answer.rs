//! Response heads for files.
//!
//! Spec: RFC 9110 §8, §10.2.2, §14.4, §15.

use std::ops::Range;

use steppe_mem::{Buffer, Lease, OverBudget};
use steppe_net::File;

use super::content::{Content, FileContent};
use super::lookup::Representation;
use super::media_type;
use super::validators::FileValidators;
use crate::conditional::multipart::Multipart;
use crate::conditional::range::{RequestedRange, append_content_range, append_unsatisfied_range};
use crate::date;
use crate::encoder::Encoder;
use crate::field::{FieldBlock, FieldList, Span};
use crate::head::{ContentLength, RequestHead, ResponseHead, Version};
use crate::status;

/// A response: its head and its content.
#[derive(Debug)]
pub(super) struct FileResponse {
    pub(super) head: ResponseHead,
    pub(super) content: Content,
}

/// Initial size of a head's buffer; nearly all heads fit.
const HEAD_BYTES: usize = 1024;

/// The parts of a request that every response head depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileRequest<'a> {
    pub(super) variant: ResponseForm,
    pub(super) lease: &'a Lease,
}

/// The form of the response.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseForm {
    pub(super) is_head: bool,
    /// The representation depends on `Accept-Encoding`.
    pub(super) varies: bool,
}

/// A head under construction.
struct HeadDraft<'a> {
    asked: FileRequest<'a>,
    fields: FieldBlock,
    status: u16,
    reason: Span,
}

/// A response with a status and its reason phrase as content.
pub(super) fn words(
    asked: FileRequest<'_>,
    status: u16,
    further: &[(&[u8], &[u8])],
) -> Result<FileResponse, OverBudget> {
    let mut draft = HeadDraft::new(asked, status)?;
    for (name, value) in further {
        draft.fields.append(name, value)?;
    }
    draft.words()
}

/// A redirect to the folder's path with a slash: relative references of its index resolve
/// against that.
pub(super) fn redirect(
    asked: FileRequest<'_>,
    head: &RequestHead,
) -> Result<FileResponse, OverBudget> {
    let mut location = head.path().to_vec();
    location.push(b'/');
    if let Some(query) = head.query() {
        location.push(b'?');
        location.extend(query);
    }
    words(asked, 301, &[(b"location", &location)])
}

/// The list of a folder, with a policy by which browsers load and run nothing.
pub(super) fn listing(asked: FileRequest<'_>, page: Buffer) -> Result<FileResponse, OverBudget> {
    let mut draft = HeadDraft::new(asked, 200)?;
    for (name, value) in [
        (&b"content-type"[..], &b"text/html; charset=utf-8"[..]),
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", LISTING_POLICY),
        (b"x-content-type-options", b"nosniff"),
    ] {
        draft.fields.append(name, value)?;
    }
    // Most lists are short, and the page has room for the longest.
    let mut fitting = Buffer::take(asked.lease, page.len())?;
    fitting.put(page.filled()).expect("it was taken for it");
    drop(page);
    let length = fitting.len() as u64;
    draft.content(length, || Content::Words(fitting))
}

const LISTING_POLICY: &[u8] =
    b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A response with the file, or with the ranges that `head` asks for.
pub(super) fn file(
    asked: FileRequest<'_>,
    head: &RequestHead,
    found: Representation,
) -> Result<FileResponse, OverBudget> {
    let Representation {
        file,
        media_type,
        coding,
        cache_control,
    } = found;
    let cache_control = cache_control.as_deref();
    let validators = FileValidators::of(file.status, date::since_epoch());
    let bytes = file.status.bytes;
    let selected = validators.as_validators();
    if selected.fail(&head.fields) {
        return words(asked, 412, &[]);
    }
    if selected.are_known(&head.fields) {
        return not_modified(asked, &validators, cache_control);
    }
    let requested = match asked.variant.is_head {
        true => RequestedRange::Whole,
        false => selected.requested_range(&head.fields, bytes),
    };
    let status = match requested {
        RequestedRange::Whole => 200,
        RequestedRange::Single(_) | RequestedRange::Multiple(_) => 206,
        RequestedRange::Unsatisfiable => return unsatisfiable(asked, bytes),
    };
    let mut draft = HeadDraft::new(asked, status)?;
    draft.validators(&validators)?;
    draft.lifetime(cache_control)?;
    if let Some(coding) = coding {
        draft
            .fields
            .append(b"content-encoding", coding.as_str().as_bytes())?;
    }
    draft.fields.append(b"accept-ranges", b"bytes")?;
    draft.fields.append(b"x-content-type-options", b"nosniff")?;
    let media_type = format_args!("{media_type}{}", media_type::parameters(media_type));
    let fields = &mut draft.fields;
    match requested {
        RequestedRange::Multiple(ranges) => {
            let parts = Multipart::new(ranges, bytes, media_type.to_string());
            fields.append(b"content-type", parts.content_type().as_bytes())?;
            let length = parts.content_length();
            draft.content(length, || Content::File(FileContent::parts(file, parts)))
        }
        RequestedRange::Single(range) => {
            fields.append_formatted(b"content-type", media_type)?;
            append_content_range(fields, &range, bytes)?;
            draft.range(file, range)
        }
        RequestedRange::Whole | RequestedRange::Unsatisfiable => {
            fields.append_formatted(b"content-type", media_type)?;
            draft.range(file, 0..bytes)
        }
    }
}

fn not_modified(
    asked: FileRequest<'_>,
    validators: &FileValidators,
    cache_control: Option<&str>,
) -> Result<FileResponse, OverBudget> {
    let mut draft = HeadDraft::new(asked, 304)?;
    draft.validators(validators)?;
    draft.lifetime(cache_control)?;
    Ok(draft.finish(ContentLength::Empty, Content::Nothing))
}

fn unsatisfiable(asked: FileRequest<'_>, bytes: u64) -> Result<FileResponse, OverBudget> {
    let mut draft = HeadDraft::new(asked, 416)?;
    append_unsatisfied_range(&mut draft.fields, bytes)?;
    draft.words()
}

impl<'a> HeadDraft<'a> {
    fn new(asked: FileRequest<'a>, status: u16) -> Result<Self, OverBudget> {
        let mut fields = FieldBlock::new(Buffer::take(asked.lease, HEAD_BYTES)?, FieldList::take());
        let reason = fields.put(status::reason(status).as_bytes())?;
        Ok(Self {
            asked,
            fields,
            status,
            reason,
        })
    }

    fn validators(&mut self, validators: &FileValidators) -> Result<(), OverBudget> {
        self.fields.append(b"etag", validators.tag())?;
        if self.asked.variant.varies {
            self.fields.append(b"vary", b"accept-encoding")?;
        }
        self.fields
            .append(b"last-modified", &validators.last_modified())
    }

    /// Appends `Cache-Control`, to 304 as to 200 (RFC 9110 §15.4.5).
    fn lifetime(&mut self, cache_control: Option<&str>) -> Result<(), OverBudget> {
        cache_control.map_or(Ok(()), |value| {
            self.fields.append(b"cache-control", value.as_bytes())
        })
    }

    fn range(self, file: File, range: Range<u64>) -> Result<FileResponse, OverBudget> {
        let length = range.end - range.start;
        self.content(length, || Content::File(FileContent::range(file, range)))
    }

    fn words(mut self) -> Result<FileResponse, OverBudget> {
        self.fields
            .append(b"content-type", b"text/plain; charset=utf-8")?;
        let status = self.status;
        let words = Encoder::encode(self.asked.lease, 64, |out| out.refusal_content(status))?;
        let length = words.len() as u64;
        self.content(length, || Content::Words(words))
    }

    /// Finishes with content of `length`; to HEAD, only the field is sent.
    fn content(
        mut self,
        length: u64,
        content: impl FnOnce() -> Content,
    ) -> Result<FileResponse, OverBudget> {
        if self.asked.variant.is_head || length == 0 {
            (self.fields).append_formatted(b"content-length", format_args!("{length}"))?;
            return Ok(self.finish(ContentLength::Empty, Content::Nothing));
        }
        Ok(self.finish(ContentLength::Known(length), content()))
    }

    fn finish(self, length: ContentLength, content: Content) -> FileResponse {
        let head = ResponseHead {
            fields: self.fields,
            version: Version::Http11,
            status: self.status,
            length,
            reason: self.reason,
            upgrade: None,
            is_connected: false,
        };
        FileResponse { head, content }
    }
}
