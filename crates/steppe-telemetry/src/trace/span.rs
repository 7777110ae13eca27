//! A span: an operation of a trace.

use std::time::Instant;

use super::context::{TRACESTATE_BYTES_MAX, TraceContext};
use crate::limits::{SPAN_ATTRIBUTES_MAX, SPAN_TEXT_BYTES_MAX, SPAN_TEXTS_BYTES_MAX};

/// An operation of a trace: its begin, end and attributes.
#[derive(Debug)]
pub struct Span {
    /// The trace's id and the span's own.
    pub context: TraceContext,
    /// The span that it is part of; `None`: the first span of its trace.
    pub parent: Option<TraceContext>,
    /// The `tracestate` list of other vendors.
    pub(super) state: String,
    pub(super) name: String,
    /// Time of its begin.
    pub began_at: Instant,
    /// Time of its end.
    pub ended_at: Instant,
    /// True for a failure of the node or of its upstream.
    pub is_error: bool,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// Room left for texts, in bytes.
    pub(super) text_bytes_left: usize,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    Number(u64),
}

impl Span {
    /// A span without attributes.
    #[must_use]
    pub fn new(context: TraceContext, parent: Option<TraceContext>, began_at: Instant) -> Self {
        Self {
            context,
            parent,
            state: String::new(),
            name: String::new(),
            began_at,
            ended_at: began_at,
            is_error: false,
            attributes: Vec::with_capacity(SPAN_ATTRIBUTES_MAX),
            text_bytes_left: SPAN_TEXTS_BYTES_MAX,
        }
    }

    /// Sets the name of the operation, such as `GET api`.
    pub fn set_name(&mut self, name: &str) {
        self.name = self.kept(name.as_bytes());
    }

    /// Sets the `tracestate` of other vendors; a list that has no room is left out whole.
    pub fn set_state(&mut self, state: &str) {
        if state.len() <= TRACESTATE_BYTES_MAX.min(self.text_bytes_left) {
            self.text_bytes_left -= state.len();
            state.clone_into(&mut self.state);
        }
    }

    /// Adds a text, cut to the room that the span has left.
    pub fn text(&mut self, name: &'static str, value: &[u8]) {
        let value = self.kept(value);
        self.put(name, Value::Text(value));
    }

    /// Adds a number.
    pub fn number(&mut self, name: &'static str, value: u64) {
        self.put(name, Value::Number(value));
    }

    /// The part of a text that there is room for; bytes that are no UTF-8 are replaced.
    fn kept(&mut self, text: &[u8]) -> String {
        let room = SPAN_TEXT_BYTES_MAX.min(self.text_bytes_left);
        let mut kept = String::from_utf8_lossy(&text[..text.len().min(room)]).into_owned();
        kept.truncate(kept.floor_char_boundary(room));
        self.text_bytes_left -= kept.len();
        kept
    }

    fn put(&mut self, name: &'static str, value: Value) {
        if self.attributes.len() < SPAN_ATTRIBUTES_MAX {
            self.attributes.push((name, value));
        }
    }
}
