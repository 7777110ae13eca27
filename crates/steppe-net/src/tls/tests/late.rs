//! Handshakes that take too long, in virtual time.

use steppe_testkit::virtual_time;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::clock;

#[test]
fn a_client_that_does_not_go_on_is_given_up_at_the_deadline() {
    virtual_time::run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example"]));
        let deadlines = Deadlines::default();
        let sweeping = deadlines.clone();
        tokio::task::spawn_local(async move { sweeping.run().await });
        let allowed = Duration::from_secs(10);
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let slots = Handshakes::new(Rc::default());
        // Nothing, and the beginning of a ClientHello, of which one byte comes after the other.
        for hello in [&b""[..], b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03"] {
            let (near, mut far) = UnixStream::pair().expect("descriptors");
            let deadline = deadlines.add();
            let slot = slots.begin(LIMITS, Ipv4Addr::LOCALHOST.into());
            let accepting = Accepting {
                tls: &server,
                slot: &slot,
                deadline: &deadline,
                timeout: allowed,
                lease: &lease,
                to_plain_http: b"",
            };
            let began_at = clock::now();
            let accepted = async {
                let near = Transport::new(Stream::Unix(near));
                let accepted = accepting.accept(near, None).await;
                (accepted.map(drop), clock::now() - began_at)
            };
            let dripping = async {
                for &byte in hello {
                    far.write_all(&[byte]).await.expect("it reads");
                    virtual_time::pass(Duration::from_millis(900)).await;
                }
                virtual_time::pass(allowed + Duration::from_secs(1)).await;
            };
            let ((accepted, took), ()) = tokio::join!(accepted, dripping);
            assert!(
                matches!(accepted, Err(HandshakeError::Timeout)),
                "{accepted:?}"
            );
            let late = allowed + Duration::from_millis(60);
            assert!((allowed..=late).contains(&took), "{took:?}");
        }
    });
}

/// A drain sets its deadline while it waits for another one: that holds, whether it begins in time or not.
#[test]
fn a_handshake_that_waits_is_given_up_at_a_deadline_that_is_set_meanwhile() {
    const GRACE: Duration = Duration::from_secs(1);
    virtual_time::run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example"]));
        let deadlines = Deadlines::default();
        let sweeping = deadlines.clone();
        tokio::task::spawn_local(async move { sweeping.run().await });
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        for begins_after in [GRACE / 2, GRACE * 60] {
            let slots = Handshakes::new(Rc::default());
            let one = HandshakeLimits {
                count_max: 1,
                ..LIMITS
            };
            let first = slots.begin(one, Ipv4Addr::LOCALHOST.into());
            let first = tokio::task::spawn_local(async move {
                tokio::time::sleep(begins_after).await;
                drop(first);
            });
            let slot = slots.begin(one, Ipv4Addr::LOCALHOST.into());
            let (near, _far) = UnixStream::pair().expect("descriptors");
            let deadline = deadlines.add();
            let accepting = Accepting {
                tls: &server,
                slot: &slot,
                deadline: &deadline,
                timeout: GRACE * 600,
                lease: &lease,
                to_plain_http: b"",
            };
            let began_at = clock::now();
            let draining = async {
                virtual_time::settle().await;
                deadline.set(began_at, GRACE);
                virtual_time::pass(GRACE * 3).await;
            };
            let accepted = async {
                let near = Transport::new(Stream::Unix(near));
                let accepted = tokio::time::timeout(GRACE * 2, accepting.accept(near, None));
                let accepted = accepted.await.expect("it ends with the grace");
                (accepted.map(drop), clock::now() - began_at)
            };
            let ((accepted, took), ()) = tokio::join!(accepted, draining);
            assert!(
                matches!(accepted, Err(HandshakeError::Timeout)),
                "{accepted:?}"
            );
            let late = GRACE + Duration::from_millis(60);
            assert!((GRACE..=late).contains(&took), "{took:?}");
            first.abort();
        }
    });
}
