//! Received events, and the outcomes of queries.

use std::time::Instant;

use steppe_h2::message::SectionKind;
use steppe_h2::{ConnectionError, ErrorCode, Event, ResetBy, StreamId, Truncation};
use steppe_mem::Chunk;

use super::HttpsClient;
use super::error::QueryError;
use super::outcome::Outcome;
use super::section::ResponseSection;

impl HttpsClient {
    /// The next outcome in `input`, whose bytes are taken off it. `None`: more input is needed; if some is left, output
    /// has to be written first.
    ///
    /// # Errors
    /// The server violated the protocol: GOAWAY is to be written, and nothing more comes.
    pub fn receive(
        &mut self,
        input: &mut Chunk,
        now: Instant,
    ) -> Result<Option<Outcome>, ConnectionError> {
        while let Some(event) = self.h2.receive(Some(input), now)? {
            let outcome = self.take_event(event, input);
            if outcome.is_some() {
                return Ok(outcome);
            }
        }
        Ok(None)
    }

    fn take_event(&mut self, event: Event, input: &mut Chunk) -> Option<Outcome> {
        match event {
            Event::Begins(_) => {
                self.h2.accept(ResponseSection::new(&self.lease));
                None
            }
            Event::Section {
                stream,
                kind: SectionKind::Response,
                truncation,
            } => {
                let section = self.h2.take_section()?;
                self.take_head(stream, section, truncation)
            }
            Event::Content { stream, bytes } => self.take_content(stream, bytes, input),
            Event::End { stream } => self.take_end(stream),
            Event::Reset { stream, code, by } => self.take_reset(stream, code, by),
            Event::Window(Some(stream)) => {
                let waits = self.unsent.iter().position(|&unsent| unsent == stream);
                if let Some(at) = waits
                    && !self.send_content(stream)
                {
                    self.unsent.remove(at);
                }
                None
            }
            Event::Window(None) | Event::Settings => {
                self.send_unsent();
                None
            }
            Event::Goaway(code) => {
                self.leaving = Some(code);
                Some(Outcome::Leaving)
            }
            // Trailers say nothing about a message.
            Event::Section { .. } | Event::Priority(_) | Event::Pong(_) => None,
        }
    }

    fn take_head(
        &mut self,
        stream: StreamId,
        section: ResponseSection,
        truncation: Option<Truncation>,
    ) -> Option<Outcome> {
        let error = match (truncation, section.status) {
            (Some(Truncation::TooLarge), _) => QueryError::FieldsTooLarge,
            (Some(Truncation::NoRoom), _) => QueryError::OverBudget,
            (None, 100..=199) => return None,
            (None, 200) if section.is_message() => {
                let query = self.query_mut(stream)?;
                query.message = section.into_buffer();
                return None;
            }
            (None, 200) => QueryError::MediaType,
            (None, status) => QueryError::Status(status),
        };
        self.fail(stream, error)
    }

    fn take_content(
        &mut self,
        stream: StreamId,
        bytes: usize,
        input: &mut Chunk,
    ) -> Option<Outcome> {
        let content = &input.filled()[..bytes];
        let query = self.h2.stream_mut(stream).and_then(Option::as_mut);
        let added = query.map_or(Ok(()), |query| query.add(content, &self.lease));
        input.consume(bytes);
        let octets = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.h2.release_content(stream, octets);
        match added {
            Ok(()) => None,
            Err(error) => self.fail(stream, error),
        }
    }

    fn take_end(&mut self, stream: StreamId) -> Option<Outcome> {
        let query = self.query_mut(stream)?;
        let id = query.id;
        let message = query.finish();
        self.release(stream);
        Some(match message {
            Ok(message) => Outcome::Response(message),
            Err(error) => Outcome::Failed { id, error },
        })
    }

    /// RFC 9113 §8.7: a stream that is refused was not processed. A server that refuses streams within its own limit
    /// would refuse the same query again.
    fn take_reset(&mut self, stream: StreamId, code: ErrorCode, by: ResetBy) -> Option<Outcome> {
        let query = self.query_mut(stream)?;
        let id = query.id;
        let may_send_again = query.is_early || self.leaving.is_some();
        let is_refused = code == ErrorCode::REFUSED_STREAM && by == ResetBy::Peer;
        self.release(stream);
        Some(match by {
            _ if is_refused && may_send_again => Outcome::Refused { id },
            ResetBy::Peer => Outcome::Failed {
                id,
                error: QueryError::Reset(code),
            },
            ResetBy::Us => Outcome::Failed {
                id,
                error: QueryError::Malformed(code),
            },
        })
    }
}
