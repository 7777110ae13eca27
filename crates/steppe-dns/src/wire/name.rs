//! Names: decompression, comparison without regard to case, 0x20 encoding.
//!
//! Invariant: a pointer leads to an offset before the part of the name that it ends, so every chain of pointers ends,
//! after [`NAME_POINTERS_MAX`] at most; and all names of a message share one count of [`Steps`]. Spec: RFC 1035 §3.1,
//! §4.1.4; RFC 4343 (case); draft-vixie-dnsext-dns0x20.

use std::fmt;
use std::str::FromStr;

use crate::limits::{
    LABEL_BYTES_MAX, NAME_BYTES_MAX, NAME_POINTERS_MAX, NAME_STEPS_PER_BYTE, UNICODE_NAME_BYTES_MAX,
};

use super::error::WireError;
use super::header::HEADER_BYTES;

/// A name in uncompressed wire form, on the stack.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

/// The number of labels and pointers that may still be read in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps(u32);

/// Random bits for the case of a name's letters (0x20 encoding): one for each of the first 64 letters; further letters
/// reuse them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaseBits(pub u64);

/// The reason why a text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Two dots in a row, or a leading dot.
    #[error("empty label")]
    EmptyLabel,
    /// A label of more than 63 bytes.
    #[error("label over 63 bytes")]
    LabelTooLong,
    /// More than 255 bytes in wire form.
    #[error("name over 255 bytes")]
    TooLong,
    /// A backslash without a valid escape.
    #[error("malformed escape")]
    Escape,
    /// A space or a control character, or a Unicode character that domain names can't have.
    #[error("character that needs an escape, or that no domain name has")]
    Character,
}

impl Steps {
    /// The steps for a message of this many bytes.
    #[must_use]
    pub fn of_message(message_bytes: usize) -> Self {
        let steps = NAME_STEPS_PER_BYTE * message_bytes;
        Self(u32::try_from(steps).unwrap_or(u32::MAX))
    }

    /// The number of steps that are left.
    #[must_use]
    pub fn left(self) -> u32 {
        self.0
    }

    fn take(&mut self) -> Result<(), WireError> {
        self.0 = self.0.checked_sub(1).ok_or(WireError::Steps)?;
        Ok(())
    }
}

impl Name {
    /// The root name.
    pub const ROOT: Self = Self {
        bytes: [0; NAME_BYTES_MAX],
        len: 1,
    };

    /// A name from its wire form, which must be complete and uncompressed.
    ///
    /// # Errors
    /// [`WireError`] of names; [`WireError::Trailing`] if bytes follow the root label.
    pub fn from_wire(wire: &[u8]) -> Result<Self, WireError> {
        match skip_name(wire, 0)? {
            end if end < wire.len() => Err(WireError::Trailing),
            _ if wire.last() != Some(&0) => Err(WireError::Pointer),
            _ => Ok(Self::of_checked(wire)),
        }
    }

    /// A name from a wire form that was checked.
    fn of_checked(wire: &[u8]) -> Self {
        let mut name = Self::ROOT;
        name.bytes[..wire.len()].copy_from_slice(wire);
        name.len = u8::try_from(wire.len()).unwrap_or(u8::MAX);
        name
    }

    /// The wire form.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The same name in lower case. RFC 4034 §6.2 calls it canonical.
    #[must_use]
    pub fn to_lower(mut self) -> Self {
        // Length bytes are below 64, and letters are not: lengths stay unchanged.
        self.bytes[..usize::from(self.len)].make_ascii_lowercase();
        self
    }

