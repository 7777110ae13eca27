//! The server's end of HTTP/2 that sends just the frames that a test wants: in the script of a
//! [`RawOrigin`](crate::RawOrigin).
//!
//! SETTINGS are acknowledged; nothing else is sent automatically, and PING is not answered.

use crate::h2_peer::{H2Frame, PREFACE, read_frame};
use crate::origin::OriginPeer;

/// One connection of a client.
#[derive(Debug)]
pub struct H2Server<'a> {
    peer: &'a mut OriginPeer,
}

impl<'a> H2Server<'a> {
    /// Reads the client's preface, and sends these settings; `None` if the client sends something else.
    pub fn begin(peer: &'a mut OriginPeer, settings: &[(u16, u32)]) -> Option<Self> {
        if peer.try_bytes(PREFACE.len())? != PREFACE {
            return None;
        }
        peer.try_send(&H2Frame::settings(settings).bytes()).ok()?;
        Some(Self { peer })
    }

    /// Number of connections before this one.
    pub fn index(&self) -> usize {
        self.peer.index
    }

    /// Sends frames, unless the client has gone.
    pub fn send(&mut self, frames: &[H2Frame]) {
        let bytes: Vec<u8> = frames.iter().flat_map(H2Frame::bytes).collect();
        let _ = self.peer.try_send(&bytes);
    }

    /// Reads a frame; `None` when the connection has ended.
    pub fn frame(&mut self) -> Option<H2Frame> {
        let frame = read_frame(self.peer)?;
        if frame.kind == H2Frame::SETTINGS && !frame.has(H2Frame::ACK) {
            self.send(&[H2Frame::new(H2Frame::SETTINGS, H2Frame::ACK, 0, Vec::new())]);
        }
        Some(frame)
    }

    /// Reads to the end of a request, and returns its stream identifier.
    pub fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.frame()?;
            let is_of_request = matches!(frame.kind, H2Frame::HEADERS | H2Frame::DATA);
            if is_of_request && frame.has(H2Frame::END_STREAM) {
                return Some(frame.stream);
            }
        }
    }

    /// Reads on until the connection ends.
    pub fn drain(&mut self) {
        while self.frame().is_some() {}
    }
}
