//! Sockets by netlink (`sock_diag(7)`), of the network namespace that the lab is in.
//!
//! One request lists both families: the older `TCPDIAG_GETSOCK`, since `SOCK_DIAG_BY_FAMILY` would
//! walk the kernel's table twice. An unexpected reply is an error, and `/proc` is read instead.

use std::io;

use rustix::fd::OwnedFd;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::{Endpoint, Row, TcpState};
use crate::limits::SOCKET_CHUNK_BYTES;

/// An open connection to the kernel.
#[derive(Debug)]
pub(super) struct Diag {
    socket: OwnedFd,
    /// Number of the last request; answers to another one are skipped.
    sequence: u32,
}

impl Diag {
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let family = AddressFamily::NETLINK;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(SOCK_DIAG))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Hands each socket to `each`.
    pub(super) fn dump(&mut self, buf: &mut Vec<u8>, mut each: impl FnMut(Row)) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(self.sequence);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request, SendFlags::empty(), &kernel)?;
        buf.resize(SOCKET_CHUNK_BYTES, 0);
        loop {
            // The kernel has the next part ready before it hands out this one: a blocking receive
            // could block for ever.
            let (len, _) = match recv(&self.socket, &mut buf[..], RecvFlags::DONTWAIT) {
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if read_messages(&buf[..len], self.sequence, &mut each)? {
                return Ok(());
            }
        }
    }
}

/// `struct nlmsghdr` and `struct inet_diag_req`.
fn request(sequence: u32) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &REQUEST_LEN.to_ne_bytes());
    put(4, &TCPDIAG_GETSOCK.to_ne_bytes());
    put(6, &(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    put(8, &sequence.to_ne_bytes());
    put(HEADER_BYTES + 52, &STATES.to_ne_bytes());
    request
}

/// Reads the messages of one datagram; true if the answer's last message was among them.
fn read_messages(mut rest: &[u8], sequence: u32, each: &mut impl FnMut(Row)) -> io::Result<bool> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    while !rest.is_empty() {
        let len = usize::try_from(u32_at(rest, 0).ok_or_else(damaged)?).map_err(|_| damaged())?;
        if len < HEADER_BYTES || len > rest.len() {
            return Err(damaged());
        }
        let (message, tail) = rest.split_at(len);
        // Messages begin at multiples of four bytes.
        rest = tail
            .get(len.next_multiple_of(4) - len..)
            .unwrap_or_default();
        if u32_at(message, 8) != Some(sequence) {
            continue;
        }
        match u16_at(message, 4).ok_or_else(damaged)? {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return Err(io::ErrorKind::Unsupported.into()),
            TCPDIAG_GETSOCK => {
                if let Some(row) = parse(&message[HEADER_BYTES..]) {
                    each(row);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}

/// `struct inet_diag_msg`; `None` in a state that is no TCP state.
fn parse(message: &[u8]) -> Option<Row> {
    let endpoint = |port: usize, address: usize| {
        let port = message.get(port..port + 2)?;
        let address = message.get(address..address + 16)?;
        Some(Endpoint {
            address: u128::from_be_bytes(address.try_into().ok()?),
            port: u16::from_be_bytes(port.try_into().ok()?),
        })
    };
    Some(Row {
        local: endpoint(4, 8)?,
        remote: endpoint(6, 24)?,
        state: TcpState::from_kernel(u64::from(*message.get(1)?))?,
        inode: u64::from(u32_at(message, 68)?),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 60;
const REQUEST_LEN: u32 = 76;
const _: () = assert!(REQUEST_BYTES == REQUEST_LEN as usize);
const TCPDIAG_GETSOCK: u16 = 18;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
/// Bits of the kernel's states 1 to 12; 13 is a socket that is bound and nothing else.
const STATES: u32 = 0x1ffe;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn answers_to_another_request_are_skipped() {
        let mut body = [0; 72];
        body[1] = 8;
        body[4..8].copy_from_slice(&[0x1f, 0x90, 0x9c, 0xd4]);
        body[68..72].copy_from_slice(&77_u32.to_ne_bytes());
        let bytes = [
            message(TCPDIAG_GETSOCK, 6, &body),
            message(TCPDIAG_GETSOCK, 7, &body),
            message(NLMSG_DONE, 7, &[0; 4]),
        ]
        .concat();
        let mut rows = Vec::new();
        let is_done = read_messages(&bytes, 7, &mut |row| rows.push(row)).unwrap();
        assert!(is_done);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].state, TcpState::CloseWait);
        assert_eq!((rows[0].local.port, rows[0].remote.port), (8080, 40_148));
        assert_eq!(rows[0].inode, 77);
    }

    #[test]
    fn what_is_cut_or_refused_is_an_error() {
        let whole = message(TCPDIAG_GETSOCK, 7, &[0; 72]);
        let cut = read_messages(&whole[..40], 7, &mut |_| {});
        assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let refused = read_messages(&message(NLMSG_ERROR, 7, &[0; 4]), 7, &mut |_| {});
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
