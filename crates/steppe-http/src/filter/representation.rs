//! Fields of a head that describe content whose bytes a filter changes.
//!
//! Spec: RFC 9110 §8.6, §8.8; RFC 9530.

use crate::error::GatewayError;
use crate::field::{FieldBlock, FieldId};

const OF_BYTES: [&[u8]; 4] = [b"content-md5", b"digest", b"content-digest", b"repr-digest"];

/// Takes out what is true of the bytes as they were alone.
pub(super) fn change(fields: &mut FieldBlock) -> Result<(), GatewayError> {
    fields.remove_where(|id| id == FieldId::ContentLength);
    for name in OF_BYTES {
        fields.remove(name);
    }
    weaken(fields)
}

/// The same in trailers, which come when the bytes have been changed: an entity tag has nobody left to tell.
pub(super) fn change_trailers(trailers: &mut FieldBlock) {
    for name in OF_BYTES {
        trailers.remove(name);
    }
    trailers.remove(b"etag");
}

/// A strong validator stands for bytes, of which there are others now (RFC 9110 §8.8.1).
pub(super) fn weaken(fields: &mut FieldBlock) -> Result<(), GatewayError> {
    let strong = fields.values_named(b"etag").next();
    let Some(strong) = strong.filter(|etag| etag.starts_with(b"\"")) else {
        return Ok(());
    };
    let weak = [b"W/", strong].concat();
    Ok(fields.set(b"etag", &weak)?)
}
