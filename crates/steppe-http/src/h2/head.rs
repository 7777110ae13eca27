//! Rules of field sections on either side: trailers, and lines to be sent. Spec: RFC 9113 §8.

use steppe_h2::Truncation;
use steppe_h2::hpack::{FieldLine, Indexing};

use super::inbox::ReceivedSection;
use crate::field::{Field, FieldBlock, FieldId, is_field_line};
use crate::limits::{TRAILER_BYTES_MAX, TRAILER_FIELDS_MAX};
use crate::message;

/// Bytes that RFC 9113 §6.5.2 counts of a field beside its name and its value.
pub(super) const FIELD_OVERHEAD: usize = 32;

/// Pseudo-header fields of a section at most, which are no fields of a head.
pub(super) const PSEUDO_MAX: usize = 6;

/// Why trailers can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrailersError {
    /// A line could not be one of HTTP/1.
    Malformed,
    /// They are larger than allowed.
    TooLarge,
    /// The budget has no room.
    OverBudget,
}

/// True when every line could be one of HTTP/1 (RFC 9110 §5.5): stricter than RFC 9113 §8.2.1, since lines may go out
/// by HTTP/1.
pub(super) fn has_valid_lines(fields: &FieldBlock) -> bool {
    let is_valid = |(_, name, value): (FieldId, &[u8], &[u8])| is_field_line(name, value);
    fields.iter().all(is_valid)
}

/// A `content-length` that is no number, or stands twice.
#[derive(Debug)]
pub(super) struct InvalidLength;

/// The value of `content-length`; `None`: there is none.
pub(super) fn content_length(fields: &FieldBlock) -> Result<Option<u64>, InvalidLength> {
    let mut values = fields.values(FieldId::ContentLength);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let length = message::content_length(value).ok_or(InvalidLength)?;
            Ok(Some(length))
        }
        (Some(_), Some(_)) => Err(InvalidLength),
    }
}

/// Trailers that were received.
pub(super) fn trailers(received: ReceivedSection) -> Result<FieldBlock, TrailersError> {
    let ReceivedSection {
        section,
        truncation,
        ..
    } = received;
    if section.has_no_room() || truncation == Some(Truncation::NoRoom) {
        return Err(TrailersError::OverBudget);
    }
    let mut fields = section.into_fields();
    let bytes: usize = (fields.iter())
        .map(|(_, name, value)| name.len() + value.len() + FIELD_OVERHEAD)
        .sum();
    let count = fields.fields().len();
    if truncation.is_some() || count > TRAILER_FIELDS_MAX || bytes > TRAILER_BYTES_MAX {
        return Err(TrailersError::TooLarge);
    }
    if !has_valid_lines(&fields) {
        return Err(TrailersError::Malformed);
    }
    fields.remove_where(|id| matches!(id, FieldId::Host | FieldId::Te));
    let joined = fields.join_lines(b"cookie", b"; ");
    joined.map_err(|_| TrailersError::OverBudget)?;
    Ok(fields)
}

/// A line to be sent.
pub(super) fn line<'a>(name: &'a [u8], value: &'a [u8]) -> FieldLine<'a> {
    FieldLine {
        name,
        value,
        indexing: Indexing::Without,
    }
}

/// A line of a head or of trailers to be sent, whose parts lie in `bytes`. One that came never-indexed goes out so.
///
/// RFC 9113 §8.2.1: no white space is around a value. Joined cookies may leave some, and services of the plane.
pub(super) fn forwarded_line(field: Field, bytes: &[u8]) -> FieldLine<'_> {
    let indexing = match field.is_never_indexed() {
        true => Indexing::Never,
        false => Indexing::Without,
    };
    FieldLine {
        name: field.name(bytes),
        value: field.value(bytes).trim_ascii(),
        indexing,
    }
}

/// Trailers to be sent.
pub(super) fn trailer_lines(trailers: &FieldBlock) -> impl Iterator<Item = FieldLine<'_>> + Clone {
    let bytes = trailers.bytes();
    let kept = trailers.fields().iter().filter(move |field| {
        let (name, value) = (field.name(bytes), field.value(bytes));
        let is_refused = field.id.is_hop_by_hop() || field.id.is_refused_as_trailer(name);
        !is_refused && is_field_line(name, value)
    });
    kept.map(move |&field| forwarded_line(field, bytes))
}
