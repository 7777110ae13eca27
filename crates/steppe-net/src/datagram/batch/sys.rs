//! `recvmmsg` and `sendmmsg`, with the local address of each datagram.
#![expect(
    unsafe_code,
    reason = "safe crates either send one control message with all datagrams, or none"
)]

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use super::slot::{Fits, Slot};

/// Room for one `IP_PKTINFO` or `IPV6_PKTINFO`, aligned as its header has to be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// `CMSG_SPACE` of the longer one, `in6_pktinfo`: a header of 16 bytes, and 20.
const CONTROL_BYTES: usize = 40;

/// Memory of [`Calls`] for each datagram.
pub(super) const BYTES_PER_SLOT: usize = size_of::<libc::mmsghdr>()
    + size_of::<libc::iovec>()
    + size_of::<libc::sockaddr_storage>()
    + size_of::<Control>();

/// Headers that the kernel reads and writes beside payloads.
///
/// Headers point into the other lists only during a call: they are made anew for each.
pub(super) struct Calls {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
}

// SAFETY: its pointers are dead between calls, and a call has it by `&mut`.
unsafe impl Send for Calls {}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls")
            .field("slots", &self.names.len())
            .finish()
    }
}

impl Calls {
    pub(super) fn new(slots: usize) -> Self {
        // SAFETY: a `sockaddr_storage` of zeros is a valid one, of no family.
        let nobody: libc::sockaddr_storage = unsafe { zeroed() };
        Self {
            headers: Vec::with_capacity(slots),
            vectors: Vec::with_capacity(slots),
            names: vec![nobody; slots],
            controls: vec![Control([0; CONTROL_BYTES]); slots],
        }
    }

