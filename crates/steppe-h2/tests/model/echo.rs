//! A server that sends back what it receives.

use std::collections::{BTreeMap, VecDeque};

use steppe_h2::message::SectionKind;
use steppe_h2::{EndStream, ErrorCode, Event, SendError, StreamId};
use steppe_mem::{Buffer, Chunk};

use super::driver::{Holder, Ours};
use super::lines::{Lines, line};

/// One stream.
#[derive(Debug, Default)]
struct Stream {
    head: Option<Lines>,
    queue: VecDeque<Chunk>,
    trailers: Option<Lines>,
    is_ended: bool,
    is_over: bool,
}

/// The server.
#[derive(Debug, Default)]
pub struct Echo {
    streams: BTreeMap<StreamId, Stream>,
}

impl Echo {
    fn stream(&mut self, id: StreamId) -> &mut Stream {
        self.streams.get_mut(&id).expect("it was opened")
    }
}

impl Holder for Echo {
    fn take(&mut self, connection: &mut Ours, input: &mut Chunk, event: Event) {
        match event {
            Event::Section {
                stream,
                kind,
                truncation,
            } => {
                assert_eq!(truncation, None);
                let section = connection.take_section().expect("it is whole");
                let stream = self.streams.entry(stream).or_default();
                match kind {
                    SectionKind::Request => stream.head = Some(section),
                    _ => stream.trailers = Some(section),
                }
            }
            Event::Content { stream, bytes } => {
                let chunk = input.split_to(bytes);
                let octets = u32::try_from(bytes).expect("at most a frame");
                // Not when it was sent back: the client reads nothing before it has sent all.
                connection.release_content(stream, octets);
                let stream = self.stream(stream);
                match stream.queue.pop_back() {
                    // The client ends connections with many small frames.
                    Some(last) if last.len() < 1000 => {
                        let bytes = last.len() + chunk.len();
                        let mut joined = Buffer::take(last.lease(), bytes).expect("room");
                        joined.put(last.filled()).expect("room");
                        joined.put(chunk.filled()).expect("room");
                        stream.queue.push_back(joined.into());
                    }
                    last => stream.queue.extend(last.into_iter().chain([chunk])),
                }
            }
            Event::End { stream } => self.stream(stream).is_ended = true,
            Event::Reset { stream, .. } => self.stream(stream).is_over = true,
            _ => {}
        }
    }

    fn send(&mut self, connection: &mut Ours) {
        for (&id, stream) in &mut self.streams {
            if !stream.is_over {
                let sent = send(connection, id, stream);
                stream.is_over = sent == Ok(());
            }
        }
        for (&id, _) in self.streams.iter().filter(|(_, stream)| stream.is_over) {
            connection.release(id, ErrorCode::CANCEL);
        }
        self.streams.retain(|_, stream| !stream.is_over);
    }

    fn is_done(&self, _: &Ours) -> bool {
        false
    }

    fn end(self, _: &mut Ours) {}
}

/// Sends back what came of a stream. `Ok`: all of it, and its end.
fn send(connection: &mut Ours, id: StreamId, stream: &mut Stream) -> Result<(), SendError> {
    if let Some(head) = &stream.head {
        let status = std::iter::once((&b":status"[..], &b"200"[..]));
        let echoed = head.iter().filter(|(name, _)| name.starts_with(b"x-"));
        connection.send_head(id, status.chain(echoed).map(line), EndStream::No)?;
        stream.head = None;
    }
    while let Some(chunk) = stream.queue.pop_front() {
        if chunk.len() < 1000 && !stream.is_ended && stream.queue.is_empty() {
            stream.queue.push_front(chunk);
            return Err(SendError::Full);
        }
        let mut chunk = Some(chunk);
        let sent = connection.send_content(id, &mut chunk, EndStream::No);
        let rest = chunk.filter(|chunk| !chunk.is_empty());
        let is_stopped = rest.is_some();
        if let Some(rest) = rest {
            stream.queue.push_front(rest);
        }
        sent?;
        if is_stopped {
            return Err(SendError::Full);
        }
    }
    if !stream.is_ended {
        return Err(SendError::Full);
    }
    match &stream.trailers {
        Some(trailers) => connection.send_head(id, trailers.iter().map(line), EndStream::Yes),
        None => connection
            .send_content(id, &mut None, EndStream::Yes)
            .map(drop),
    }
}
