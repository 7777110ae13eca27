//! Heads of HTTP/1.1 messages and trailer sections, read strictly.
//!
//! Invariant: what this accepts has one reading. Line ends are CRLF, a name is
//! followed by its colon at once, values have no bare CR, LF or NUL and no line
//! folding; anything else is an error, never repaired. Offsets are into the
//! bytes that were given. Spec: RFC 9112 §2 to §5; RFC 9110 §5.
//!
//! # Deviations
//! One empty line before a request is skipped, as RFC 9112 §2.2 asks for; more
//! are refused.

use steppe_mem::{Lease, OverBudget};

use crate::field::{Field, FieldBlock, FieldList, Span, is_token_byte, is_value_byte};
use crate::head::{RequestView, Version};
use crate::target::is_target_byte;

/// Limits on the size of a head.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes from the first one up to the empty line.
    pub bytes: usize,
    /// Field lines.
    pub fields: usize,
}

/// The parts of a request line as spans, and the end of the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLine {
    /// The method.
    pub method: Span,
    /// The request target, in whatever form.
    pub target: Span,
    /// The version.
    pub version: Version,
    /// Bytes of the whole head, with its empty line.
    pub head_bytes: usize,
}

impl RequestLine {
    /// The request's parts for the access log, even where the rest of it is refused.
    #[must_use]
    pub fn view<'a>(&self, fields: &'a FieldBlock) -> RequestView<'a> {
        RequestView {
            method: self.method.of(fields.bytes()),
            target: self.target.of(fields.bytes()),
            version: self.version,
            fields,
        }
    }
}

/// Where the parts of a status line lie, and where the head ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusLine {
    /// The version.
    pub version: Version,
    /// 100 to 599.
    pub status: u16,
    /// The reason phrase.
    pub reason: Span,
    /// Bytes of the whole head, with its empty line.
    pub head_bytes: usize,
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The first line is not of its form: 400.
    #[error("malformed first line")]
    FirstLine,
    /// A version whose major number is not 1: 505.
    #[error("unsupported version")]
    Version,
    /// A request line longer than a head may be: 414.
    #[error("request target too long")]
    TargetTooLong,
    /// A field line that is not `name: value`: 400.
    #[error("malformed field line")]
    Field,
    /// A line that ends in a bare LF, or has a bare CR in it: 400.
    #[error("bare CR or LF")]
    LineEnd,
    /// A line folded into the next (obs-fold): 400.
    #[error("folded field line")]
    Folding,
    /// A head longer than it may be: 431.
    #[error("head too large")]
    TooLarge,
    /// More field lines than there may be: 431.
    #[error("too many fields")]
    TooManyFields,
    /// The budget has no room for the list of field lines: 503.
    #[error("over budget")]
    OverBudget,
}

impl From<OverBudget> for ParseError {
    fn from(_: OverBudget) -> Self {
        Self::OverBudget
    }
}

/// A request's head, or `None` while more bytes are needed. `fields` is filled in, and what it
/// needs beyond its usual room is charged to `lease`.
///
/// # Errors
/// As soon as it is certain that no further bytes can make it valid.
pub fn request(
    bytes: &[u8],
    limits: HeadLimits,
    fields: &mut FieldList,
    lease: &Lease,
) -> Result<Option<RequestLine>, ParseError> {
    let mut lines = HeadLines {
        bytes,
        at: usize::from(bytes.starts_with(b"\r\n")) * 2,
    };
    let too_large = |error| {
        if bytes.len() >= limits.bytes {
            Err(error)
        } else {
            Ok(None)
        }
    };
    let Some((method, target, version)) = lines.request_line()? else {
        return too_large(ParseError::TargetTooLong);
    };
    if lines.at > limits.bytes {
        return Err(ParseError::TargetTooLong);
    }
    match lines.field_lines(limits.fields, fields, lease)? {
        Some(head_bytes) if head_bytes <= limits.bytes => Ok(Some(RequestLine {
            method,
            target,
            version,
            head_bytes,
        })),
        Some(_) => Err(ParseError::TooLarge),
        None => too_large(ParseError::TooLarge),
    }
}

/// A response's head, or `None` while more bytes are needed. `fields` is filled in.
///
/// # Errors
/// As [`request`].
pub fn response(
    bytes: &[u8],
    limits: HeadLimits,
    fields: &mut FieldList,
    lease: &Lease,
) -> Result<Option<StatusLine>, ParseError> {
    let mut lines = HeadLines { bytes, at: 0 };
    let too_large = || {
        if bytes.len() >= limits.bytes {
            Err(ParseError::TooLarge)
        } else {
            Ok(None)
        }
    };
    let Some((version, status, reason)) = lines.status_line()? else {
        return too_large();
    };
    match lines.field_lines(limits.fields, fields, lease)? {
        Some(head_bytes) if head_bytes <= limits.bytes => Ok(Some(StatusLine {
            version,
            status,
            reason,
            head_bytes,
        })),
        Some(_) => Err(ParseError::TooLarge),
        None => too_large(),
    }
}

