//! Holds every packet of a network namespace for a while, where the kernel has no netem.
//!
//! The kernel's filter puts packets into a queue (`NFQUEUE`), sends the number of each to this
//! process, and releases it on a verdict: linux/netfilter/nfnetlink_queue.h.
//!
//! Invariant: packets leave in the order in which they came. One whose queue is closed is lost, as
//! on any line; TCP sends it again.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A queue and the thread that serves it.
#[derive(Debug)]
pub(crate) struct DelayQueue {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DelayQueue {
    /// Serves queue 0 of the namespace `name`.
    ///
    /// # Panics
    /// When the kernel has no such queues.
    pub(crate) fn start(name: &str, delay: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let namespace = File::open(format!("/run/netns/{name}")).expect("the namespace is there");
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::spawn(move || {
            // The namespace is this thread's alone, and the thread ends soon.
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may");
            let socket = open().expect("the kernel has queues of packets");
            let _ = ready.send(());
            serve(&socket, delay, &is_over);
        });
        is_ready.recv().expect("the queue is open");
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for DelayQueue {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Resolution of a delay.
const TICK: Duration = Duration::from_millis(2);

const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = SUBSYSTEM;
const CONFIG: u16 = SUBSYSTEM | 2;
/// A verdict on all packets up to a number.
const VERDICTS: u16 = SUBSYSTEM | 3;

fn open() -> rustix::io::Result<OwnedFd> {
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::RAW, flags, Some(NETFILTER))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TICK))?;
    const BIND: &[u8] = &[1, 0, 0, 0];
    tell(&socket, CONFIG, 1, BIND)?;
    // Numbers alone, no bytes of the packet.
    const META: &[u8] = &[0, 0, 0, 0, 1];
    tell(&socket, CONFIG, 2, META)?;
    const LENGTH_MAX: &[u8] = &65_536_u32.to_be_bytes();
    tell(&socket, CONFIG, 3, LENGTH_MAX)?;
    Ok(socket)
}

/// Sends a message with one attribute.
fn tell(socket: &OwnedFd, kind: u16, attribute: u16, value: &[u8]) -> rustix::io::Result<()> {
    const REQUEST: u16 = 1;
    let padded = value.len().next_multiple_of(4);
    let mut message = Vec::new();
    let length = 16 + 4 + 4 + padded;
    message.extend(u32::try_from(length).expect("short").to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // No sequence, to the kernel; any family of addresses, version 0, queue 0.
    message.extend([0; 12]);
    let attribute_length = u16::try_from(4 + value.len()).expect("short");
    message.extend(attribute_length.to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(length, 0);
    send(socket, &message, SendFlags::empty()).map(drop)
}

fn serve(socket: &OwnedFd, delay: Duration, is_over: &AtomicBool) {
    let mut waiting: VecDeque<(Instant, u32)> = VecDeque::new();
    let mut room = vec![0; 64 << 10];
    while !is_over.load(Ordering::Acquire) {
        match recv(socket, &mut room[..], RecvFlags::empty()) {
            Ok((length, _)) => {
                let due = Instant::now() + delay;
                waiting.extend(numbers(&room[..length]).map(|number| (due, number)));
            }
            // Nothing came, or more than there was room for: the kernel drops that.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => {}
            Err(error) => panic!("a queue of packets fails: {error}"),
        }
        release(socket, &mut waiting);
    }
}

/// Releases the packets that are due.
fn release(socket: &OwnedFd, waiting: &mut VecDeque<(Instant, u32)>) {
    const ACCEPT: u32 = 1;
    let now = Instant::now();
    let due = waiting.iter().take_while(|(due, _)| *due <= now).count();
    let Some((_, last)) = waiting.drain(..due).next_back() else {
        return;
    };
    let verdict = [ACCEPT.to_be_bytes(), last.to_be_bytes()].concat();
    tell(socket, VERDICTS, 2, &verdict).expect("the kernel takes verdicts");
}

/// The numbers of the packets that messages are about.
fn numbers(mut messages: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        loop {
            let (length, kind) = (word(messages, 0)?, half(messages, 4)?);
            let length = usize::try_from(length).ok()?.max(16);
            let message = messages.get(..length)?;
            messages = messages
                .get(length.next_multiple_of(4)..)
                .unwrap_or_default();
            if kind == PACKET {
                return packet_number(&message[16..]);
            }
        }
    })
}

/// The number in a message: in an attribute, after four bytes of family, version and queue.
fn packet_number(message: &[u8]) -> Option<u32> {
    const HEADER: u16 = 1;
    let mut attributes = message.get(4..)?;
    loop {
        let length = usize::from(half(attributes, 0)?).max(4);
        if half(attributes, 2)? == HEADER {
            let number = attributes.get(4..8)?;
            return Some(u32::from_be_bytes(number.try_into().ok()?));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let half = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(half.try_into().ok()?))
}
