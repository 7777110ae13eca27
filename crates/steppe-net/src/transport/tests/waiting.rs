//! Tasks that wait for budget, and what becomes of it when they stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use steppe_mem::{Budget, Reservation};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::super::*;

const READ_BYTES: usize = 4 << 10;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A transport with a byte to read, and what counts how often its task is woken.
struct Reader {
    transport: Transport,
    far: UnixStream,
    wakes: Arc<Wakes>,
    waker: Waker,
}

impl Reader {
    async fn new() -> Self {
        let (near, mut far) = UnixStream::pair().expect("descriptors");
        far.write_all(b"G").await.expect("room");
        let wakes = Arc::new(Wakes::default());
        let mut reader = Self {
            transport: Transport::new(Stream::Unix(near)),
            far,
            waker: Waker::from(Arc::clone(&wakes)),
            wakes,
        };
        std::future::poll_fn(|cx| reader.transport.inner.poll_readable(cx))
            .await
            .expect("it is open");
        reader
    }

    fn poll(&mut self, lease: &Lease) -> Poll<io::Result<Buffer>> {
        let mut cx = Context::from_waker(&self.waker);
        self.transport.poll_read(&mut cx, lease, READ_BYTES)
    }

    /// Polls as its runtime does: when it was woken.
    fn poll_if_woken(&mut self, lease: &Lease) -> Option<Poll<io::Result<Buffer>>> {
        let woken = self.wakes.0.swap(0, Ordering::Relaxed);
        assert!(woken <= 1, "woken {woken} times for one poll");
        (woken > 0).then(|| self.poll(lease))
    }
}

/// Runs `test` within a runtime, as sockets need one.
fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_io().build().expect("epoll").block_on(test);
}

/// A budget, all of which is reserved.
fn used_up() -> (Lease, Vec<Reservation>) {
    let lease = Budget::new(64 << 10).root().lease();
    let reserved = (0..16).map(|_| lease.try_reserve(READ_BYTES).expect("room"));
    let reserved = reserved.collect();
    (lease, reserved)
}

#[test]
fn who_waits_for_budget_is_polled_when_there_is_some_and_not_before() {
    run(async {
        let (lease, mut reserved) = used_up();
        let mut readers = Vec::new();
        for _ in 0..100 {
            let mut reader = Reader::new().await;
            assert!(reader.poll(&lease).is_pending());
            readers.push(reader);
        }
        // What the runtime has to tell is told.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let mut polls = 0;
        let mut rounds = 0;
        let mut read = Vec::new();
        while let Some(reservation) = reserved.pop() {
            for reader in &mut readers {
                polls += usize::from(reader.poll_if_woken(&lease).is_some());
            }
            assert_eq!(polls, rounds, "nobody is polled for nothing");
            drop(reservation);
            rounds += 1;
            let mut ready = readers.iter_mut().filter_map(|reader| {
                let polled = reader.poll_if_woken(&lease)?;
                polls += 1;
                Some(polled)
            });
            let polled = ready.next().expect("one is woken for what came back");
            let Poll::Ready(Ok(buffer)) = polled else {
                panic!("{polled:?}");
            };
            assert_eq!(buffer.filled(), b"G");
            assert!(ready.next().is_none(), "one, and no more");
            read.push(buffer);
        }
        assert_eq!(polls, 16);
    });
}

#[test]
fn who_waits_for_budget_sees_its_peer_close() {
    run(async {
        let (lease, _reserved) = used_up();
        let mut reader = Reader::new().await;
        assert!(reader.poll(&lease).is_pending());
        assert!(reader.transport.is_starved());
        reader.far.shutdown().await.expect("it is open");
        let closed = std::future::poll_fn(|cx| reader.transport.poll_read(cx, &lease, READ_BYTES));
        assert!(closed.await.is_err());
        assert_eq!(lease.account().waiting(), 0);
    });
}

#[test]
fn who_reads_no_more_keeps_no_bytes_from_others() {
    run(async {
        let (lease, mut reserved) = used_up();
        let mut first = Reader::new().await;
        let mut second = Reader::new().await;
        assert!(first.poll(&lease).is_pending());
        assert!(second.poll(&lease).is_pending());
        reserved.pop();
        assert_eq!(first.wakes.0.load(Ordering::Relaxed), 1, "it is its turn");
        let mut cx = Context::from_waker(Waker::noop());
        let discarded = first.transport.poll_read_into(&mut cx, &mut [0; 16]);
        assert!(matches!(discarded, Poll::Ready(Ok(1))), "{discarded:?}");
        assert!(second.poll(&lease).is_ready(), "the next has its turn");
    });
}
