//! A client that sends requests and compares their responses.

use std::collections::{BTreeMap, VecDeque};

use http::HeaderMap;
use steppe_h2::message::SectionKind;
use steppe_h2::{EndStream, ErrorCode, Event, ResetBy, SendError, StreamId};
use steppe_mem::{Buffer, Chunk, Lease};

use super::client::{Exchange, Response, Serving};
use super::driver::{Holder, Ours};
use super::lines::{Lines, line};
use super::messages::{content, echoed, map};

/// A request that is open.
struct Asked {
    exchange: Exchange,
    /// Content that is to be sent; one empty piece for each that was sent whole.
    queue: VecDeque<Chunk>,
    pieces_sent: usize,
    is_sent: bool,
    interim_heads: usize,
    head: Option<HeaderMap>,
    status: u16,
    came: Vec<u8>,
    trailers: Option<HeaderMap>,
    is_ended: bool,
    /// Nothing more of it counts.
    is_over: bool,
}

/// The client.
pub struct Asker {
    lease: Lease,
    exchanges: VecDeque<(usize, Exchange)>,
    open: BTreeMap<StreamId, Asked>,
    has_goaway: bool,
    /// An early response is among them: the h2 crate counts its stream until it has written RST_STREAM, although both
    /// sides have ended it, and may refuse one that takes its place.
    has_early: bool,
}

impl Asker {
    pub fn new(lease: Lease, exchanges: &[Exchange]) -> Self {
        Self {
            lease,
            exchanges: exchanges.iter().cloned().enumerate().collect(),
            open: BTreeMap::new(),
            has_goaway: false,
            has_early: (exchanges.iter())
                .any(|exchange| exchange.response.serving == Serving::Early),
        }
    }

    fn chunk(&self, bytes: &[u8]) -> Chunk {
        let mut buffer = Buffer::take(&self.lease, bytes.len()).expect("room");
        buffer.put(bytes).expect("it was taken for them");
        buffer.into()
    }

    /// Opens streams while the server allows more.
    fn ask(&mut self, connection: &mut Ours) {
        while connection.peer().is_known
            && connection.can_open().is_ok()
            && let Some((index, exchange)) = self.exchanges.front()
        {
            let path = format!("/{index}");
            let mut lines = vec![(&b":method"[..], exchange.method.as_bytes())];
            if exchange.method != "CONNECT" {
                lines.extend([(&b":scheme"[..], &b"http"[..]), (b":path", path.as_bytes())]);
            }
            // CONNECT has no path: its port is the index.
            let authority = format!("model:{}", index + 1);
            lines.push((b":authority", authority.as_bytes()));
            let fields = exchange.fields.iter();
            lines.extend(fields.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            let end = match exchange.has_content() {
                true => EndStream::No,
                false => EndStream::Yes,
            };
            let opened = connection.open(lines.iter().copied().map(line), end, ());
            let id = match opened {
                Ok(id) => id,
                Err(SendError::Full) => return,
                Err(error) => panic!("{error}"),
            };
            let (_, exchange) = self.exchanges.pop_front().expect("it was there");
            let pieces = exchange.pieces.iter().enumerate();
            let queue = pieces.filter(|(_, bytes)| **bytes > 0);
            let queue = queue.map(|(index, &bytes)| self.chunk(&content(index, bytes)));
            let queue = match exchange.has_content() {
                true => queue.collect(),
                false => VecDeque::new(),
            };
            let asked = Asked {
                is_sent: !exchange.has_content(),
                exchange,
                queue,
                pieces_sent: 0,
                interim_heads: 0,
                head: None,
                status: 0,
                came: Vec::new(),
                trailers: None,
                is_ended: false,
                is_over: false,
            };
            self.open.insert(id, asked);
        }
    }
}

impl Holder for Asker {
    fn take(&mut self, connection: &mut Ours, input: &mut Chunk, event: Event) {
        match event {
            Event::Section {
                stream,
                kind,
                truncation,
            } => {
                assert_eq!(truncation, None);
                let section = connection.take_section().expect("it is whole");
                let asked = self.open.get_mut(&stream).expect("it is open");
                asked.take_section(kind, &section);
            }
            Event::Content { stream, bytes } => {
                let chunk = input.split_to(bytes);
                let octets = u32::try_from(bytes).expect("at most a frame");
                connection.release_content(stream, octets);
                let asked = self.open.get_mut(&stream).expect("it is open");
                asked.came.extend_from_slice(chunk.filled());
                if asked.exchange.is_left_at_content {
                    connection.release(stream, ErrorCode::CANCEL);
                    asked.is_over = true;
                }
            }
            Event::End { stream } => {
                let asked = self.open.get_mut(&stream).expect("it is open");
                asked.end();
            }
            Event::Reset { stream, code, by } => {
                assert_eq!(by, ResetBy::Peer, "{code}");
                let asked = self.open.get_mut(&stream).expect("it is open");
                let is_first = asked.head.is_none() && asked.interim_heads == 0;
                let is_excluded = is_first && (self.has_goaway || self.has_early);
                if !is_excluded || code != ErrorCode::REFUSED_STREAM {
                    asked.check_reset(code);
                }
                asked.is_over = true;
            }
            Event::Goaway(code) => {
                assert_eq!(code, ErrorCode::NO_ERROR);
                self.has_goaway = true;
            }
            _ => {}
        }
        // What was reset here is reported no more.
        self.let_go(connection);
    }

