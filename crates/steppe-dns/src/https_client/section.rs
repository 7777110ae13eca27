//! A field section of a response, of which status and content type are kept.
//!
//! One field line at a time is in memory. The content of the response reuses its buffer.

use steppe_h2::Section;
use steppe_h2::hpack::{FieldSink, Indexing};
use steppe_mem::{Buffer, Lease};

use crate::doh::MESSAGE;

/// A section, as far as it has come.
#[derive(Debug)]
pub(super) struct ResponseSection {
    /// The line in progress, or the last one. `None`: the budget has no room.
    line: Option<Buffer>,
    /// The line is over: the next one takes its place.
    is_over: bool,
    /// Bytes of the line's name, once that is whole.
    name_bytes: Option<usize>,
    /// Status code; 0 before it came.
    pub(super) status: u16,
    /// True if the content type is that of a DNS message. `None`: no content type came.
    is_message: Option<bool>,
}

impl ResponseSection {
    pub(super) fn new(lease: &Lease) -> Self {
        Self {
            line: Buffer::take(lease, 1).ok(),
            is_over: false,
            name_bytes: None,
            status: 0,
            is_message: None,
        }
    }

    /// True if the content is a DNS message by its media type.
    pub(super) fn is_message(&self) -> bool {
        self.is_message == Some(true)
    }

    /// The memory of the section, empty.
    pub(super) fn into_buffer(self) -> Option<Buffer> {
        let mut line = self.line?;
        line.clear();
        Some(line)
    }

    /// The line in progress, which may be a new one.
    fn begun(&mut self) -> &mut Self {
        if std::mem::take(&mut self.is_over) {
            self.name_bytes = None;
            if let Some(line) = &mut self.line {
                line.clear();
            }
        }
        self
    }

    fn bytes(&self) -> &[u8] {
        self.line.as_ref().map_or(&[], Buffer::filled)
    }

    /// Doubles the memory. False if the budget has no room. The limit of a section bounds it.
    fn grow(&mut self) -> bool {
        let Some(line) = &self.line else {
            return false;
        };
        let Ok(mut larger) = Buffer::take(line.lease(), 2 * line.capacity()) else {
            return false;
        };
        let has_put = larger.put(line.filled()).is_ok();
        self.line = Some(larger);
        has_put
    }

    fn note(&mut self) {
        let (name, value) = self.last();
        match name {
            // The codec checks that the status is a number.
            b":status" => {
                let status = str::from_utf8(value).ok();
                self.status = status.and_then(|value| value.parse().ok()).unwrap_or(0);
            }
            b"content-type" if self.is_message.is_none() => {
                self.is_message = Some(is_message(value));
            }
            _ => {}
        }
    }
}

/// True for the media type of a DNS message. RFC 9110 §8.3.1: case does not matter, and parameters may follow.
fn is_message(content_type: &[u8]) -> bool {
    let mut parts = content_type.split(|&byte| byte == b';');
    let media_type = parts.next().unwrap_or_default();
    media_type
        .trim_ascii()
        .eq_ignore_ascii_case(MESSAGE.as_bytes())
}

impl FieldSink for ResponseSection {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let spare = self.begun().line.as_mut()?.spare_mut();
        let room = spare.len().min(bytes);
        Some(&mut spare[..room]).filter(|room| !room.is_empty())
    }

    fn advance(&mut self, bytes: usize) {
        if let Some(line) = &mut self.line {
            line.advance(bytes);
        }
    }

    fn end_name(&mut self) {
        self.begun();
        self.name_bytes = Some(self.bytes().len());
    }

    fn end_field(&mut self, _: Indexing) {
        self.is_over = true;
        self.note();
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let bytes = self.bytes();
        bytes.split_at(self.name_bytes.unwrap_or(bytes.len()))
    }

    fn lost(&mut self, _: usize) {
        self.is_over = true;
    }
}

impl Section for ResponseSection {
    fn has_room(&mut self, _: usize) -> bool {
        let line = self.begun().line.as_ref();
        line.is_some_and(|line| line.spare() > 0) || self.grow()
    }

    fn unfinished(&self) -> (&[u8], Option<&[u8]>) {
        match (self.is_over, self.name_bytes) {
            (true, _) => (&[], None),
            (false, None) => (self.bytes(), None),
            (false, Some(name)) => {
                let (name, value) = self.bytes().split_at(name);
                (name, Some(value))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_may_have_parameters_and_any_case() {
        for (value, want) in [
            ("application/dns-message", true),
            ("Application/DNS-Message; charset=utf-8", true),
            (" application/dns-message ;", true),
            ("application/dns-json", false),
            ("text/html", false),
            ("", false),
        ] {
            assert_eq!(is_message(value.as_bytes()), want, "{value}");
        }
    }
}
