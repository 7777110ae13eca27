//! A server that is none: files of a folder.
//!
//! Invariant: what a response says of a file, and what it sends of it, come from one descriptor,
//! so that a file that is replaced meanwhile is served as it was. One that shrinks while it is sent
//! ends the connection: nothing is made up for what is missing.
//!
//! Leaves out how files are found and read ([`Folder`]), listings of folders, and content that
//! was encoded beforehand. Spec: RFC 9110 §8, §13, §14; RFC 8615.

mod condition;
mod content;
mod name;
mod range;

use std::ffi::CString;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::{Buffer, Lease};
use steppe_net::limits::PATH_BYTES_MAX;
use steppe_net::{File, Folder, Opened, Opening};

use crate::config::Files;
use crate::error::GatewayError;
use crate::exchange::{Part, Sink, Source, Upstream};
use crate::field::{FieldBlock, FieldList, Span};
use crate::head::{BodyLength, RequestHead, ResponseHead, Version};
use crate::status;
use condition::{Validators, Verdict};
use content::Content;
use range::Wanted;

/// One request for a file, and its response on its way.
#[derive(Debug)]
pub struct FileServer<'a> {
    folder: &'a Folder,
    files: &'a Files,
    lease: &'a Lease,
    /// Until it is answered.
    head: Option<RequestHead>,
    /// The path led to a folder: its index is looked for.
    is_index: bool,
    opening: Option<Opening>,
    content: Content,
}

/// Room for a response's field lines.
const FIELDS_BYTES: usize = 1024;

impl<'a> FileServer<'a> {
    /// Answers the request of `head` out of `folder`, charged to `lease`.
    #[must_use]
    pub fn new(folder: &'a Folder, files: &'a Files, head: RequestHead, lease: &'a Lease) -> Self {
        Self {
            folder,
            files,
            lease,
            head: Some(head),
            is_index: false,
            opening: None,
            content: Content::default(),
        }
    }

    fn head(&self) -> &RequestHead {
        self.head.as_ref().expect("it is kept until it is answered")
    }

