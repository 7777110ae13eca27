//! Sockets whose peers leave, budgets that run out, and buffers that arrive filled.

mod waiting;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Waker;
use std::time::Duration;

use socket2::SockRef;
use steppe_mem::Budget;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Runs `test` within a runtime, and gives up on one that hangs.
fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("epoll");
    runtime.block_on(async {
        tokio::select! {
            // First: to be polled once more is what some that hang wait for.
            biased;
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it hangs"),
            () = test => {}
        }
    });
}

/// A transport and its peer.
async fn pair() -> (Transport, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    let (near, far) = tokio::join!(Stream::connect_tcp(address), listener.accept());
    (
        Transport::new(near.expect("connects")),
        far.expect("accepts").0,
    )
}

/// Waits until the runtime knows that something came.
async fn readable(transport: &mut Transport) {
    poll_fn(|cx| match transport.is_quiet(cx) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn memory_is_taken_when_there_is_something_to_read() {
    run(async {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let (mut transport, mut far) = pair().await;
        assert!(transport.poll_read(&mut noop(), &lease, 100).is_pending());
        assert_eq!(budget.root().reserved_bytes(), 0);
        assert!(!transport.is_starved() && transport.is_quiet(&mut noop()));
        far.write_all(b"hello").await.expect("room");
        readable(&mut transport).await;
        let read = transport.poll_read(&mut noop(), &lease, 100);
        let Poll::Ready(Ok(mut buffer)) = read else {
            panic!("{read:?}")
        };
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"hello"[..], 1024));
        let more = transport.poll_read_more(&mut noop(), &mut buffer, 1 << 20);
        assert!(more.is_pending());
        assert_eq!(budget.root().reserved_bytes(), 1024);
        assert!(transport.is_quiet(&mut noop()));
        drop(far);
        readable(&mut transport).await;
        let more = poll_fn(|cx| transport.poll_read_more(cx, &mut buffer, 1 << 20));
        assert_eq!(more.await.expect("the end"), 0);
    });
}

#[test]
fn a_buffer_grows_as_far_as_it_may() {
    run(async {
        let budget = Budget::new(1 << 20);
        let (mut transport, mut far) = pair().await;
        far.write_all(&[1; 20_000]).await.expect("room");
        let mut buffer = Buffer::take(&budget.root().lease(), 1).expect("room");
        while buffer.len() < 20_000 {
            let more = poll_fn(|cx| transport.poll_read_more(cx, &mut buffer, 16 << 10)).await;
            assert_ne!(more.expect("bytes"), 0);
            if buffer.len() == 16 << 10 {
                break;
            }
        }
        assert_eq!((buffer.len(), buffer.capacity()), (16 << 10, 16 << 10));
        buffer.consume(10_000);
        while buffer.len() < 10_000 {
            let more = poll_fn(|cx| transport.poll_read_more(cx, &mut buffer, 16 << 10)).await;
            assert_ne!(more.expect("bytes"), 0);
        }
        assert_eq!(
            buffer.capacity(),
            16 << 10,
            "it had room once it was compact"
        );
    });
}

#[test]
fn a_starved_read_notices_that_its_peer_is_gone() {
    for end in [PeerEnd::Close, PeerEnd::Reset] {
        for read in [Read::First, Read::More] {
            run(starve(end, read));
        }
    }
}

/// A peer's way to end a connection.
#[derive(Clone, Copy, PartialEq)]
enum PeerEnd {
    Close,
    Reset,
}

/// A read into a fresh buffer, or behind what one holds.
#[derive(Clone, Copy, PartialEq)]
enum Read {
    First,
    More,
}