/// A trailer section with its empty line, or `None` while more bytes are
/// needed; the number of its bytes. `fields` is filled in.
///
/// # Errors
/// As [`request`].
pub fn trailers(
    bytes: &[u8],
    limits: HeadLimits,
    fields: &mut FieldList,
    lease: &Lease,
) -> Result<Option<usize>, ParseError> {
    let mut lines = HeadLines { bytes, at: 0 };
    match lines.field_lines(limits.fields, fields, lease)? {
        Some(section_bytes) if section_bytes <= limits.bytes => Ok(Some(section_bytes)),
        Some(_) => Err(ParseError::TooLarge),
        None if bytes.len() >= limits.bytes => Err(ParseError::TooLarge),
        None => Ok(None),
    }
}

/// True when a head that was incomplete up to `seen` bytes may be complete now.
///
/// So that a head that comes byte by byte is not parsed as often as it has bytes.
#[must_use]
pub fn may_be_complete(bytes: &[u8], seen: usize) -> bool {
    // An empty line may have begun up to three bytes before what is new. A bare
    // LF counts as a line end here, for the parser to refuse it.
    let mut at = seen.saturating_sub(3);
    while let Some(found) = memchr::memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        if matches!(&bytes[at..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            return true;
        }
    }
    false
}

/// [`may_be_complete`] of a trailer section, which may be an empty line alone.
#[must_use]
pub fn section_may_be_complete(bytes: &[u8], seen: usize) -> bool {
    seen < 2 || may_be_complete(bytes, seen)
}

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const TARGET: u8 = 4;
const UNDERSCORE: u8 = 8;

#[expect(clippy::cast_possible_truncation, reason = "0 to 255")]
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (b, mut class) = (byte as u8, 0);
        if is_token_byte(b) {
            class |= TOKEN;
        }
        if is_value_byte(b) {
            class |= VALUE;
        }
        if is_target_byte(b) {
            class |= TARGET;
        }
        if b == b'_' {
            class |= UNDERSCORE;
        }
        classes[byte] = class;
        byte += 1;
    }
    classes
};

struct HeadLines<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// `None` where the bytes end before the thing does.
type Parsed<T> = Result<Option<T>, ParseError>;

