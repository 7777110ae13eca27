//! JSON content that is taken whole, edited, and given on with its length.
//!
//! Invariant: content is collected up to a limit, in memory of the budget, and only where a filter edits it.
//! Content that is not JSON though its type says so is refused, or goes on as it is where the configuration says that.

use std::sync::Arc;
use std::task::{Context, Poll};

use steppe_mem::{Buffer, Chunk, Lease};

use super::decoding;
use super::json::Edits;
use super::room::{self, ContentRejection};
use crate::config::{Coding, JsonEdits, Unreadable};
use crate::error::GatewayError;
use crate::exchange::Part;
use crate::field::{FieldBlock, FieldId, elements};
use crate::filter::{BodyTransform, ExchangeFilter, Ready, WholeContent, representation};
use crate::grpc::Dialect;
use crate::head::{ContentLength, RequestHead, ResponseHead};
use crate::metrics::CloseReason;

/// Edits of the JSON of one direction.
#[derive(Debug)]
pub(super) struct JsonEditor {
    edits: Edits,
    bytes_max: usize,
    unreadable: Unreadable,
}

/// Content of one message, as far as it came.
#[derive(Debug)]
struct Collected {
    editor: Arc<JsonEditor>,
    buffer: Option<Buffer>,
    length: ContentLength,
    /// The content's end was received, with these trailers.
    end: Option<Option<FieldBlock>>,
}

/// One exchange of which content is edited.
#[derive(Debug)]
pub(super) struct Editing {
    request: Option<RequestEdit>,
    response: Option<Arc<JsonEditor>>,
    is_to_head: bool,
    collected: Option<ResponseEdit>,
}

#[derive(Debug)]
struct RequestEdit {
    content: Collected,
    coding: Option<Coding>,
    whole: Option<WholeContent>,
}

#[derive(Debug)]
struct ResponseEdit {
    content: Collected,
    /// The edited content.
    edited: Option<Chunk>,
    /// The length of the edited content, where no trailers follow.
    length: ContentLength,
    is_edited: bool,
}

impl JsonEditor {
    pub(super) fn new(config: &JsonEdits) -> Arc<Self> {
        Arc::new(Self {
            edits: Edits::of(config),
            bytes_max: usize::try_from(config.max_bytes).unwrap_or(usize::MAX),
            unreadable: config.unreadable,
        })
    }

    /// Content that came in a request, decoded and edited; `None` where it goes on as it is.
    pub(super) fn rewrite(
        &self,
        coding: Option<Coding>,
        content: &[u8],
        lease: &Lease,
    ) -> Result<Option<Buffer>, ContentRejection> {
        let decode = |coding| decoding::decode(coding, content, self.bytes_max, lease);
        let decoded = coding.map(decode).transpose()?;
        let text = decoded.as_ref().map_or(content, Buffer::filled);
        let edited = self.edit(text, lease)?;
        match (edited, decoded) {
            (Some(edited), _) => Ok(Some(edited)),
            // Its buffer may have room for all that it might have become.
            (None, Some(decoded)) if decoded.spare() > decoded.len() => {
                let fitting = Buffer::take(lease, decoded.len());
                let mut fitting = fitting.map_err(|_| ContentRejection::OverBudget)?;
                fitting.put(decoded.filled()).expect("it has room");
                Ok(Some(fitting))
            }
            (None, decoded) => Ok(decoded),
        }
    }

    /// `text` edited; `None` where it goes on as it is.
    fn edit(&self, text: &[u8], lease: &Lease) -> Result<Option<Buffer>, ContentRejection> {
        // Most texts do not grow; an edit of each item of an array may have them grow by far.
        let usual = 2 * text.len() + self.edits.bytes() + 64;
        let apply = |out: &mut Buffer| self.edits.apply(text, out);
        match room::written(lease, usual, self.bytes_max, apply) {
            Err(ContentRejection::Unreadable) if self.unreadable == Unreadable::Pass => Ok(None),
            edited => edited.map(Some),
        }
    }
}

impl Collected {
    fn new(editor: &Arc<JsonEditor>, length: ContentLength) -> Result<Self, ContentRejection> {
        let is_long =
            matches!(length, ContentLength::Known(bytes) if bytes > editor.bytes_max as u64);
        if is_long {
            return Err(ContentRejection::TooLong);
        }
        Ok(Self {
            editor: Arc::clone(editor),
            buffer: None,
            length,
            end: None,
        })
    }