async fn starve(end: PeerEnd, kind: Read) {
    let budget = Budget::new(4096);
    let lease = budget.root().lease();
    let mut held = Buffer::take(&lease, 4096).expect("room");
    held.put(&[0; 4096]).expect("room");
    let (mut transport, mut far) = pair().await;
    far.write_all(b"unread").await.expect("room");
    readable(&mut transport).await;
    let mut read = |cx: &mut Context<'_>| {
        let result = if kind == Read::More {
            ready!(transport.poll_read_more(cx, &mut held, 8192)).map(|_| ())
        } else {
            ready!(transport.poll_read(cx, &lease, 1)).map(|_| ())
        };
        Poll::Ready(result)
    };
    assert!(read(&mut noop()).is_pending());
    assert_eq!(budget.root().waiting(), 1);
    if end == PeerEnd::Reset {
        let none = Some(Duration::ZERO);
        SockRef::from(&far).set_linger(none).expect("a socket");
    }
    drop(far);
    let error = poll_fn(read).await.expect_err("it is gone");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert!(transport.is_starved());
    assert_eq!(budget.root().waiting(), 0, "it waits for nothing any more");
}

#[test]
fn a_starved_read_goes_on_with_the_budget() {
    run(async {
        let budget = Budget::new(4096);
        let lease = budget.root().lease();
        let held = Buffer::take(&lease, 4096).expect("room");
        let (mut transport, mut far) = pair().await;
        far.write_all(b"hello").await.expect("room");
        readable(&mut transport).await;
        assert!(transport.poll_read(&mut noop(), &lease, 4096).is_pending());
        assert!(transport.is_starved());
        drop(held);
        let buffer = poll_fn(|cx| transport.poll_read(cx, &lease, 4096)).await;
        assert_eq!(buffer.expect("bytes").filled(), b"hello");
        assert!(!transport.is_starved());
    });
}

#[test]
fn a_close_is_seen_behind_bytes_that_are_unread() {
    run(async {
        let (mut transport, mut far) = pair().await;
        far.write_all(b"unread").await.expect("room");
        readable(&mut transport).await;
        assert!(transport.poll_closed(&mut noop()).is_pending());
        far.shutdown().await.expect("open");
        poll_fn(|cx| transport.poll_closed(cx)).await;
        let mut room = [0; 16];
        let read = poll_fn(|cx| transport.poll_read_into(cx, &mut room)).await;
        assert_eq!(read.expect("they are still there"), 6);
    });
}

/// Buffers that arrived filled.
#[derive(Debug, Default)]
struct Arrived(VecDeque<Buffer>);

impl Driver for Arrived {
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0.is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn take_filled(&mut self, lease: &Lease) -> Option<Buffer> {
        self.0.front_mut()?.charge_to(lease).ok()?;
        self.0.pop_front()
    }