    /// The labels, without the root label.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        self.suffixes()
            .filter_map(|suffix| suffix.split_first())
            .map(|(&len, rest)| &rest[..usize::from(len)])
    }

    /// The wire forms of the name and of its ancestors, without the root.
    pub fn suffixes(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.wire();
        std::iter::from_fn(move || {
            let suffix = rest;
            let len = usize::from(*suffix.first()?);
            rest = suffix.get(1 + len..)?;
            (len > 0).then_some(suffix)
        })
    }

    /// True if the name is `ancestor` or below it, in any case.
    #[must_use]
    pub fn is_at_or_below(&self, ancestor: &Name) -> bool {
        let ends_so = |suffix: &[u8]| suffix.eq_ignore_ascii_case(ancestor.wire());
        ancestor.len == 1 || self.suffixes().any(ends_so)
    }

    fn push_label(&mut self, label: &[u8]) -> Result<(), NameError> {
        let at = usize::from(self.len) - 1;
        let end = at + 1 + label.len();
        if label.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        if label.len() > LABEL_BYTES_MAX {
            return Err(NameError::LabelTooLong);
        }
        if end >= NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        self.bytes[at] = u8::try_from(label.len()).map_err(|_| NameError::LabelTooLong)?;
        self.bytes[at + 1..end].copy_from_slice(label);
        self.bytes[end] = 0;
        self.len = u8::try_from(end + 1).map_err(|_| NameError::TooLong)?;
        Ok(())
    }
}