    fn put(&mut self, part: Part) -> Result<(), ContentRejection> {
        let chunk = match part {
            Part::End(mut trailers) => {
                if let Some(trailers) = &mut trailers {
                    representation::change_trailers(trailers);
                }
                self.end = Some(trailers);
                return Ok(());
            }
            Part::Chunk(chunk) => chunk,
        };
        let bytes = self.filled().len() + chunk.len();
        if bytes > self.editor.bytes_max {
            return Err(ContentRejection::TooLong);
        }
        if self
            .buffer
            .as_ref()
            .is_none_or(|buffer| buffer.spare() < chunk.len())
        {
            self.grow(bytes, chunk.lease())?;
        }
        let buffer = self.buffer.as_mut().expect("it has room");
        buffer
            .put(chunk.filled())
            .map_err(|_| ContentRejection::OverBudget)
    }

    /// Moves to a buffer for `bytes` and as many again, but for no more than what is said to come: who
    /// announces much and sends little holds little. As buffers double, little is copied often.
    fn grow(&mut self, bytes: usize, lease: &Lease) -> Result<(), ContentRejection> {
        let said = match self.length {
            ContentLength::Known(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
            ContentLength::Empty | ContentLength::Unknown => 0,
        };
        let wanted = said.min(2 * bytes).max(bytes);
        let mut larger = Buffer::take(lease, wanted).map_err(|_| ContentRejection::OverBudget)?;
        larger.put(self.filled()).expect("it is larger");
        self.buffer = Some(larger);
        Ok(())
    }

    fn filled(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], Buffer::filled)
    }

    fn is_whole(&self) -> bool {
        self.end.is_some()
    }

    /// The received content after `edit`, or unchanged; `None`: there is none.
    fn edited(
        &mut self,
        edit: impl FnOnce(&JsonEditor, &[u8], &Lease) -> Result<Option<Buffer>, ContentRejection>,
    ) -> Result<Option<Buffer>, ContentRejection> {
        let Some(content) = self.buffer.take() else {
            return Ok(None);
        };
        let edited = edit(&self.editor, content.filled(), content.lease())?;
        Ok(Some(edited.unwrap_or(content)))
    }
}

impl Editing {
    /// For a request, of which and of whose response these editors edit what is JSON.
    pub(super) fn begin(
        request: Option<&Arc<JsonEditor>>,
        response: Option<&Arc<JsonEditor>>,
        head: &mut RequestHead,
    ) -> Result<Option<Self>, GatewayError> {
        let is_edited = head.length != ContentLength::Empty && is_json(&head.fields);
        let request = match request.filter(|_| is_edited) {
            None => None,
            Some(editor) => Some(RequestEdit {
                coding: coding(&head.fields)?,
                content: Collected::new(editor, head.length)
                    .map_err(ContentRejection::of_request)?,
                whole: None,
            }),
        };
        if response.is_some() {
            // What is encoded, or in parts, could not be looked into.
            head.fields.set(b"accept-encoding", b"identity")?;
            head.fields.remove(b"range");
            head.fields.remove(b"if-range");
        }
        if request.is_none() && response.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            request,
            response: response.cloned(),
            is_to_head: head.method() == b"HEAD",
            collected: None,
        }))
    }
}

impl ExchangeFilter for Editing {
    fn wants_content(&self) -> bool {
        self.request
            .as_ref()
            .is_some_and(|request| !request.content.is_whole())
    }

    fn put_content(&mut self, part: Part) -> Result<(), GatewayError> {
        match &mut self.request {
            Some(request) => request
                .content
                .put(part)
                .map_err(ContentRejection::of_request),
            None => Ok(()),
        }
    }

    fn poll_ready(
        &mut self,
        _cx: &mut Context<'_>,
        head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        if let Some(request) = &mut self.request {
            request.edit(head)?;
        }
        Poll::Ready(Ok(Ready::Continue))
    }

    fn take_content(&mut self) -> Option<WholeContent> {
        self.request.take()?.whole
    }

    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        let Some(editor) = &self.response else {
            return Ok(());
        };
        if head.status == 304 {
            // Of the representation that the client holds (RFC 9110 §15.4.5).
            return representation::weaken(&mut head.fields);
        }
        let has_content = head.length != ContentLength::Empty || self.is_to_head;
        if !has_content || head.is_tunnel() || !is_json(&head.fields) {
            return Ok(());
        }
        let is_partial = head.fields.values_named(b"content-range").next().is_some();
        if is_partial || head.status == 206 || !matches!(coding(&head.fields), Ok(None)) {
            return Err(GatewayError::unfit_response());
        }
        representation::change(&mut head.fields)?;
        if self.is_to_head {
            return Ok(());
        }
        let content = Collected::new(editor, head.length).map_err(ContentRejection::of_response)?;
        self.collected = Some(ResponseEdit {
            content,
            edited: None,
            length: ContentLength::Unknown,
            is_edited: false,
        });
        head.length = ContentLength::Unknown;
        Ok(())
    }

    fn holds_head(&self) -> bool {
        self.collected.is_some()
    }

    fn release_head(&mut self, head: &mut ResponseHead) {
        let Some(response) = &self.collected else {
            return;
        };
        // A filter behind this one may have encoded it.
        let is_encoded = head
            .fields
            .values_named(b"content-encoding")
            .next()
            .is_some();
        if !is_encoded {
            head.length = response.length;
        }
    }

    fn response_body(&mut self) -> Option<&mut dyn BodyTransform> {
        let response = self.collected.as_mut()?;
        Some(response)
    }
}