    fn index(&self) -> &'a [u8] {
        self.files.index.as_deref().unwrap_or("").as_bytes()
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if !matches!(self.head().method(), b"GET" | b"HEAD") {
            return Poll::Ready(self.plain(405, &[(b"allow", b"GET, HEAD")]));
        }
        loop {
            let opened = match &mut self.opening {
                Some(opening) => ready!(opening.poll(cx)),
                None => match self.open() {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    opened => opened,
                },
            };
            self.opening = None;
            let is_folder_path = self.head().path().ends_with(b"/");
            return Poll::Ready(match opened {
                Ok(Opened::File(file)) => self.answer(file),
                Ok(Opened::Folder) if self.is_index => self.plain(404, &[]),
                Ok(Opened::Folder) if !is_folder_path => self.redirect(),
                Ok(Opened::Folder) if !self.index().is_empty() => {
                    self.is_index = true;
                    continue;
                }
                Ok(Opened::Folder) => self.plain(404, &[]),
                Err(error) => self.plain(self.status_of(&error), &[]),
            });
        }
    }

    /// Opens what the path names, or begins to: then the error is that it would block.
    fn open(&mut self) -> io::Result<Opened> {
        let index = if self.is_index { self.index() } else { b"" };
        let mut room = [0; PATH_BYTES_MAX];
        let path = self.head().path();
        let name = name::of(path, self.files.slashes, index, &mut room);
        let name = name.ok_or(ErrorKind::NotFound)?;
        let now = Instant::now();
        let opened = self.folder.try_open(name, now);
        if matches!(&opened, Err(error) if error.kind() == ErrorKind::WouldBlock) {
            self.opening = Some(self.folder.open(CString::from(name), now)?);
        }
        opened
    }

    /// Whatever keeps a file from being found is told to clients as little as can be, and to
    /// the log where it is no client's doing.
    fn status_of(&self, error: &io::Error) -> u16 {
        match error.kind() {
            ErrorKind::PermissionDenied => 403,
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::IsADirectory => 404,
            _ => {
                tracing::warn!(folder = %self.files.root.display(), %error, "cannot open a file");
                500
            }
        }
    }

    fn answer(&mut self, file: File) -> Result<ResponseHead, GatewayError> {
        let validators = Validators::of(&file.status);
        let bytes = file.status.bytes;
        let head = self.head();
        let is_get = head.method() == b"GET";
        let verdict = validators.evaluate(&head.fields);
        let wanted = match head.fields.values_named(b"range").next() {
            Some(field) if is_get && verdict == Verdict::Proceed => range::wanted(field, bytes),
            _ => Wanted::Whole,
        };
        match verdict {
            Verdict::NotModified => {
                let mut fields = self.fields(304)?;
                validate(&mut fields, &validators)?;
                Ok(fields.into_head(304, BodyLength::Empty))
            }
            Verdict::Failed => self.plain(412, &[]),
            Verdict::Proceed | Verdict::ProceedWhole => {
                if wanted == Wanted::Nothing {
                    let unsatisfied = Text::new(format_args!("bytes */{bytes}"));
                    return self.plain(416, &[(b"content-range", unsatisfied.as_bytes())]);
                }
                self.send(file, wanted, &validators, is_get)
            }
        }
    }

    fn send(
        &mut self,
        file: File,
        wanted: Wanted,
        validators: &Validators,
        is_get: bool,
    ) -> Result<ResponseHead, GatewayError> {
        let bytes = file.status.bytes;
        let kind = media_type(self.head().path(), self.is_index.then_some(self.index()));
        let status = if wanted == Wanted::Whole { 200 } else { 206 };
        let mut fields = self.fields(status)?;
        validate(&mut fields, validators)?;
        fields.add(b"accept-ranges", b"bytes")?;
        match wanted {
            Wanted::Whole | Wanted::Nothing => {
                fields.add(b"content-type", kind.as_bytes())?;
                self.content = Content::part(file, 0..bytes);
            }
            Wanted::Part(part) => {
                fields.add(b"content-type", kind.as_bytes())?;
                fields.add(b"content-range", content_range(&part, bytes).as_bytes())?;
                self.content = Content::part(file, part);
            }
            Wanted::Parts(parts) => {
                let several = content::Several::new(parts, kind.as_str(), bytes);
                let kind = Text::new(format_args!(
                    "multipart/byteranges; boundary={}",
                    several.boundary()
                ));
                fields.add(b"content-type", kind.as_bytes())?;
                self.content = Content::several(file, several);
            }
        }
        let length = self.content.bytes();
        if is_get && length > 0 {
            return Ok(fields.into_head(status, BodyLength::Known(length)));
        }
        self.content = Content::default();
        fields.add(
            b"content-length",
            Text::new(format_args!("{length}")).as_bytes(),
        )?;
        Ok(fields.into_head(status, BodyLength::Empty))
    }

    /// The path with a slash at its end, so that links relative to the index work.
    fn redirect(&mut self) -> Result<ResponseHead, GatewayError> {
        let head = self.head();
        let mut location = Buffer::take(self.lease, head.fields.bytes().len() + 1)?;
        let query = head.query();
        let mark: &[u8] = if query.is_some() { b"?" } else { b"" };
        for bytes in [head.path(), b"/", mark, query.unwrap_or_default()] {
            location.put(bytes).expect("parts of the head fit its size");
        }
        self.plain(301, &[(b"location", location.filled())])
    }

    /// A status in words.
    fn plain(
        &mut self,
        status: u16,
        further: &[(&[u8], &[u8])],
    ) -> Result<ResponseHead, GatewayError> {
        let mut fields = self.fields(status)?;
        for (name, value) in further {
            fields.add(name, value)?;
        }
        fields.add(b"content-type", b"text/plain; charset=utf-8")?;
        let text = Text::new(format_args!("{status} {}\n", status::reason(status)));
        let bytes = text.as_bytes().len();
        if self.head().method() == b"HEAD" {
            fields.add(
                b"content-length",
                Text::new(format_args!("{bytes}")).as_bytes(),
            )?;
            return Ok(fields.into_head(status, BodyLength::Empty));
        }
        let mut content = Buffer::take(self.lease, bytes)?;
        content.put(text.as_bytes()).expect("it was taken for it");
        self.content = Content::made(content);
        Ok(fields.into_head(status, BodyLength::Known(bytes as u64)))
    }

    fn fields(&self, status: u16) -> Result<Fields, GatewayError> {
        let bytes = Buffer::take(self.lease, FIELDS_BYTES)?;
        let mut block = FieldBlock::new(bytes, FieldList::take());
        let reason = block.put(status::reason(status).as_bytes())?;
        Ok(Fields { block, reason })
    }
}