impl PartialEq for Name {
    /// Equal without regard to case (RFC 4343 §3).
    fn eq(&self, other: &Self) -> bool {
        self.wire().eq_ignore_ascii_case(other.wire())
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

impl fmt::Display for Name {
    /// Presentation format with the trailing dot, RFC 1035 §5.1. Special characters within a label are
    /// escaped, and so are bytes that are not printable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 1 {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(byte))?;
                    }
                    b'!'..=b'~' => write!(f, "{}", char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl FromStr for Name {
    type Err = NameError;

    /// Presentation format, RFC 1035 §5.1; the trailing dot is optional. Unicode labels become A-labels: RFC
    /// 5891 §5, with the mapping of Unicode's UTS #46.
    fn from_str(text: &str) -> Result<Self, NameError> {
        if !text.is_ascii() {
            if text.len() > UNICODE_NAME_BYTES_MAX {
                return Err(NameError::TooLong);
            }
            // The deny list rejects characters that map to a backslash, a slash or a space.
            let ascii = idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL);
            return Self::from_ascii(&ascii.map_err(|_| NameError::Character)?);
        }
        Self::from_ascii(text)
    }
}

impl Name {
    fn from_ascii(text: &str) -> Result<Self, NameError> {
        let mut name = Self::ROOT;
        let mut rest = text.as_bytes();
        if rest == b"." {
            return Ok(name);
        }
        if rest.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        while !rest.is_empty() {
            let (mut label, mut len) = ([0; LABEL_BYTES_MAX], 0);
            while let Some((byte, after)) = next_character(rest)? {
                *label.get_mut(len).ok_or(NameError::LabelTooLong)? = byte;
                len += 1;
                rest = after;
            }
            name.push_label(&label[..len])?;
            rest = rest.get(1..).unwrap_or_default();
        }
        Ok(name)
    }
}

/// The next byte of a label, and the text after it; `None` at a dot and at the end.
fn next_character(text: &[u8]) -> Result<Option<(u8, &[u8])>, NameError> {
    match *text {
        [] | [b'.', ..] => Ok(None),
        [
            b'\\',
            a @ b'0'..=b'9',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            ref rest @ ..,
        ] => {
            let number = [a, b, c]
                .iter()
                .fold(0, |n, digit| 10 * n + u16::from(digit - b'0'));
            let byte = u8::try_from(number).map_err(|_| NameError::Escape)?;
            Ok(Some((byte, rest)))
        }
        [b'\\', b'0'..=b'9', ..] | [b'\\'] => Err(NameError::Escape),
        [b'\\', byte @ b'!'..=b'~', ref rest @ ..] => Ok(Some((byte, rest))),
        [byte @ b'!'..=b'~', ref rest @ ..] => Ok(Some((byte, rest))),
        _ => Err(NameError::Character),
    }
}

impl CaseBits {
    /// Sets the case of the letters in a wire form.
    pub fn apply(self, wire: &mut [u8]) {
        let letters = wire.iter_mut().filter(|byte| byte.is_ascii_alphabetic());
        for (index, byte) in letters.enumerate() {
            *byte = Self::cased(self.0, index, *byte);
        }
    }

    /// True if the letters of a wire form have the case that [`CaseBits::apply`] sets.
    #[must_use]
    pub fn fits(self, wire: &[u8]) -> bool {
        let letters = wire.iter().filter(|byte| byte.is_ascii_alphabetic());
        letters
            .enumerate()
            .all(|(index, &byte)| byte == Self::cased(self.0, index, byte))
    }

    fn cased(bits: u64, index: usize, byte: u8) -> u8 {
        if bits >> (index % 64) & 1 == 1 {
            byte.to_ascii_uppercase()
        } else {
            byte.to_ascii_lowercase()
        }
    }
}

/// The end of the name at offset `at`. A pointer ends the name, and is not followed.
///
/// # Errors
/// [`WireError::Short`], [`WireError::Label`] or [`WireError::NameTooLong`].
pub fn skip_name(bytes: &[u8], at: usize) -> Result<usize, WireError> {
    let mut end = at;
    loop {
        match *bytes.get(end).ok_or(WireError::Short)? {
            0 if end + 1 - at > NAME_BYTES_MAX => return Err(WireError::NameTooLong),
            0 => return Ok(end + 1),
            len @ 1..=0x3f => end += 1 + usize::from(len),
            0xc0.. => {
                return bytes.get(end + 1).map(|_| end + 2).ok_or(WireError::Short);
            }
            _ => return Err(WireError::Label),
        }
        // Checked for each label, so that skipping takes no more work than the longest name.
        if end - at >= NAME_BYTES_MAX {
            return Err(WireError::NameTooLong);
        }
    }
}

/// The name at offset `at`, decompressed, and its end in the message.
///
/// # Errors
/// [`WireError`] of names.
pub fn read_name(bytes: &[u8], at: usize, steps: &mut Steps) -> Result<(Name, usize), WireError> {
    read_name_below((bytes, 0), at, steps)
}

/// The name as by [`read_name`], with labels before `question_end` in lower case: the question's letters
/// have the 0x20 case of the query to the server.
///
/// # Errors
/// [`WireError`] of names.
pub(super) fn read_name_below(
    (bytes, question_end): (&[u8], usize),
    at: usize,
    steps: &mut Steps,
) -> Result<(Name, usize), WireError> {
    let mut name = Name::ROOT;
    let mut len = 0;
    let end = walk(bytes, at, steps, |label_at, label| {
        let room = &mut name.bytes[len..len + label.len()];
        room.copy_from_slice(label);
        // Lengths are below 64 and letters are not.
        if label_at < question_end {
            room.make_ascii_lowercase();
        }
        len += label.len();
    })?;
    name.len = u8::try_from(len).map_err(|_| WireError::NameTooLong)?;
    Ok((name, end))
}

/// The end of a name, after checking its pointers.
///
/// # Errors
/// [`WireError`] of names.
pub(super) fn check_name(bytes: &[u8], at: usize, steps: &mut Steps) -> Result<usize, WireError> {
    walk(bytes, at, steps, |_, _| ())
}

/// Walks the labels of a name, root included. `each` gets their offsets, and their bytes with the length byte.
fn walk<'a>(
    bytes: &'a [u8],
    start: usize,
    steps: &mut Steps,
    mut each: impl FnMut(usize, &'a [u8]),
) -> Result<usize, WireError> {
    let (mut at, mut part_start, mut end) = (start, start, None);
    let (mut name_bytes, mut pointers) = (0, 0);
    loop {
        steps.take()?;
        let first = *bytes.get(at).ok_or(WireError::Short)?;
        match first {
            0..=0x3f => {
                let label_end = at + 1 + usize::from(first);
                let label = bytes.get(at..label_end).ok_or(WireError::Short)?;
                name_bytes += label.len();
                if name_bytes > NAME_BYTES_MAX {
                    return Err(WireError::NameTooLong);
                }
                each(at, label);
                at = label_end;
                if first == 0 {
                    return Ok(end.unwrap_or(at));
                }
            }
            0xc0.. => {
                let second = *bytes.get(at + 1).ok_or(WireError::Short)?;
                end.get_or_insert(at + 2);
                at = usize::from(u16::from_be_bytes([first & 0x3f, second]));
                pointers += 1;
                if at >= part_start || at < HEADER_BYTES || pointers > NAME_POINTERS_MAX {
                    return Err(WireError::Pointer);
                }
                part_start = at;
            }
            _ => return Err(WireError::Label),
        }
    }
}

#[cfg(test)]
mod tests;
