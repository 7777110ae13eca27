//! A message with one question: where its sections are, and its OPT record.
//!
//! Invariant: every record lies within the message, and nothing follows the last one. Names are
//! skipped here, not followed: that a pointer leads somewhere is checked by those who read the name.
//! Spec: RFC 1035 §4.1; RFC 9619: a query has one question.

use super::code::{Class, Rtype};
use super::edns::Opt;
use super::error::WireError;
use super::header::{HEADER_BYTES, Header};
use super::name::{Name, Steps, read_name_below, skip_name};
use super::record::{Record, Section};
use crate::limits::MESSAGE_BYTES_MAX;

/// A message that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    bytes: &'a [u8],
    header: Header,
    question: Question<'a>,
    /// Where each section begins, and where the message ends.
    bounds: [usize; 4],
    opt: Option<Opt<'a>>,
}

/// What a message asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question<'a> {
    /// The name in its wire form, as it came; never compressed.
    pub qname: &'a [u8],
    /// The type.
    pub qtype: Rtype,
    /// The class.
    pub qclass: Class,
}

impl<'a> Question<'a> {
    /// The question behind a header.
    ///
    /// # Errors
    /// [`WireError`] of names; a pointer has nothing to lead to here.
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

    /// Where the question ends in its message.
    #[must_use]
    pub fn end(&self) -> usize {
        HEADER_BYTES + self.qname.len() + 4
    }
}

/// Whether the second to last byte of a skipped name is a pointer's first: `c0 00` ends in zero too.
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

impl<'a> Message<'a> {
    /// The name at `at`, and where it ends, with labels of the question in lower case: those letters have the case that
    /// the server was asked in.
    ///
    /// # Errors
    /// [`WireError`] of names.
    pub(super) fn name_at(&self, at: usize) -> Result<(Name, usize), WireError> {
        let mut steps = Steps::of_message(self.bytes.len());
        read_name_below((self.bytes, self.question.end()), at, &mut steps)
    }

    /// Reads a message.
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

    /// The bytes that it was read from.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Its question.
    #[must_use]
    pub fn question(&self) -> Question<'a> {
        self.question
    }

    /// Its OPT record.
    #[must_use]
    pub fn opt(&self) -> Option<Opt<'a>> {
        self.opt
    }

    /// Where a section begins.
    #[must_use]
    pub fn section_at(&self, section: Section) -> usize {
        self.bounds[section as usize]
    }

    /// Records in a section, as its header counts them.
    #[must_use]
    pub fn count(&self, section: Section) -> u16 {
        self.header.counts[section as usize + 1]
    }

    /// The records of a section, OPT included.
    pub fn records(&self, section: Section) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let (bytes, mut at) = (self.bytes, self.section_at(section));
        let end = self.bounds[section as usize + 1];
        std::iter::from_fn(move || {
            // They were read once before, so none of them fails.
            let record = (at < end).then(|| Record::read(bytes, at).ok()).flatten()?;
            at = record.end();
            Some(record)
        })
    }
}