    /// Reads as many datagrams as there are and as `rooms` has room for; does not wait.
    pub(super) fn receive<'a>(
        &mut self,
        socket: &impl AsFd,
        rooms: impl Iterator<Item = &'a mut [u8]>,
    ) -> io::Result<usize> {
        self.headers.clear();
        self.vectors.clear();
        self.vectors
            .extend(rooms.take(self.names.len()).map(|room| libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            }));
        let places = self.vectors.iter_mut().zip(&mut self.names);
        for ((vector, name), control) in places.zip(&mut self.controls) {
            let mut header = empty_header();
            header.msg_hdr.msg_name = (&raw mut *name).cast();
            header.msg_hdr.msg_namelen = socklen(size_of::<libc::sockaddr_storage>());
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut control.0).cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            self.headers.push(header);
        }
        // SAFETY: each header points to a name, a control buffer and one vector of its own, with
        // their lengths; the vectors point to the rooms, which the caller has lent mutably. All
        // of them outlive the call, and a null timeout is allowed.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                socklen(self.headers.len()),
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Peer, local address and length of a datagram of the last [`receive`](Self::receive); `None`: it
    /// has no address of the Internet.
    pub(super) fn received(&self, index: usize) -> Option<Slot> {
        let header = self.headers.get(index)?;
        let fits = if header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0 {
            Fits::Whole
        } else {
            Fits::Truncated
        };
        let control_len = length(header.msg_hdr.msg_controllen).min(CONTROL_BYTES);
        Some(Slot {
            peer: address_of(&self.names[index])?,
            local: local_of(&self.controls[index].0[..control_len]),
            len: header.msg_len as usize,
            fits,
        })
    }

    /// Sends `pending` in order; returns how many the kernel took, or why it did not take the
    /// first. Does not wait.
    pub(super) fn send<'a>(
        &mut self,
        socket: &impl AsFd,
        pending: impl Iterator<Item = (&'a [u8], &'a Slot)>,
    ) -> io::Result<usize> {
        self.headers.clear();
        self.vectors.clear();
        let places = self.names.iter_mut().zip(&mut self.controls);
        for ((room, slot), (name, control)) in pending.zip(places) {
            let mut header = empty_header();
            header.msg_hdr.msg_namelen = write_address(name, slot.peer);
            header.msg_hdr.msg_name = (&raw mut *name).cast();
            let control_len = slot.local.map_or(0, |local| write_local(control, local));
            if control_len > 0 {
                header.msg_hdr.msg_control = (&raw mut control.0).cast();
                header.msg_hdr.msg_controllen = control_len as _;
            }
            self.headers.push(header);
            self.vectors.push(libc::iovec {
                iov_base: room.as_ptr().cast_mut().cast(),
                iov_len: slot.len.min(room.len()),
            });
        }
        for (header, vector) in self.headers.iter_mut().zip(&mut self.vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header points to a name, one vector and, where it has a length, a control
        // buffer of its own; vectors point to the rooms, which `sendmmsg` only reads. All of them
        // outlive the call.
        let count = unsafe {
            libc::sendmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                socklen(self.headers.len()),
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

/// Has the kernel tell the local address of each datagram.
pub(in crate::datagram) fn report_local_address(
    socket: &socket2::Socket,
    of: IpAddr,
) -> io::Result<()> {
    match of {
        IpAddr::V4(_) => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        IpAddr::V6(_) => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Has datagrams sent with DF, whatever was said of the path's MTU: a forged message of ICMP can't
/// have them cut into fragments, one of which somebody else could replace.
pub(in crate::datagram) fn forbid_fragments(
    socket: &socket2::Socket,
    of: IpAddr,
) -> io::Result<()> {
    match of {
        IpAddr::V4(_) => set_option(
            socket,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        IpAddr::V6(_) => set_option(
            socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
    }
}

fn set_option(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is an `int`, which is read during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            socklen(size_of::<i32>()),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: a header of zeros has null pointers and no lengths.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn socklen(bytes: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(bytes).expect("lengths here are small")
}

/// A length, for which C libraries have different types.
fn length(bytes: impl TryInto<usize>) -> usize {
    bytes.try_into().unwrap_or(0)
}

fn family(number: i32) -> libc::sa_family_t {
    libc::sa_family_t::try_from(number).expect("families have small numbers")
}

fn address_of(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which address it is, and the storage has room and alignment
            // for each.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn write_address(name: &mut libc::sockaddr_storage, address: SocketAddr) -> libc::socklen_t {
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: the storage has room and alignment for every address, and its zeros are one.
            let name = unsafe { &mut *(&raw mut *name).cast::<libc::sockaddr_in>() };
            name.sin_family = family(libc::AF_INET);
            name.sin_port = address.port().to_be();
            name.sin_addr.s_addr = u32::from(*address.ip()).to_be();
            socklen(size_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let name = unsafe { &mut *(&raw mut *name).cast::<libc::sockaddr_in6>() };
            name.sin6_family = family(libc::AF_INET6);
            name.sin6_port = address.port().to_be();
            name.sin6_addr.s6_addr = address.ip().octets();
            name.sin6_flowinfo = address.flowinfo();
            name.sin6_scope_id = address.scope_id();
            socklen(size_of::<libc::sockaddr_in6>())
        }
    }
}

/// A control message's header: its length with the header, level and type (`cmsghdr`).
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// The local address in what the kernel wrote beside a datagram: the first message of either kind.
fn local_of(control: &[u8]) -> Option<IpAddr> {
    let number = |at: usize| {
        let bytes = control.get(at..at + 4)?;
        Some(i32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let level = number(size_of::<usize>())?;
    let kind = number(size_of::<usize>() + 4)?;
    let data = control.get(HEADER_BYTES..)?;
    match (level, kind) {
        // in_pktinfo: the interface, the local address, the one of the header.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let octets: [u8; 4] = data.get(4..8)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        // in6_pktinfo: the address, the interface.
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let octets: [u8; 16] = data.get(..16)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

/// Writes the address that a datagram is to come from; returns the length of the message.
///
/// The interface is left to the routing table.
fn write_local(control: &mut Control, local: IpAddr) -> usize {
    let (level, kind, data) = match local {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, 12),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20),
    };
    control.0 = [0; CONTROL_BYTES];
    let len = HEADER_BYTES + data;
    control.0[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
    control.0[size_of::<usize>()..][..4].copy_from_slice(&level.to_ne_bytes());
    control.0[size_of::<usize>() + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
    let payload = &mut control.0[HEADER_BYTES..];
    match local {
        IpAddr::V4(local) => payload[4..8].copy_from_slice(&local.octets()),
        IpAddr::V6(local) => payload[..16].copy_from_slice(&local.octets()),
    }
    // CMSG_SPACE: messages are padded to the word.
    len.next_multiple_of(size_of::<usize>())
}