    fn send(&mut self, connection: &mut Ours) {
        self.ask(connection);
        for (&id, asked) in &mut self.open {
            asked.send(connection, id);
        }
        self.let_go(connection);
    }

    fn is_done(&self, connection: &Ours) -> bool {
        let asks_more = connection.can_open() != Err(SendError::Closed);
        self.open.is_empty() && (self.exchanges.is_empty() || !asks_more)
    }

    fn end(self, connection: &mut Ours) {
        assert!(self.open.is_empty(), "all exchanges have ended");
        assert_eq!(connection.streams(), 0);
        assert!(self.exchanges.is_empty() || self.has_goaway);
    }
}

impl Asker {
    fn let_go(&mut self, connection: &mut Ours) {
        for (&id, _) in self.open.iter().filter(|(_, asked)| asked.is_over) {
            connection.release(id, ErrorCode::CANCEL);
        }
        self.open.retain(|_, asked| !asked.is_over);
    }
}

impl Asked {
    fn take_section(&mut self, kind: SectionKind, section: &Lines) {
        let fields: Vec<_> = section
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        let regular: Vec<_> = (fields.iter())
            .filter(|(name, _)| !name.starts_with(':'))
            .cloned()
            .collect();
        if kind == SectionKind::Trailers {
            self.trailers = Some(map(&regular));
            return;
        }
        let status = fields.iter().find(|(name, _)| name == ":status");
        let status: u16 = status.expect("a status").1.parse().expect("a number");
        if status < 200 {
            assert!(self.head.is_none());
            self.interim_heads += 1;
            return;
        }
        assert!(self.head.replace(map(&regular)).is_none());
        self.status = status;
    }

    /// Sends what windows allow.
    fn send(&mut self, connection: &mut Ours, id: StreamId) {
        while !self.is_sent && !self.is_over {
            if self.exchange.reset_after == Some(self.pieces_sent) {
                connection.release(id, ErrorCode::CANCEL);
                self.is_over = true;
                return;
            }
            let mut chunk = self.queue.pop_front();
            let is_end = chunk.is_none() && !self.exchange.has_trailers;
            let result = match (&chunk, is_end) {
                (None, false) => {
                    let trailer = line((b"x-trailer", b"1"));
                    connection.send_head(id, std::iter::once(trailer), EndStream::Yes)
                }
                (None, true) => connection
                    .send_content(id, &mut None, EndStream::Yes)
                    .map(drop),
                (Some(_), _) => connection
                    .send_content(id, &mut chunk, EndStream::No)
                    .map(drop),
            };
            let was_last = chunk.is_none() && self.queue.is_empty();
            if let Some(rest) = chunk {
                self.queue.push_front(rest);
                return;
            }
            match result {
                Ok(()) => self.is_sent = was_last && !connection.can_send(id),
                Err(SendError::Full) => return,
                Err(error) => panic!("{error}"),
            }
            self.pieces_sent += 1;
        }
        self.is_over |= self.is_sent && self.is_ended;
    }

    /// The response is whole.
    fn end(&mut self) {
        let Response {
            status,
            fields,
            pieces,
            has_trailers,
            interim_heads,
            ..
        } = &self.exchange.response;
        assert!(self.exchange.response.reset_after.is_none());
        assert_eq!((self.status, self.interim_heads), (*status, *interim_heads));
        let head = self.head.as_ref().expect("a head");
        assert_eq!(echoed(head), echoed(&map(fields)));
        let mut expected = Vec::new();
        for (index, &bytes) in pieces.iter().enumerate() {
            expected.extend_from_slice(&content(index, bytes));
        }
        let (has_content, can_trail) = (self.exchange.answers_content(), *has_trailers);
        let expected = if has_content { expected } else { Vec::new() };
        assert!(self.came == expected, "{} bytes came", self.came.len());
        let trailers = map(&[("x-trailer".to_owned(), "1".to_owned())]);
        let trailers =
            (can_trail && has_content && self.exchange.method != "CONNECT").then_some(trailers);
        assert_eq!(self.trailers, trailers);
        self.is_ended = true;
        self.is_over |= self.is_sent;
    }

    /// The server may have reset it with this code.
    fn check_reset(&self, code: ErrorCode) {
        let response = &self.exchange.response;
        match code {
            // The rest of the request is not needed.
            ErrorCode::NO_ERROR => assert!(self.is_ended && response.serving == Serving::Early),
            ErrorCode::INTERNAL_ERROR => assert!(response.reset_after.is_some()),
            ErrorCode::REFUSED_STREAM => {
                assert!(self.head.is_none() && response.serving == Serving::Refused);
            }
            code => panic!("{code}"),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it is text")
}
