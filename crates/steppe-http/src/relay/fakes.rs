//! Two sides without a socket: each plays a script, and writes down what it was given.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use steppe_mem::{Budget, Buffer, Lease};

use super::*;
use crate::exchange::{Outgoing, Refusal, Sink, Source};
use crate::field::{FieldBlock, FieldList};
use crate::head::ContentLength;

/// The next action of a side's peer.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// Nothing, until the script is told to go on.
    Wait,
    /// Nothing: there is no memory to read into.
    Starve,
    /// It sends a head.
    Head(u16),
    /// It sends content.
    Chunk(&'static [u8]),
    /// It ends its content.
    End,
    /// It ends its content with a trailer of this name.
    Trailers(&'static str),
    /// Its connection fails.
    Fail,
}

/// For each action in turn, true if it happens at once; `None`: all of them do.
pub(super) type Readiness = Option<Rc<RefCell<VecDeque<bool>>>>;

/// One side of an exchange.
#[derive(Debug)]
pub(super) struct Fake {
    lease: Lease,
    pub(super) script: VecDeque<Event>,
    readiness: Readiness,
    /// Everything that was handed to the peer, in order.
    pub(super) taken: Vec<u8>,
    /// Heads and ends that were put.
    pub(super) seen: Vec<String>,
    slot: Vec<Part>,
    /// The peer takes nothing.
    pub(super) is_stalled: bool,
    /// The peer no longer takes anything.
    pub(super) is_deaf: bool,
    pub(super) is_gone: bool,
    /// The error of a flush, other than that the peer takes nothing.
    pub(super) flush_error: Option<GatewayError>,
    is_starved: bool,
    written: u64,
}

/// Two sides and the budget that both are charged to.
pub(super) struct Pair {
    pub(super) down: Fake,
    pub(super) up: Fake,
    pub(super) budget: Budget,
}

impl Pair {
    pub(super) fn new(request: &[Event], response: &[Event]) -> Self {
        Self::with_readiness(request, response, None)
    }

    pub(super) fn with_readiness(
        request: &[Event],
        response: &[Event],
        readiness: Readiness,
    ) -> Self {
        let budget = Budget::new(64 << 20);
        let side = |script: &[Event]| Fake {
            lease: budget.root().lease(),
            script: script.iter().cloned().collect(),
            readiness: readiness.clone(),
            taken: Vec::new(),
            seen: Vec::new(),
            slot: Vec::new(),
            is_stalled: false,
            is_deaf: false,
            is_gone: false,
            flush_error: None,
            is_starved: false,
            written: 0,
        };
        Self {
            down: side(request),
            up: side(response),
            budget,
        }
    }
}

impl Fake {
    /// The script goes on behind what it waits for.
    pub(super) fn proceed(&mut self) {
        assert!(matches!(
            self.script.pop_front(),
            Some(Event::Wait | Event::Starve)
        ));
    }

    fn is_ready(&self) -> bool {
        let Some(readiness) = &self.readiness else {
            return true;
        };
        readiness.borrow_mut().pop_front().unwrap_or(true)
    }

    fn buffer(&self, bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::take(&self.lease, bytes.len()).expect("room");
        buffer.put(bytes).expect("room");
        buffer
    }

    fn note_head(&mut self, head: &ResponseHead) {
        self.seen.push(head.status.to_string());
    }

    fn trailers(&self, name: &str) -> FieldBlock {
        let mut fields = FieldBlock::new(self.buffer(b""), FieldList::take());
        fields.append(name.as_bytes(), b"1").expect("room");
        fields
    }
}

impl Sink for Fake {
    fn can_put(&self) -> bool {
        self.slot.is_empty()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        assert!(self.can_put(), "a part was put while one is in flight");
        self.slot.push(part);
        Ok(())
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        if let Some(error) = self.flush_error {
            return Poll::Ready(Err(error));
        }
        if self.is_deaf {
            return Poll::Ready(Err(GatewayError::upstream(CloseReason::UpstreamReset, 502)));
        }
        if !self.slot.is_empty() && (self.is_stalled || !self.is_ready()) {
            return Poll::Pending;
        }
        for part in self.slot.drain(..) {
            match part {
                Part::Chunk(chunk) => {
                    self.written += chunk.len() as u64;
                    self.taken.extend_from_slice(chunk.filled());
                }
                Part::End(None) => self.seen.push("end".to_owned()),
                Part::End(Some(trailers)) => {
                    let names = trailers.iter().map(|(_, name, _)| name.to_vec());
                    let names: Vec<_> = names
                        .map(|name| String::from_utf8(name).expect("text"))
                        .collect();
                    self.seen.push(format!("end {}", names.join(" ")));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Source for Fake {
    fn poll_part(&mut self, _: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.is_starved = matches!(self.script.front(), Some(Event::Starve));
        if matches!(
            self.script.front(),
            None | Some(Event::Wait | Event::Starve | Event::Head(_))
        ) || !self.is_ready()
        {
            return Poll::Pending;
        }
        Poll::Ready(match self.script.pop_front() {
            Some(Event::Chunk(bytes)) => Ok(Part::Chunk(self.buffer(bytes).into())),
            Some(Event::End) => Ok(Part::End(None)),
            Some(Event::Trailers(name)) => Ok(Part::End(Some(self.trailers(name)))),
            _ => Err(GatewayError::upstream(CloseReason::UpstreamReset, 502)),
        })
    }

    fn is_starved(&self) -> bool {
        self.is_starved
    }
}

impl Downstream for Fake {
    fn charge_to(&mut self, _: &Lease) {}

    fn put_interim(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        assert!(self.can_put(), "a head was put while a part is in flight");
        self.note_head(&head);
        Ok(())
    }

    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        self.put_interim(head)
    }

    fn put_refusal(&mut self, _: &Refusal<'_>) -> Option<u64> {
        unreachable!("a relay refuses nothing")
    }

    fn retract(&mut self) -> bool {
        unreachable!("a relay takes nothing back")
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.is_gone {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn start_tunnel(&mut self) {
        self.seen.push("tunnel".to_owned());
    }
}

impl Upstream for Fake {
    fn start(&mut self, _: &Outgoing<'_>) -> Result<(), GatewayError> {
        unreachable!("a relay begins after that")
    }

    fn poll_head(&mut self, _: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        self.is_starved = matches!(self.script.front(), Some(Event::Starve));
        let has_come = matches!(self.script.front(), Some(Event::Head(_) | Event::Fail));
        if !has_come || !self.is_ready() {
            return Poll::Pending;
        }
        Poll::Ready(match self.script.pop_front() {
            Some(Event::Head(status)) => {
                Ok(ResponseHead::new(status, ContentLength::Unknown, &self.lease).expect("room"))
            }
            _ => Err(GatewayError::upstream(CloseReason::UpstreamReset, 502)),
        })
    }

    fn start_tunnel(&mut self) {
        self.seen.push("tunnel".to_owned());
    }
}