    fn poll_read(&mut self, _: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let buffer = self.0.front_mut().expect("it was readable");
        let count = buffer.len().min(room.len());
        room[..count].copy_from_slice(&buffer.filled()[..count]);
        buffer.consume(count);
        if buffer.is_empty() {
            self.0.pop_front();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

#[test]
fn what_arrived_filled_is_handed_over_or_waits_for_room() {
    let budget = Budget::new(1 << 20);
    let ring = budget.root().child("ring", None);
    let route = budget.root().child("route", Some(8192));
    let lease = route.lease();
    let filled = |bytes: usize| {
        let mut buffer = Buffer::take(&ring.lease(), bytes).expect("room");
        buffer.put(&vec![7; bytes]).expect("room");
        buffer
    };
    let arrived = Arrived([filled(4096), filled(8192)].into());
    let mut transport = Transport::with_driver(Box::new(arrived));
    let Poll::Ready(Ok(first)) = transport.poll_read(&mut noop(), &lease, 4096) else {
        panic!("it is there")
    };
    assert_eq!((first.len(), route.reserved_bytes()), (4096, 4096));
    assert_eq!(ring.reserved_bytes(), 8192, "its charge moved");
    // There is no room for the next as it is, and some to copy from it.
    let Poll::Ready(Ok(second)) = transport.poll_read(&mut noop(), &lease, 4096) else {
        panic!("it is there")
    };
    assert_eq!((second.len(), route.reserved_bytes()), (4096, 8192));
    assert!(transport.poll_read(&mut noop(), &lease, 4096).is_pending());
    assert!(transport.is_starved());
    assert_eq!(route.waiting(), 1);
    drop((first, second));
    let Poll::Ready(Ok(third)) = transport.poll_read(&mut noop(), &lease, 4096) else {
        panic!("there is room")
    };
    assert_eq!(third.len(), 4096);
    assert!(!transport.is_starved());
    drop(third);
    assert_eq!((route.waiting(), route.reserved_bytes()), (0, 0));
    assert_eq!(ring.reserved_bytes(), 0);
    assert!(transport.is_quiet(&mut noop()));
}

#[test]
fn what_arrived_filled_gives_back_what_was_drawn_for_it() {
    let budget = Budget::new(1 << 20);
    let route = budget.root().child("route", Some(8192));
    let lease = route.lease();
    let held = Buffer::take(&lease, 8192).expect("room");
    let ring = budget.root().child("ring", None);
    let mut filled = Buffer::take(&ring.lease(), 4096).expect("room");
    filled.put(b"hello").expect("room");
    let mut transport = Transport::with_driver(Box::new(Arrived([filled].into())));
    assert!(transport.poll_read(&mut noop(), &lease, 4096).is_pending());
    drop(held);
    let Poll::Ready(Ok(read)) = transport.poll_read(&mut noop(), &lease, 4096) else {
        panic!("there is room")
    };
    assert_eq!(
        (read.filled(), route.reserved_bytes()),
        (&b"hello"[..], 4096)
    );
    // Both halves: the one that was drawn for the wait is free again.
    drop(read);
    assert_eq!((route.reserved_bytes(), ring.reserved_bytes()), (0, 0));
    Buffer::take(&lease, 8192).expect("all of it is free");
}

#[test]
fn a_write_does_not_hide_from_a_starved_read_that_its_peer_left() {
    run(async {
        let budget = Budget::new(4096);
        let lease = budget.root().lease();
        let _held = Buffer::take(&lease, 4096).expect("room");
        let (mut transport, mut far) = pair().await;
        far.write_all(b"unread").await.expect("room");
        readable(&mut transport).await;
        let mut far = Some(far);
        let error = poll_fn(|cx| {
            // One task polls both ways; nothing but the close wakes it again.
            let read = ready_or(transport.poll_read(cx, &lease, 4096), || {
                let slices = [IoSlice::new(b"response")];
                assert!(transport.poll_write(cx, &slices).is_ready());
            });
            far.take();
            read
        });
        let error = error.await.expect_err("it is gone");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

/// Returns what is ready; where nothing is, does something first.
fn ready_or<T>(polled: Poll<T>, before: impl FnOnce()) -> Poll<T> {
    if polled.is_pending() {
        before();
    }
    polled
}

#[test]
fn a_peer_that_has_closed_may_be_asked_for_again() {
    run(async {
        let (mut transport, mut far) = pair().await;
        far.write_all(b"unread").await.expect("room");
        readable(&mut transport).await;
        let mut cx = Context::from_waker(Waker::noop());
        assert!(transport.poll_closed(&mut cx).is_pending());
        far.shutdown().await.expect("it is open");
        poll_fn(|cx| transport.poll_closed(cx)).await;
        // A write finds the watch over, a shutdown too; each is asked again after it.
        for _ in 0..2 {
            assert!(transport.poll_closed(&mut cx).is_ready());
            let slices = [IoSlice::new(b"response")];
            assert!(transport.poll_write(&mut cx, &slices).is_ready());
            assert!(transport.poll_closed(&mut cx).is_ready());
            assert!(transport.poll_shutdown(&mut cx).is_ready());
            assert!(transport.poll_closed(&mut cx).is_ready());
        }
    });
}