impl RequestEdit {
    fn edit(&mut self, head: &mut RequestHead) -> Result<(), GatewayError> {
        let coding = self.coding;
        let edited = (self.content)
            .edited(|editor, content, lease| editor.rewrite(coding, content, lease))
            .map_err(ContentRejection::of_request)?;
        if coding.is_some() && edited.is_some() {
            head.fields.remove(b"content-encoding");
        }
        representation::change(&mut head.fields)?;
        let bytes = edited.as_ref().map_or(0, Buffer::len) as u64;
        let trailers = self.content.end.take().flatten();
        head.length = match trailers {
            Some(_) => ContentLength::Unknown,
            None => ContentLength::Known(bytes),
        };
        self.whole = Some(WholeContent {
            content: edited.filter(|edited| !edited.is_empty()).map(Chunk::from),
            trailers,
        });
        Ok(())
    }
}

impl BodyTransform for ResponseEdit {
    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.content
            .put(part)
            .map_err(ContentRejection::of_response)?;
        if self.content.is_whole() {
            let edited = self.content.edited(JsonEditor::edit);
            let edited = edited.map_err(ContentRejection::of_response)?;
            if matches!(self.content.end, Some(None)) {
                let bytes = edited.as_ref().map_or(0, Buffer::len);
                self.length = ContentLength::Known(bytes as u64);
            }
            let edited = edited.filter(|edited| !edited.is_empty());
            self.edited = edited.map(Chunk::from);
            self.is_edited = true;
        }
        Ok(())
    }

    fn poll_part(
        &mut self,
        _cx: &mut Context<'_>,
        _lease: &Lease,
    ) -> Poll<Result<Option<Part>, GatewayError>> {
        if !self.is_edited {
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(Ok(match self.edited.take() {
            Some(edited) => Some(Part::Chunk(edited)),
            None => self.content.end.take().map(Part::End),
        }))
    }
}

/// `application/json`, or what has the suffix of JSON (RFC 6839 §3.1). Of several lines one is enough: who
/// reads another one would take it for something else. Messages of gRPC have frames around them, whatever they
/// are written in.
fn is_json(fields: &FieldBlock) -> bool {
    fields.values(FieldId::ContentType).any(|value| {
        if Dialect::of_media_type(value).is_some() {
            return false;
        }
        let end = memchr::memchr(b';', value).unwrap_or(value.len());
        let media_type = value[..end].trim_ascii().to_ascii_lowercase();
        media_type == b"application/json" || media_type.ends_with(b"+json")
    })
}

/// The coding of content; `None` where it has none.
///
/// # Errors
/// 415 of several, and of one that is not known.
fn coding(fields: &FieldBlock) -> Result<Option<Coding>, GatewayError> {
    let unsupported = || GatewayError::downstream(CloseReason::Unsupported, 415);
    let values = fields.values_named(b"content-encoding");
    let mut codings = values
        .flat_map(elements)
        .filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    let Some(first) = codings.next() else {
        return Ok(None);
    };
    if codings.next().is_some() {
        return Err(unsupported());
    }
    let name = first.to_ascii_lowercase();
    let name = name.strip_prefix(b"x-").unwrap_or(&name);
    let known = std::str::from_utf8(name).ok().and_then(Coding::named);
    known.map(Some).ok_or_else(unsupported)
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    #[test]
    fn what_is_announced_and_not_sent_takes_no_memory() {
        const SAID: usize = 1 << 20;
        let editor = JsonEditor::new(&JsonEdits {
            remove: Vec::new(),
            rename: Vec::new(),
            set: Vec::new(),
            max_bytes: SAID as u64,
            unreadable: Unreadable::Refuse,
        });
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let mut content =
            Collected::new(&editor, ContentLength::Known(SAID as u64)).expect("it is not too long");
        let (mut put, mut copied, mut room) = (0, 0, 0);
        for bytes in std::iter::once(1).chain(std::iter::repeat(4 << 10)) {
            let mut buffer = Buffer::take(&lease, bytes).expect("room");
            buffer.put(&vec![b' '; bytes]).expect("it has room");
            content.put(Part::Chunk(buffer.into())).expect("room");
            put += bytes;
            let buffer = content.buffer.as_ref().expect("there is content");
            let has = buffer.len() + buffer.spare();
            if has != room {
                (room, copied) = (has, copied + put);
            }
            assert!(has <= (4 * put).max(8 << 10), "{has} for {put}");
            if put + (4 << 10) > SAID {
                break;
            }
        }
        assert!(copied <= 4 * SAID, "{copied}");
    }
}