impl HeadLines<'_> {
    fn request_line(&mut self) -> Parsed<(Span, Span, Version)> {
        let Some(method) = self.word(TOKEN)? else {
            return Ok(None);
        };
        let Some(target) = self.word(TARGET)? else {
            return Ok(None);
        };
        let Some(version) = self.version()? else {
            return Ok(None);
        };
        let line_ends = self.line_end(ParseError::FirstLine)?;
        Ok(line_ends.then_some((method, target, version)))
    }

    fn status_line(&mut self) -> Parsed<(Version, u16, Span)> {
        let Some(version) = self.version()? else {
            return Ok(None);
        };
        let Some([b' ', hundreds, tens, ones]) = self.next_bytes() else {
            return self.refuse_unless_short(4);
        };
        let is_status =
            matches!(hundreds, b'1'..=b'5') && tens.is_ascii_digit() && ones.is_ascii_digit();
        if !is_status {
            return Err(ParseError::FirstLine);
        }
        let status = [hundreds, tens, ones]
            .iter()
            .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
        self.at += 4;
        // The space before an empty reason phrase is often left out.
        let has_reason = match self.bytes.get(self.at) {
            None => return Ok(None),
            Some(b' ') => true,
            Some(b'\r' | b'\n') => false,
            Some(_) => return Err(ParseError::FirstLine),
        };
        self.at += usize::from(has_reason);
        let reason = Span::new(self.at, self.skip(VALUE));
        let line_ends = self.line_end(ParseError::FirstLine)?;
        Ok(line_ends.then_some((version, status, reason)))
    }

    /// Bytes of `class`, at least one, and the one space after them.
    fn word(&mut self, class: u8) -> Parsed<Span> {
        let start = self.at;
        let end = self.skip(class);
        match self.bytes.get(end) {
            None => Ok(None),
            Some(b' ') if end > start => {
                self.at += 1;
                Ok(Some(Span::new(start, end)))
            }
            Some(_) => Err(ParseError::FirstLine),
        }
    }

    fn version(&mut self) -> Parsed<Version> {
        const HTTP_1: &[u8] = b"HTTP/1.";
        let rest = &self.bytes[self.at..];
        let is_http_1 = rest
            .iter()
            .zip(HTTP_1)
            .all(|(byte, expected)| byte == expected);
        if !is_http_1 {
            let is_other =
                rest.len() >= 6 && rest.starts_with(b"HTTP/") && rest[5].is_ascii_digit();
            return Err(if is_other {
                ParseError::Version
            } else {
                ParseError::FirstLine
            });
        }
        let Some(minor) = rest.get(HTTP_1.len()) else {
            return Ok(None);
        };
        let version = match minor {
            b'0' => Version::Http10,
            // RFC 9110 §2.5: a higher minor version is that of a sender that can do more, in a
            // message that this version can read.
            b'1'..=b'9' => Version::Http11,
            _ => return Err(ParseError::FirstLine),
        };
        self.at += HTTP_1.len() + 1;
        Ok(Some(version))
    }

    /// Field lines up to the empty line; the offset after it.
    fn field_lines(
        &mut self,
        count_max: usize,
        fields: &mut FieldList,
        lease: &Lease,
    ) -> Parsed<usize> {
        fields.clear();
        loop {
            match self.bytes.get(self.at) {
                None => return Ok(None),
                Some(b'\r' | b'\n') => {
                    return Ok(self.line_end(ParseError::LineEnd)?.then_some(self.at));
                }
                Some(b' ' | b'\t') => return Err(ParseError::Folding),
                Some(_) if fields.len() == count_max => return Err(ParseError::TooManyFields),
                Some(_) => match self.field_line()? {
                    Some(field) => fields.try_push(field, lease)?,
                    None => return Ok(None),
                },
            }
        }
    }

    fn field_line(&mut self) -> Parsed<Field> {
        let start = self.at;
        let (end, classes) = self.skip_token();
        match self.bytes.get(end) {
            None => return Ok(None),
            Some(b':') if end > start => self.at += 1,
            Some(_) => return Err(ParseError::Field),
        }
        let name = Span::new(start, end);
        let start = self.at;
        let end = self.skip(VALUE);
        if !self.line_end(ParseError::Field)? {
            return Ok(None);
        }
        let field = Field::new(self.bytes, name, trimmed(self.bytes, start, end));
        Ok(Some(if classes & UNDERSCORE == 0 {
            field
        } else {
            field.with_underscore()
        }))
    }

    /// Goes past a token; where it ends, and the classes of all its bytes together.
    fn skip_token(&mut self) -> (usize, u8) {
        let mut classes = 0;
        let rest = &self.bytes[self.at..];
        let token = rest.iter().take_while(|&&byte| {
            let class = CLASSES[usize::from(byte)];
            classes |= class;
            class & TOKEN != 0
        });
        self.at += token.count();
        (self.at, classes)
    }

    /// Goes on to the first byte that is not of `class`.
    fn skip(&mut self, class: u8) -> usize {
        match class {
            VALUE => self.at = skip_from::<b' '>(self.bytes, self.at),
            TARGET => self.at = skip_from::<b'!'>(self.bytes, self.at),
            _ => {}
        }
        let rest = &self.bytes[self.at..];
        let is_other = |&byte: &u8| CLASSES[usize::from(byte)] & class == 0;
        self.at += rest.iter().position(is_other).unwrap_or(rest.len());
        self.at
    }

    /// Goes past a CRLF; false where it may still come.
    fn line_end(&mut self, otherwise: ParseError) -> Result<bool, ParseError> {
        match &self.bytes[self.at..] {
            [b'\r', b'\n', ..] => {
                self.at += 2;
                Ok(true)
            }
            [] | [b'\r'] => Ok(false),
            [b'\r' | b'\n', ..] => Err(ParseError::LineEnd),
            _ => Err(otherwise),
        }
    }

    fn next_bytes<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes[self.at..].first_chunk().copied()
    }

    fn refuse_unless_short<T>(&self, needed: usize) -> Parsed<T> {
        let is_short = self.bytes.len() - self.at < needed;
        if is_short {
            Ok(None)
        } else {
            Err(ParseError::FirstLine)
        }
    }
}

/// Goes over ASCII from `FIRST` to `~`, eight bytes at a time from `at` on, up to a
/// byte that is anything else: it may still be of a class, and the caller looks at it.
///
/// Values and targets are most of a head; a byte at a time they took 40 % of
/// the instructions of parsing it.
fn skip_from<const FIRST: u8>(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        // The high bit of each byte is set where it is below the first, is 0x7f, or is above.
        let below = word.wrapping_sub(ONES * FIRST as u64);
        let delete = (word ^ (ONES * 0x7f)).wrapping_sub(ONES);
        let others = (below | delete | word) & HIGH;
        if others != 0 {
            // A borrow may set a bit too many above the first, never below it.
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// From `start` to `end` without the white space around it.
fn trimmed(bytes: &[u8], start: usize, end: usize) -> Span {
    let is_space = |at: usize| matches!(bytes[at], b' ' | b'\t');
    let (mut start, mut end) = (start, end);
    while start != end && is_space(start) {
        start += 1;
    }
    while start != end && is_space(end - 1) {
        end -= 1;
    }
    Span::new(start, end)
}

#[cfg(test)]
mod tests;
