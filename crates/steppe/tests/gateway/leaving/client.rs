//! A client that begins a request, and leaves.

use steppe_testkit::{FieldSection, H2Frame, H2Peer, Peer, Steppe, TlsClient};

use super::{Case, NAME, State};

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    H1,
    H1Tls,
    H2c,
    H2,
}

/// The way in which clients leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Closes the sending side (FIN).
    End,
    /// Resets the connection (RST).
    Reset,
    /// Resets the stream (RFC 9113 §6.4).
    ResetStream,
}

/// Content of an HTTP/1.1 request: more than the node reads while its server reads nothing, and no more than kernel
/// buffers hold, since the node does not see a FIN behind more content.
const CONTENT_BYTES: usize = 110_000;
/// Content of an HTTP/2 request, whose server grants no window: any size waits.
const H2_CONTENT_BYTES: usize = 500;
/// The announced length of a request whose content is never complete.
const ANNOUNCED_BYTES: usize = 900_000;
/// The receive buffer of a client that does not read.
const NARROW_BYTES: usize = 4 << 10;

impl Protocol {
    pub(super) fn names(self) -> [&'static str; 1] {
        match self {
            Self::H1 | Self::H1Tls => ["h1"],
            Self::H2c => ["h2c"],
            Self::H2 => ["h2"],
        }
    }

    pub(super) fn is_encrypted(self) -> bool {
        matches!(self, Self::H1Tls | Self::H2)
    }

    pub(super) fn ways(self) -> &'static [Way] {
        match self {
            Self::H1 | Self::H1Tls => &[Way::End, Way::Reset],
            Self::H2c | Self::H2 => &[Way::End, Way::Reset, Way::ResetStream],
        }
    }
}

/// A client with a request in flight.
pub(super) enum Client {
    H1(Option<Peer>),
    H2(Option<H2Peer>, u32),
}

impl Client {
    pub(super) fn begin(node: &Steppe, case: Case) -> Self {
        let peer = node.connect_narrow(NARROW_BYTES);
        let alpn = case.protocol.names();
        let peer = match case.protocol.is_encrypted() {
            false => peer,
            true => {
                let client = TlsClient::new().alpn(&match alpn {
                    ["h1"] => ["http/1.1"],
                    other => other,
                });
                client.over(peer, NAME).expect("a session")
            }
        };
        match case.protocol {
            Protocol::H1 | Protocol::H1Tls => Self::begin_h1(peer, case),
            Protocol::H2c | Protocol::H2 => {
                let mut client = Self::H2(Some(H2Peer::begin(peer, &[])), 0);
                client.begin_again(case);
                client
            }
        }
    }

    fn begin_h1(mut peer: Peer, case: Case) -> Self {
        let path = case.state.path();
        let (announced, content) = match (case.state, case.is_whole) {
            (State::Content, true) => (CONTENT_BYTES, CONTENT_BYTES),
            (State::Content, false) => (ANNOUNCED_BYTES, CONTENT_BYTES),
            (_, true) => (0, 0),
            (_, false) => (ANNOUNCED_BYTES, 0),
        };
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {announced}\r\n\r\n");
        peer.send([head.as_bytes(), &vec![b'x'; content]].concat());
        Self::H1(Some(peer))
    }

    /// Begins another request of HTTP/2.
    pub(super) fn begin_again(&mut self, case: Case) {
        let Self::H2(Some(peer), stream) = self else {
            unreachable!("it speaks HTTP/2")
        };
        *stream = peer.stream();
        let fields = FieldSection::of("POST", case.state.path());
        if case.state != State::Content {
            peer.send(&[match case.is_whole {
                true => H2Frame::request(*stream, &fields),
                false => H2Frame::opening(*stream, &fields),
            }]);
            return;
        }
        let content = vec![b'x'; H2_CONTENT_BYTES];
        peer.send(&[
            H2Frame::opening(*stream, &fields),
            match case.is_whole {
                true => H2Frame::last_data(*stream, content),
                false => H2Frame::data(*stream, content),
            },
        ]);
    }

    pub(super) fn leave(&mut self, way: Way) {
        const CANCEL: [u8; 4] = [0, 0, 0, 8];
        match (self, way) {
            (Self::H2(Some(peer), stream), Way::ResetStream) => {
                let reset = H2Frame::new(H2Frame::RST_STREAM, 0, *stream, CANCEL);
                peer.send(&[reset]);
            }
            (Self::H2(Some(peer), _), Way::End) => _ = peer.socket().cut(),
            (Self::H1(Some(peer)), Way::End) => _ = peer.cut(),
            (Self::H2(peer, _), _) => {
                if let Some(mut peer) = peer.take() {
                    peer.socket().reset_at_end();
                }
            }
            (Self::H1(peer), _) => _ = peer.take().map(Peer::reset),
        }
    }
}
