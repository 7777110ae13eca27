//! Whether a client wants a file at all: preconditions, and the validators they are compared with.
//!
//! Spec: RFC 9110 §8.8 and §13. An entity tag is made of when a file was changed, its length and
//! its number, and is weak for as long as another change could give the same.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;
use steppe_net::FileStatus;

use crate::field::{FieldBlock, elements};

/// What a file's condition is told by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validators {
    tag: Tag,
    /// Whole seconds, as the field has it.
    modified: SystemTime,
}

/// An entity tag, with its quotes, and `W/` where it is weak.
#[derive(Debug, Clone, Copy)]
struct Tag {
    text: [u8; TAG_BYTES_MAX],
    len: usize,
}

/// `W/`, quotes, dashes, and three numbers of 64 bits.
const TAG_BYTES_MAX: usize = 2 + 2 + 2 + 3 * 16;

/// Clocks of file systems are coarse: two changes within this time may look like one.
const COARSE: Duration = Duration::from_secs(2);

/// What is to be done with a request for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is answered, and its `Range` counts.
    Proceed,
    /// It is answered as a whole.
    ProceedWhole,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

impl Validators {
    pub(super) fn of(status: &FileStatus) -> Self {
        let modified = Duration::from_nanos(status.modified_ns).as_secs();
        Self {
            tag: Tag::of(status),
            modified: UNIX_EPOCH + Duration::from_secs(modified),
        }
    }

    /// Of the `ETag` field.
    pub(super) fn tag(&self) -> &[u8] {
        self.tag.as_bytes()
    }

    /// Of the `Last-Modified` field.
    pub(super) fn last_modified(&self) -> HttpDate {
        self.modified.into()
    }

    /// In the order of §13.2.2, for GET and HEAD.
    pub(super) fn evaluate(&self, fields: &FieldBlock) -> Verdict {
        if let Some(tags) = lines(fields, b"if-match") {
            if !self.is_listed(tags, Self::is_same) {
                return Verdict::Failed;
            }
        } else if let Some(date) = date(fields, b"if-unmodified-since")
            && self.modified > date
        {
            return Verdict::Failed;
        }
        if let Some(tags) = lines(fields, b"if-none-match") {
            if self.is_listed(tags, Self::is_alike) {
                return Verdict::NotModified;
            }
        } else if let Some(date) = date(fields, b"if-modified-since")
            && self.modified <= date
        {
            return Verdict::NotModified;
        }
        match fields.values_named(b"if-range").next() {
            Some(validator) if !self.is_in_range_of(validator) => Verdict::ProceedWhole,
            _ => Verdict::Proceed,
        }
    }

    /// §13.1.5: a tag that is strong, or just the date.
    fn is_in_range_of(&self, validator: &[u8]) -> bool {
        if validator.starts_with(b"\"") || validator.starts_with(b"W/") {
            return self.is_same(validator);
        }
        // A date is strong only once it can't come again.
        self.tag.is_strong() && parsed(validator) == Some(self.modified)
    }

    fn is_listed<'a>(
        &self,
        mut lines: impl Iterator<Item = &'a [u8]>,
        is_it: fn(&Self, &[u8]) -> bool,
    ) -> bool {
        // Tags of ours have no comma in them, so a tag that has one is not of ours.
        lines.any(|line| elements(line).any(|tag| tag == b"*" || is_it(self, tag)))
    }

    /// Strong comparison, §8.8.3.2.
    fn is_same(&self, tag: &[u8]) -> bool {
        self.tag.is_strong() && tag == self.tag()
    }

    /// Weak comparison.
    fn is_alike(&self, tag: &[u8]) -> bool {
        opaque(tag) == opaque(self.tag())
    }
}

impl Tag {
    fn of(status: &FileStatus) -> Self {
        use std::io::Write;
        let age = status.seen_ns.saturating_sub(status.modified_ns);
        let weak = if u128::from(age) < COARSE.as_nanos() {
            "W/"
        } else {
            ""
        };
        let mut text = [0; TAG_BYTES_MAX];
        let mut room = &mut text[..];
        let FileStatus {
            modified_ns,
            bytes,
            inode,
            ..
        } = status;
        write!(room, "{weak}\"{modified_ns:x}-{bytes:x}-{inode:x}\"").expect("it has room");
        let left = room.len();
        Self {
            text,
            len: TAG_BYTES_MAX - left,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len]
    }

    fn is_strong(&self) -> bool {
        self.text[0] == b'"'
    }
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Lines of a field, if there is one.
fn lines<'a>(
    fields: &'a FieldBlock,
    name: &'a [u8],
) -> Option<std::iter::Peekable<impl Iterator<Item = &'a [u8]>>> {
    let mut lines = fields.values_named(name).peekable();
    lines.peek().is_some().then_some(lines)
}

/// A date that can't be read is no condition.
fn date(fields: &FieldBlock, name: &[u8]) -> Option<SystemTime> {
    parsed(fields.values_named(name).next()?)
}

fn parsed(date: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()
}
