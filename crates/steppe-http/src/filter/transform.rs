//! `transform`: sets, appends and removes fields.
//!
//! Names and values are valid already: see [`FieldEdits`].

use super::Filter;
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

impl Filter for TransformFilter {
    fn request(&self, head: &mut RequestHead) -> Result<(), GatewayError> {
        apply(&self.0.request, &mut head.fields)
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        apply(&self.0.response, &mut head.fields)
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
