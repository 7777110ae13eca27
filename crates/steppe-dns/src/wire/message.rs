//! A message with one question: its sections, and its OPT record.
//!
//! Invariant: every record lies within the message, and no bytes follow the last one. Names are
//! skipped here, not decompressed: their pointers are checked when the name is read.
//! Spec: RFC 1035 §4.1; RFC 9619: a query has one question.

use super::code::{Class, Rtype};
use super::edns::Opt;
use super::error::WireError;
use super::header::{HEADER_BYTES, Header};
use super::name::{Name, Steps, read_name_below, skip_name};
use super::record::{Record, Section};
use crate::limits::MESSAGE_BYTES_MAX;

/// A parsed message with one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    bytes: &'a [u8],
    header: Header,
    question: Question<'a>,
    /// Offset of each section, and of the end of the message.
    bounds: [usize; 4],
    opt: Option<Opt<'a>>,
}

/// The question of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question<'a> {
    /// Name in wire form, as received; never compressed.
    pub qname: &'a [u8],
    /// Type of the question.
    pub qtype: Rtype,
    /// Class of the question.
    pub qclass: Class,
}

impl<'a> Question<'a> {
    /// Reads the question after a header.
    ///
    /// # Errors
    /// [`WireError`] of names. A pointer is an error here: there is no earlier name.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let qname_end = skip_name(bytes, HEADER_BYTES)?;
        let qname = &bytes[HEADER_BYTES..qname_end];
        if qname.last() != Some(&0) || ends_in_pointer(qname) {
            return Err(WireError::Pointer);
        }
        let fixed = bytes
            .get(qname_end..)
            .and_then(|rest| rest.first_chunk::<4>());
        let &[t0, t1, c0, c1] = fixed.ok_or(WireError::Short)?;
        Ok(Self {
            qname,
            qtype: Rtype(u16::from_be_bytes([t0, t1])),
            qclass: Class(u16::from_be_bytes([c0, c1])),
        })
    }

    /// Offset of the end of the question.
    #[must_use]
    pub fn end(&self) -> usize {
        HEADER_BYTES + self.qname.len() + 4
    }
}

/// True if a skipped name ends in a compression pointer, whose last byte may be zero too (`c0 00`).
fn ends_in_pointer(name: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&len) = name.get(at) {
        match len {
            0 => return false,
            0xc0.. => return true,
            _ => at += 1 + usize::from(len),
        }
    }
    false
}

/// The first message of a byte stream, each with its length before it (RFC 1035 §4.2.2); `None` until it is whole.
#[must_use]
pub fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

impl<'a> Message<'a> {
    /// The name at offset `at`, and its end. Labels of the question are in lower case: their case is the 0x20
    /// encoding of the query to the server.
    ///
    /// # Errors
    /// [`WireError`] of names.
    pub(super) fn name_at(&self, at: usize) -> Result<(Name, usize), WireError> {
        let mut steps = Steps::of_message(self.bytes.len());
        read_name_below((self.bytes, self.question.end()), at, &mut steps)
    }

    /// Parses a message.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(WireError::TooLong);
        }
        let header = Header::read(bytes)?;
        if header.counts[0] != 1 {
            return Err(WireError::QuestionCount(header.counts[0]));
        }
        let question = Question::read(bytes)?;
        let mut at = question.end();
        let (mut bounds, mut opt) = ([at; 4], None);
        for (index, section) in Section::ALL.into_iter().enumerate() {
            bounds[index] = at;
            for _ in 0..header.counts[index + 1] {
                let record = Record::read(bytes, at)?;
                at = record.end();
                if record.rtype == Rtype::OPT {
                    let is_misplaced = section != Section::Additional || opt.is_some();
                    if is_misplaced {
                        return Err(WireError::Opt);
                    }
                    opt = Some(Opt::read(bytes, &record)?);
                }
            }
        }
        bounds[3] = at;
        if at < bytes.len() {
            return Err(WireError::Trailing);
        }
        Ok(Self {
            bytes,
            header,
            question,
            bounds,
            opt,
        })
    }

    /// The bytes of the message.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header of the message.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// The question of the message.
    #[must_use]
    pub fn question(&self) -> Question<'a> {
        self.question
    }

    /// The OPT record, if there is one.
    #[must_use]
    pub fn opt(&self) -> Option<Opt<'a>> {
        self.opt
    }

    /// Offset of a section.
    #[must_use]
    pub fn section_at(&self, section: Section) -> usize {
        self.bounds[section as usize]
    }

    /// Number of records in a section, from the header.
    #[must_use]
    pub fn count(&self, section: Section) -> u16 {
        self.header.counts[section as usize + 1]
    }

    /// The records of a section, OPT included.
    pub fn records(&self, section: Section) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let (bytes, mut at) = (self.bytes, self.section_at(section));
        let end = self.bounds[section as usize + 1];
        std::iter::from_fn(move || {
            // Parsed once before, so no record fails.
            let record = (at < end).then(|| Record::read(bytes, at).ok()).flatten()?;
            at = record.end();
            Some(record)
        })
    }
}
