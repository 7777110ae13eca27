//! A scripted peer on a thread of its own, so that its allocations are not counted.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::net::TcpSocket;

use steppe_plane::frame::{FrameHeader, FrameType, HEADER_BYTES, Hello};
use steppe_plane::limits::CONNECTION_CREDIT;

use crate::frames::frame;

/// One connection.
pub struct Peer {
    pub socket: TcpStream,
    /// Frames that were read during a wait for credit.
    read: VecDeque<(FrameHeader, Vec<u8>)>,
    /// Standing credit of the connection that is left.
    credit: u64,
    granted: u64,
}

/// A frame without a payload.
pub fn control(frame_type: FrameType, stream: u32, code: u32) -> Vec<u8> {
    let mut header = FrameHeader::new(frame_type, stream);
    header.code = code;
    frame(header, b"")
}

/// A socket with a small receive buffer.
fn connect(address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("is set");
        let stream = socket.connect(address).await.expect("it listens");
        let stream = stream.into_std().expect("a socket");
        stream.set_nonblocking(false).expect("is set");
        stream
    })
}

impl Peer {
    pub fn new(address: SocketAddr) -> Self {
        Self::begin(TcpStream::connect(address).expect("it listens"))
    }

    /// A peer whose socket has a small receive buffer.
    pub fn narrow(address: SocketAddr) -> Self {
        Self::begin(connect(address))
    }

    fn begin(socket: TcpStream) -> Self {
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("is set");
        let mut peer = Self {
            socket,
            read: VecDeque::new(),
            credit: u64::from(CONNECTION_CREDIT),
            granted: 0,
        };
        let mut bytes = Vec::new();
        Hello {
            oldest: 1,
            newest: 1,
            streams_max: 65_536,
            stream_credit: 128 << 10,
            connection_credit: 128 << 10,
        }
        .write(&mut bytes);
        peer.send(&bytes);
        peer
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("it reads");
    }

    /// Sends DATA frames on standing credit, once there is enough credit.
    pub fn send_body(&mut self, bytes: &[u8]) {
        while self.credit < bytes.len() as u64 {
            let frame = self.receive();
            self.read.push_back(frame);
        }
        self.credit -= bytes.len() as u64;
        self.send(bytes);
    }

    /// The next frame.
    pub fn read(&mut self) -> (FrameHeader, Vec<u8>) {
        self.read.pop_front().unwrap_or_else(|| self.receive())
    }

    fn receive(&mut self) -> (FrameHeader, Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        self.socket.read_exact(&mut header).expect("a frame");
        let header = FrameHeader::read(&header);
        let mut payload = vec![0; header.len as usize];
        self.socket.read_exact(&mut payload).expect("it is whole");
        if header.frame_type == FrameType::CREDIT && header.stream == 0 {
            self.credit += header.aux - self.granted;
            self.granted = header.aux;
        }
        (header, payload)
    }

    /// The next frame of a type; others are skipped.
    pub fn read_until(&mut self, frame_type: FrameType) -> (FrameHeader, Vec<u8>) {
        loop {
            let read = self.read();
            if read.0.frame_type == frame_type {
                return read;
            }
        }
    }
}
