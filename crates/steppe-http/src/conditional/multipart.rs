//! `multipart/byteranges`: several ranges of a representation as one content. Spec: RFC 9110 §14.6, RFC 2046 §5.1.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// The delimiters and part headers of the ranges, and the next range.
#[derive(Debug)]
pub(crate) struct Multipart {
    boundary: String,
    /// `Content-Type` of each part.
    media_type: String,
    ranges: VecDeque<Range<u64>>,
    /// Size of the representation.
    bytes: u64,
    state: MultipartState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MultipartState {
    /// No part was sent.
    First,
    Further,
    /// The closing delimiter was sent.
    Done,
}

impl Multipart {
    /// The parts for `ranges` of a representation of `bytes`.
    pub(crate) fn new(ranges: Vec<Range<u64>>, bytes: u64, media_type: String) -> Self {
        // The boundary is a keyed hash, so content can't contain it on purpose.
        let boundary = format!("{:016x}", RandomState::new().hash_one(bytes));
        Self {
            boundary,
            media_type,
            ranges: ranges.into(),
            bytes,
            state: MultipartState::First,
        }
    }

    /// The value of the response's `Content-Type`.
    pub(crate) fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The length of the whole content.
    pub(crate) fn content_length(&self) -> u64 {
        let mut left = Self {
            boundary: self.boundary.clone(),
            media_type: self.media_type.clone(),
            ranges: self.ranges.clone(),
            ..*self
        };
        let mut sum = 0;
        while let Some((text, range)) = left.next() {
            sum += text.len() as u64 + (range.end - range.start);
        }
        sum
    }

    /// The delimiter and part headers before the next range, and the range, which is empty after
    /// the closing delimiter.
    pub(crate) fn next(&mut self) -> Option<(String, Range<u64>)> {
        let line_end = match self.state {
            MultipartState::First => "",
            MultipartState::Further => "\r\n",
            MultipartState::Done => return None,
        };
        let (boundary, media_type, bytes) = (&self.boundary, &self.media_type, self.bytes);
        let Some(range) = self.ranges.pop_front() else {
            self.state = MultipartState::Done;
            return Some((format!("{line_end}--{boundary}--\r\n"), 0..0));
        };
        self.state = MultipartState::Further;
        let (first, last) = (range.start, range.end - 1);
        let text = format!(
            "{line_end}--{boundary}\r\ncontent-type: {media_type}\r\n\
             content-range: bytes {first}-{last}/{bytes}\r\n\r\n"
        );
        Some((text, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_length_is_that_of_its_parts() {
        let mut parts = Multipart::new(vec![0..2, 5..9], 10, "text/plain".to_owned());
        let length = parts.content_length();
        let mut content = String::new();
        while let Some((text, range)) = parts.next() {
            content += &text;
            content.extend(range.map(|_| 'x'));
        }
        let boundary = &parts.boundary;
        let expected = format!(
            "--{boundary}\r\ncontent-type: text/plain\r\ncontent-range: bytes 0-1/10\r\n\r\nxx\
             \r\n--{boundary}\r\ncontent-type: text/plain\r\ncontent-range: bytes 5-8/10\r\n\r\n\
             xxxx\r\n--{boundary}--\r\n"
        );
        assert_eq!(content, expected);
        assert_eq!(content.len() as u64, length);
    }

    #[test]
    fn boundaries_differ() {
        let boundary = || Multipart::new(Vec::new(), 10, String::new()).boundary;
        assert_ne!(boundary(), boundary());
    }
}
