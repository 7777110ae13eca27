//! Charges of what is sealed and not yet sent.

use std::task::{Context, Waker};

use steppe_mem::Reservation;

use super::*;

/// Both ends of a session that was agreed on, and the budget of both.
async fn agreed() -> (Transport, Transport, Budget) {
    let authority = Authority::new();
    let server = load(&authority.listener(&["a.example"]));
    let client = client(&authority.trust("a.example"));
    let budget = Budget::new(16 << 20);
    let (near, far) = agree(&server, &client, &budget).await;
    let ((mut near, _), (far, _)) = (near.expect("agrees"), far.expect("agrees"));
    let hello = read(&mut near, &budget).await.expect("open");
    assert_eq!(hello.filled(), b"hello");
    (near, far, budget)
}

fn try_write(transport: &mut Transport) -> Poll<io::Result<usize>> {
    let mut cx = Context::from_waker(Waker::noop());
    transport.poll_write(&mut cx, &[IoSlice::new(&[b'a'; 16 << 10])])
}

fn reserved(budget: &Budget) -> u64 {
    budget.root().reclaim();
    budget.root().reserved_bytes()
}

#[test]
fn what_is_sealed_and_not_sent_is_charged_until_it_is() {
    run(async {
        let (mut near, mut far, budget) = agreed().await;
        let before = reserved(&budget);
        let mut written = 0;
        while let Poll::Ready(count) = try_write(&mut near) {
            written += count.expect("open");
        }
        assert!(reserved(&budget) >= before + (16 << 10), "of {written}");
        let receive = async {
            let mut got = 0;
            while got < written {
                got += read(&mut far, &budget).await.expect("open").filled().len();
            }
        };
        let flush = poll_fn(|cx| near.poll_flush(cx));
        let (flushed, ()) = tokio::join!(flush, receive);
        flushed.expect("open");
        assert_eq!(reserved(&budget), before);
    });
}

/// All of the budget.
fn fill(budget: &Budget) -> Reservation {
    let free = budget.root().limit_bytes() - reserved(budget);
    let free = usize::try_from(free).expect("16 MiB at most");
    let all = budget.root().lease().try_reserve(free);
    all.expect("all of it is free")
}

async fn write_one(transport: &mut Transport) -> io::Result<usize> {
    poll_fn(|cx| transport.poll_write(cx, &[IoSlice::new(b"a")])).await
}

#[test]
fn nothing_is_sealed_while_the_budget_has_no_room() {
    run(async {
        let (mut near, _far, budget) = agreed().await;
        let all = fill(&budget);
        assert!(try_write(&mut near).is_pending());
        drop(all);
        assert_eq!(write_one(&mut near).await.expect("there is room"), 1);
    });
}

#[test]
fn a_peer_that_left_is_seen_while_the_budget_has_no_room() {
    run(async {
        let (mut near, far, budget) = agreed().await;
        drop(far);
        let _all = fill(&budget);
        let error = write_one(&mut near).await.expect_err("the peer has left");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}
