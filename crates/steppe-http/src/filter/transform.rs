//! `transform`: sets, appends and removes fields.
//!
//! Names and values are valid already: see [`FieldEdits`].

use super::{About, Filter, Step};
use crate::config::{FieldEdits, Transform};
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::{RequestHead, ResponseHead};

/// Edits fields on the way in and out.
#[derive(Debug)]
pub struct TransformFilter(Transform);

impl TransformFilter {
    /// A filter that makes these edits.
    #[must_use]
    pub fn new(edits: Transform) -> Self {
        Self(edits)
    }
}

/// Removes from a trailer section the fields that `edits` set or remove.
///
/// A server that merges trailers into the head (RFC 9110 §6.5.2) would otherwise see there what
/// the edits took out of the head. What they append stands in the head alone: a peer's own lines of
/// that name are let through there, too.
fn cover_trailers(edits: &FieldEdits, trailers: &mut FieldBlock) {
    let set = edits.set.iter().map(|(name, _)| name);
    for name in edits.remove.iter().chain(set) {
        trailers.remove(name.as_bytes());
    }
}

impl Filter for TransformFilter {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        apply(&self.0.request, &mut head.fields)?;
        Ok(Step::Continue)
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        cover_trailers(&self.0.request, trailers);
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        apply(&self.0.response, &mut head.fields)
    }

    fn response_trailers(&self, trailers: &mut FieldBlock) {
        cover_trailers(&self.0.response, trailers);
    }
}

fn apply(edits: &FieldEdits, fields: &mut FieldBlock) -> Result<(), GatewayError> {
    for name in &edits.remove {
        fields.remove(name.as_bytes());
    }
    for (name, value) in &edits.set {
        fields.set(name.as_bytes(), value.as_bytes())?;
    }
    for (name, value) in &edits.append {
        fields.append(name.as_bytes(), value.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::field::FieldList;

    #[test]
    fn what_is_set_or_removed_in_the_head_is_removed_from_trailers() {
        let budget = Budget::new(1 << 20);
        let bytes = Buffer::take(&budget.root().lease(), 64).expect("room");
        let mut trailers = FieldBlock::new(bytes, FieldList::take());
        for name in ["X-User", "Checksum", "x-user", "X-Role", "X-Added"] {
            trailers.append(name.as_bytes(), b"v").expect("room");
        }
        let pair = |name: &str| vec![(name.to_owned(), "w".to_owned())];
        let filter = TransformFilter::new(Transform {
            request: FieldEdits {
                remove: vec!["x-role".to_owned()],
                set: pair("x-user"),
                append: pair("x-added"),
            },
            response: FieldEdits {
                set: pair("checksum"),
                ..FieldEdits::default()
            },
        });
        let names = |trailers: &FieldBlock| {
            let names = trailers.iter().map(|(_, name, _)| name);
            names
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect::<Vec<_>>()
        };
        filter.request_trailers(&mut trailers);
        assert_eq!(names(&trailers), ["Checksum", "X-Added"]);
        filter.response_trailers(&mut trailers);
        assert_eq!(names(&trailers), ["X-Added"]);
    }
}