/// Field lines of a response to be.
struct Fields {
    block: FieldBlock,
    reason: Span,
}

impl Fields {
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), GatewayError> {
        Ok(self.block.append(name, value)?)
    }

    fn into_head(self, status: u16, length: BodyLength) -> ResponseHead {
        ResponseHead {
            fields: self.block,
            version: Version::Http11,
            status,
            length,
            reason: self.reason,
            upgrade: None,
            content: Span::default(),
            is_request_kept: false,
        }
    }
}

fn validate(fields: &mut Fields, validators: &Validators) -> Result<(), GatewayError> {
    fields.add(b"etag", validators.tag())?;
    let modified = Text::new(format_args!("{}", validators.last_modified()));
    fields.add(b"last-modified", modified.as_bytes())
}

fn content_range(part: &Range<u64>, bytes: u64) -> Text {
    let last = part.end - 1;
    Text::new(format_args!("bytes {}-{last}/{bytes}", part.start))
}

/// By the ending of the name; text is said to be UTF-8, which nearly all of it is.
fn media_type(path: &[u8], index: Option<&[u8]>) -> Text {
    let name = index.unwrap_or(path);
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let ending = name.iter().rposition(|&byte| byte == b'.');
    let ending = ending.and_then(|dot| std::str::from_utf8(&name[dot + 1..]).ok());
    let known = ending.and_then(|ending| mime_guess::from_ext(ending).first_raw());
    let kind = match known.unwrap_or("application/octet-stream") {
        // RFC 9239 §6 took it back.
        "application/javascript" => "text/javascript",
        kind => kind,
    };
    let is_text = kind.starts_with("text/");
    let charset = if is_text { "; charset=utf-8" } else { "" };
    Text::new(format_args!("{kind}{charset}"))
}

/// A short text on the stack.
struct Text {
    bytes: [u8; TEXT_BYTES],
    len: usize,
}

/// The longest media type, or three numbers of 64 bits and some words.
const TEXT_BYTES: usize = 128;

impl Text {
    /// # Panics
    /// Where it is longer than [`TEXT_BYTES`].
    fn new(text: fmt::Arguments<'_>) -> Self {
        let mut bytes = [0; TEXT_BYTES];
        let mut room = &mut bytes[..];
        room.write_fmt(text).expect("texts here are short");
        let left = room.len();
        Self {
            bytes,
            len: TEXT_BYTES - left,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("it was made of text")
    }
}

/// Whatever the client sends is thrown away.
impl Sink for FileServer<'_> {
    fn can_put(&self) -> bool {
        true
    }

    fn put(&mut self, _: Part) -> Result<(), GatewayError> {
        Ok(())
    }

    fn written(&self) -> u64 {
        0
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        Poll::Ready(Ok(()))
    }
}

impl Source for FileServer<'_> {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.content.poll_part(cx, self.lease)
    }

    fn is_starved(&self) -> bool {
        self.content.is_starved()
    }
}

impl Upstream for FileServer<'_> {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        let answer = ready!(self.poll_answer(cx));
        self.head = None;
        Poll::Ready(answer)
    }

    fn take_back(&mut self, _: ResponseHead) {}

    fn start_tunnel(&mut self) {
        unreachable!("a file is never 101");
    }
}

#[cfg(test)]
mod tests;
