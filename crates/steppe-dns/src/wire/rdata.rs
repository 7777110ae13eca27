//! Names within record data that may be compressed. Spec: RFC 3597 §4 lists the types.
//!
//! Data of every other type is copied unchanged: RFC 3597 §4 forbids compression there. Address types have no names,
//! and are included for their fixed lengths.

use super::code::{Class, Rtype};
use super::error::WireError;
use super::message::Message;
use super::name::{Steps, check_name};
use super::record::Record;
use super::write::{Full, Writer};

/// Layout of the names in the data of a type.
struct Layout {
    /// Bytes before the first name.
    before: usize,
    /// Number of consecutive names.
    names: usize,
    tail: Tail,
}

/// Data after the names.
enum Tail {
    /// This many bytes.
    Exactly(usize),
    Any,
}

fn layout(record: &Record<'_>) -> Option<Layout> {
    let (before, names, tail) = match record.rtype {
        Rtype::A if record.class == Class::IN => (4, 0, Tail::Exactly(0)),
        Rtype::AAAA if record.class == Class::IN => (16, 0, Tail::Exactly(0)),
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => (0, 1, Tail::Exactly(0)),
        Rtype::MD | Rtype::MF | Rtype::MB | Rtype::MG | Rtype::MR => (0, 1, Tail::Exactly(0)),
        Rtype::SOA => (0, 2, Tail::Exactly(20)),
        Rtype::MINFO | Rtype::RP => (0, 2, Tail::Exactly(0)),
        Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX => (2, 1, Tail::Exactly(0)),
        Rtype::PX => (2, 2, Tail::Exactly(0)),
        Rtype::SRV => (6, 1, Tail::Exactly(0)),
        Rtype::NAPTR => (naptr_strings_end(record.rdata), 1, Tail::Exactly(0)),
        Rtype::SIG => (18, 1, Tail::Any),
        Rtype::NXT => (0, 1, Tail::Any),
        _ => return None,
    };
    Some(Layout {
        before,
        names,
        tail,
    })
}

/// Offset of the replacement name in NAPTR data, after two numbers and three strings. RFC 3403 §4.1.
/// For truncated data, an offset after its end.
fn naptr_strings_end(rdata: &[u8]) -> usize {
    let string_end = |at: usize| at + 1 + usize::from(rdata.get(at).copied().unwrap_or(u8::MAX));
    (0..3).fold(4, |at, _| string_end(at))
}

/// Checks the names in a record's data and its length, if its type has names or a fixed length.
///
/// # Errors
/// [`WireError`] of names, and [`WireError::Rdata`].
pub(super) fn check(bytes: &[u8], record: &Record<'_>, steps: &mut Steps) -> Result<(), WireError> {
    let Some(layout) = layout(record) else {
        return Ok(());
    };
    // A name must not extend past the data, although a pointer may lead to before it.
    let bytes = &bytes[..record.end()];
    let mut at = record.rdata_at + layout.before;
    for _ in 0..layout.names {
        at = check_name(bytes, at, steps)?;
    }
    let left = record.end().checked_sub(at).ok_or(WireError::Rdata)?;
    match layout.tail {
        Tail::Exactly(len) if len != left => Err(WireError::Rdata),
        _ => Ok(()),
    }
}

/// Writes a record's data with its names decompressed, and labels of the question in lower case.
/// `message` is the checked message of the record.
///
/// # Errors
/// [`Full`].
pub(super) fn write(
    message: &Message<'_>,
    record: &Record<'_>,
    out: &mut Writer<'_>,
) -> Result<(), Full> {
    let (bytes, length_at) = (message.bytes(), out.len());
    out.numbers([0])?;
    let mut at = record.rdata_at;
    if let Some(layout) = layout(record) {
        let names_at = at + layout.before;
        out.bytes(bytes.get(at..names_at).ok_or(Full)?)?;
        at = names_at;
        for _ in 0..layout.names {
            let (name, end) = message.name_at(at).map_err(|_| Full)?;
            out.bytes(name.wire())?;
            at = end;
        }
    }
    out.bytes(bytes.get(at..record.end()).ok_or(Full)?)?;
    let len = super::write::length(out.len() - length_at - 2)?;
    out.set_number(length_at, len);
    Ok(())
}
