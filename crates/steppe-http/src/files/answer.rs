//! Response heads for files.
//!
//! Spec: RFC 9110 §8, §10.2.2, §14.4, §15.

use std::fmt;
use std::io::Write;
use std::ops::Range;

use steppe_mem::{Buffer, Lease, OverBudget};
use steppe_net::File;

use super::condition::{self, Verdict};
use super::content::{Content, FileContent};
use super::lookup::Representation;
use super::media_type;
use super::multipart::Multipart;
use super::range::{self, Wanted};
use super::validators::Validators;
use crate::date;
use crate::encoder::Encoder;
use crate::field::{FieldBlock, FieldList, Span};
use crate::head::{ContentLength, RequestHead, ResponseHead, Version};
use crate::status;

/// A response: its head and its content.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: ResponseHead,
    pub(super) content: Content,
}

/// Initial size of a head's buffer; nearly all heads fit.
const HEAD_BYTES: usize = 1024;

/// What the head depends on beside the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) variant: Variant,
    pub(super) lease: &'a Lease,
}

/// Which form of a response is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant {
    pub(super) is_head: bool,
    /// The representation depends on `Accept-Encoding`.
    pub(super) varies: bool,
}

/// A head under construction.
struct Draft<'a> {
    asked: Asked<'a>,
    fields: FieldBlock,
    status: u16,
    reason: Span,
}

/// A response with a status and its reason phrase as content.
pub(super) fn words(
    asked: Asked<'_>,
    status: u16,
    further: &[(&[u8], &[u8])],
) -> Result<Answer, OverBudget> {
    let mut draft = Draft::new(asked, status)?;
    for (name, value) in further {
        draft.fields.append(name, value)?;
    }
    draft.words()
}

/// A redirect to the folder's path with a slash: relative references of its index resolve
/// against that.
pub(super) fn redirect(asked: Asked<'_>, head: &RequestHead) -> Result<Answer, OverBudget> {
    let mut location = head.path().to_vec();
    location.push(b'/');
    if let Some(query) = head.query() {
        location.push(b'?');
        location.extend(query);
    }
    words(asked, 301, &[(b"location", &location)])
}

/// The list of a folder. Of it nothing is loaded or run.
pub(super) fn listing(asked: Asked<'_>, page: Buffer) -> Result<Answer, OverBudget> {
    let mut draft = Draft::new(asked, 200)?;
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
    asked: Asked<'_>,
    head: &RequestHead,
    found: Representation,
) -> Result<Answer, OverBudget> {
    let Representation {
        file,
        media_type,
        coding,
        cache_control,
    } = found;
    let cache_control = cache_control.as_deref();
    let validators = Validators::of(file.status, date::since_epoch());
    let bytes = file.status.bytes;
    match condition::check(&head.fields, &validators) {
        Verdict::Failed => return words(asked, 412, &[]),
        Verdict::NotModified => return not_modified(asked, &validators, cache_control),
        Verdict::Proceed => {}
    }
    let wanted = if asked.variant.is_head {
        Wanted::Whole
    } else {
        self::wanted(&head.fields, &validators, bytes)
    };
    let status = match wanted {
        Wanted::Whole => 200,
        Wanted::One(_) | Wanted::Several(_) => 206,
        Wanted::Unsatisfiable => return unsatisfiable(asked, bytes),
    };
    let mut draft = Draft::new(asked, status)?;
    draft.validators(&validators)?;
    draft.lifetime(cache_control)?;
    if let Some(coding) = coding {
        draft
            .fields
            .append(b"content-encoding", coding.as_str().as_bytes())?;
    }
    draft.fields.append(b"accept-ranges", b"bytes")?;
    draft.fields.append(b"x-content-type-options", b"nosniff")?;
    let parameters = media_type::parameters(media_type);
    match wanted {
        Wanted::Several(ranges) => {
            let parts = Multipart::new(ranges, bytes, format!("{media_type}{parameters}"));
            draft.line(b"content-type", format_args!("{}", parts.content_type()))?;
            let length = parts.content_length();
            draft.content(length, || Content::File(FileContent::parts(file, parts)))
        }
        Wanted::One(range) => {
            draft.line(b"content-type", format_args!("{media_type}{parameters}"))?;
            let last = range.end - 1;
            draft.line(
                b"content-range",
                format_args!("bytes {}-{last}/{bytes}", range.start),
            )?;
            draft.range(file, range)
        }
        Wanted::Whole | Wanted::Unsatisfiable => {
            draft.line(b"content-type", format_args!("{media_type}{parameters}"))?;
            draft.range(file, 0..bytes)
        }
    }
}

