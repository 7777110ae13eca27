//! The order of a stream's events, which a holder relies on.

use std::collections::BTreeMap;

use steppe_h2::message::SectionKind;
use steppe_h2::{Event, StreamId};

/// The events that each stream has had.
#[derive(Debug, Default)]
pub(super) struct Order {
    streams: BTreeMap<StreamId, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    has_head: bool,
    has_trailers: bool,
    /// Its request is HEAD.
    is_of_head: bool,
    /// The peer sends nothing more.
    is_ended: bool,
    is_reset: bool,
}

impl Order {
    /// A stream is opened here.
    pub(super) fn opened(&mut self, id: StreamId, method: &[u8]) {
        let seen = Seen {
            is_of_head: method == b"HEAD",
            ..Seen::default()
        };
        let before = self.streams.insert(id, seen);
        assert!(before.is_none(), "identifiers are new");
    }

    /// A stream is reset or released here.
    pub(super) fn reset(&mut self, id: StreamId) {
        self.streams.entry(id).or_default().is_reset = true;
    }

    /// Streams whose responses are not over.
    pub(super) fn active(&self) -> usize {
        let seen = self.streams.values();
        seen.filter(|seen| !seen.is_ended && !seen.is_reset).count()
    }

    /// Checks the next event.
    ///
    /// # Panics
    /// It may not follow those of before.
    pub(super) fn check(&mut self, event: &Event) {
        let stream = match event {
            Event::Section { stream, .. }
            | Event::Content { stream, .. }
            | Event::End { stream }
            | Event::Reset { stream, .. } => *stream,
            _ => return,
        };
        let is_request = matches!(
            event,
            Event::Section {
                kind: SectionKind::Request,
                ..
            }
        );
        let seen = match is_request {
            true => self.streams.entry(stream).or_default(),
            false => self.streams.get_mut(&stream).expect("it was opened"),
        };
        assert!(!seen.is_reset, "nothing follows a reset of {stream:?}");
        match event {
            Event::Reset { .. } => {
                seen.is_reset = true;
                return;
            }
            Event::Section { kind, .. } => match kind {
                SectionKind::Request => {
                    assert!(!seen.has_head, "one request opens a stream");
                    seen.has_head = true;
                }
                SectionKind::Response => seen.has_head = true,
                SectionKind::Trailers => {
                    assert!(seen.has_head && !seen.has_trailers);
                    seen.has_trailers = true;
                }
            },
            Event::Content { bytes, .. } => {
                assert!(*bytes > 0 && seen.has_head && !seen.has_trailers);
                assert!(!seen.is_of_head, "no response to HEAD has content");
            }
            Event::End { .. } => {
                assert!(seen.has_head && !seen.is_ended);
                seen.is_ended = true;
                return;
            }
            _ => {}
        }
        assert!(!seen.is_ended, "nothing follows the end of {stream:?}");
    }
}
