//! Media types of messages: a name, and perhaps a format or parameters behind it.

/// The media type of messages in whatever format.
pub(crate) const MEDIA_TYPE: &str = "application/grpc";

/// The part of a media type behind `known`: a format, parameters, or nothing.
pub(super) fn rest_of<'a>(value: &'a [u8], known: &str) -> Option<&'a [u8]> {
    let (start, rest) = value.split_at_checked(known.len())?;
    let is_known = start.eq_ignore_ascii_case(known.as_bytes())
        && matches!(rest.first(), None | Some(b'+' | b';' | b' '));
    is_known.then_some(rest)
}