fn wanted(fields: &FieldBlock, validators: &Validators, bytes: u64) -> Wanted {
    let mut values = fields.values_named(b"range");
    match (values.next(), values.next()) {
        (Some(value), None) if condition::allows_ranges(fields, validators) => {
            range::wanted(value, bytes)
        }
        _ => Wanted::Whole,
    }
}

fn not_modified(
    asked: Asked<'_>,
    validators: &Validators,
    cache_control: Option<&str>,
) -> Result<Answer, OverBudget> {
    let mut draft = Draft::new(asked, 304)?;
    draft.validators(validators)?;
    draft.lifetime(cache_control)?;
    Ok(draft.finish(ContentLength::Empty, Content::Nothing))
}

fn unsatisfiable(asked: Asked<'_>, bytes: u64) -> Result<Answer, OverBudget> {
    let mut draft = Draft::new(asked, 416)?;
    draft.line(b"content-range", format_args!("bytes */{bytes}"))?;
    draft.words()
}

impl<'a> Draft<'a> {
    fn new(asked: Asked<'a>, status: u16) -> Result<Self, OverBudget> {
        let mut fields = FieldBlock::new(Buffer::take(asked.lease, HEAD_BYTES)?, FieldList::take());
        let reason = fields.put(status::reason(status).as_bytes())?;
        Ok(Self {
            asked,
            fields,
            status,
            reason,
        })
    }

    /// Appends a field with a short value: numbers, dates, and names of this crate.
    fn line(&mut self, name: &[u8], value: fmt::Arguments<'_>) -> Result<(), OverBudget> {
        let mut text = [0; VALUE_BYTES_MAX];
        let mut room = &mut text[..];
        room.write_fmt(value).expect("it is of bounded length");
        let end = VALUE_BYTES_MAX - room.len();
        self.fields.append(name, &text[..end])
    }

    fn validators(&mut self, validators: &Validators) -> Result<(), OverBudget> {
        self.fields.append(b"etag", validators.tag())?;
        if self.asked.variant.varies {
            self.fields.append(b"vary", b"accept-encoding")?;
        }
        self.fields
            .append(b"last-modified", &validators.last_modified())
    }

    /// RFC 9110 §15.4.5: 304 has what 200 would have.
    fn lifetime(&mut self, cache_control: Option<&str>) -> Result<(), OverBudget> {
        cache_control.map_or(Ok(()), |value| {
            self.fields.append(b"cache-control", value.as_bytes())
        })
    }

    fn range(self, file: File, range: Range<u64>) -> Result<Answer, OverBudget> {
        let length = range.end - range.start;
        self.content(length, || Content::File(FileContent::range(file, range)))
    }

    fn words(mut self) -> Result<Answer, OverBudget> {
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
    ) -> Result<Answer, OverBudget> {
        if self.asked.variant.is_head || length == 0 {
            self.line(b"content-length", format_args!("{length}"))?;
            return Ok(self.finish(ContentLength::Empty, Content::Nothing));
        }
        Ok(self.finish(ContentLength::Known(length), content()))
    }

    fn finish(self, length: ContentLength, content: Content) -> Answer {
        let head = ResponseHead {
            fields: self.fields,
            version: Version::Http11,
            status: self.status,
            length,
            reason: self.reason,
            upgrade: None,
            is_connected: false,
        };
        Answer { head, content }
    }
}

/// Longest value: a media type; the longest registered one has 93 bytes without parameters.
const VALUE_BYTES_MAX: usize = 160;
