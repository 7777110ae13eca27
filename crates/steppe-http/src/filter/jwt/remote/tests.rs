//! When a set is fetched, and what becomes of the one before.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::time::Duration;

use steppe_mem::Budget;
use steppe_mem::alloc::{block_bytes, thread_block_bytes};
use steppe_testkit::virtual_time;
use tokio::task::{LocalSet, yield_now};

use super::*;
use crate::filter::jwt::keys::tests::rsa_jwk;
use crate::key_sets::KeySets;

fn set(cooldown: Duration) -> RemoteKeys {
    let source = JwksUrl {
        url: "http://issuer.example/".to_owned(),
        refresh: Duration::from_secs(300),
        cooldown,
        ca: None,
    };
    RemoteKeys::new("f", source, Budget::new(1 << 20).root())
}

/// A set with a key of use, and one of a kind that nobody knows.
fn rsa() -> String {
    format!(r#"{{"keys":[{},{{"kty":"new"}}]}}"#, rsa_jwk(""))
}

impl RemoteKeys {
    /// A fetch that began now has ended, without a set.
    pub(in crate::filter::jwt) fn land(&self) {
        drop(self.take_off(Instant::now()));
    }

    /// A fetch brought this set.
    pub(in crate::filter::jwt) fn learn(&self, text: &[u8]) {
        self.take(text.to_vec()).expect("a set");
    }
}

fn is_waiting(asked: &KeySetAnswer) -> bool {
    matches!(asked, KeySetAnswer::Wait(_))
}

#[test]
fn a_fetch_that_is_under_way_is_waited_for_and_another_is_not_begun_for_a_cooldown() {
    let (start, cooldown) = (Instant::now(), Duration::from_secs(30));
    let set = set(cooldown);
    // The first one, which the task begins with.
    assert!(is_waiting(&set.ask(0, start)));
    drop(set.take_off(start));
    let just_before = start
        + cooldown
            .checked_sub(Duration::from_nanos(1))
            .expect("longer");
    for cooling in [start, just_before] {
        assert!(matches!(set.ask(0, cooling), KeySetAnswer::Cooling));
    }
    assert!(!set.flight().is_under_way);
    assert!(is_waiting(&set.ask(0, start + cooldown)));
    assert!(set.flight().is_under_way);
    // Whoever comes now joins it.
    assert!(is_waiting(&set.ask(0, start)));
}

#[test]
fn no_more_wait_than_may() {
    let set = set(Duration::from_secs(1));
    let now = Instant::now();
    let mut waiting: Vec<_> = (0..JWKS_WAITERS_MAX).map(|_| set.ask(0, now)).collect();
    assert!(waiting.iter().all(is_waiting));
    assert!(matches!(set.ask(0, now), KeySetAnswer::Full));
    assert_eq!(set.report().waiting, JWKS_WAITERS_MAX);
    waiting.pop();
    assert!(is_waiting(&set.ask(0, now)));
    drop(waiting);
    assert_eq!(set.report().waiting, 0);
}

#[test]
fn a_set_that_is_the_same_is_not_another_and_one_of_no_use_changes_nothing() {
    let set = set(Duration::from_secs(1));
    assert_eq!(set.known().generation, 0);
    assert!(set.take(Vec::new()).is_err());
    assert_eq!(set.take(rsa().into()), Ok(true));
    assert_eq!((set.known().generation, set.report().keys), (1, 1));
    assert_eq!(set.take(rsa().into()), Ok(false));
    for wrong in [
        "",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":[]}"#,
        r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#,
    ] {
        assert!(set.take(wrong.into()).is_err(), "{wrong}");
    }
    let many = format!(r#"{{"keys":[{}]}}"#, vec![rsa_jwk(""); 65].join(","));
    assert!(set.take(many.into()).is_err());
    assert_eq!((set.known().generation, set.report().keys), (1, 1));
    assert_eq!(
        set.take(rsa().replace("AQAB\"},", "AQAC\"},").into()),
        Ok(true)
    );
    assert_eq!(set.known().generation, 2);
}

#[test]
fn a_set_is_that_of_its_filter_and_its_source() {
    let set = set(Duration::from_secs(1));
    assert_eq!(set.filter(), "f");
    let other = JwksUrl {
        url: "http://other.example/".to_owned(),
        ..set.source.clone()
    };
    assert!(set.is("f", &set.source));
    assert!(!set.is("g", &set.source) && !set.is("f", &other) && !set.is("g", &other));
    let shown = format!("{set:?}");
    assert_eq!(shown, "RemoteKeys { filter: \"f\", .. }");
}

#[test]
fn a_set_is_charged_with_what_its_keys_take_beside_its_text() {
    let budget = Budget::new(4 << 20);
    let set = RemoteKeys::new("f", set(Duration::ZERO).source, budget.root());
    let reserved = budget.root().reserved_bytes();
    let text = format!("{}{}", rsa(), " ".repeat(128 << 10)).into_bytes();
    let before = thread_block_bytes();
    let text_bytes = block_bytes(text.capacity());
    assert_eq!(set.take(text), Ok(true));
    let taken = thread_block_bytes() - before;
    let taken = usize::try_from(taken).expect("more") + text_bytes + JWT_KEY_BYTES;
    let charged = budget.root().reserved_bytes() - reserved;
    let charged = usize::try_from(charged).expect("a size");
    // The handle of the set is not measured.
    assert!(charged.abs_diff(taken) < 256, "{charged} of {taken}");
}

/// A set of small objects takes a hundred times its text while it is read, as do others.
#[test]
fn a_set_is_not_read_without_room_for_its_tree() {
    let budget = Budget::new(8 << 20);
    let set = RemoteKeys::new("f", set(Duration::ZERO).source, budget.root());
    let objects = vec!["{\"\":0}"; 30_000].join(",");
    let text = format!("{{\"keys\":[],\"more\":[{objects}]}}");
    assert!(text.len() < JWKS_BYTES_MAX);
    let refused = set.take(text.into_bytes());
    assert_eq!(refused, Err("no room in the memory budget".to_owned()));
}

/// A server that gives these answers, in order, and then never answers.
#[derive(Default)]
struct Server {
    answers: Mutex<VecDeque<Result<Vec<u8>, String>>>,
    asked: AtomicUsize,
    /// When it was asked last.
    asked_at: Mutex<Option<Instant>>,
}

impl FetchKeys for Server {
    fn fetch(&self, _: &JwksUrl, _: usize) -> LocalFuture<Result<Vec<u8>, String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        *self.asked_at.lock().expect("no panic") = Some(clock::now());
        let answer = self.answers.lock().expect("no panic").pop_front();
        Box::pin(async move {
            yield_now().await;
            match answer {
                Some(answer) => answer,
                None => pending().await,
            }
        })
    }
}

#[test]
fn a_set_is_fetched_at_once_and_again_when_a_request_asks() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().expect("a runtime");
    let answers = [Err("away".to_owned()), Ok(rsa().into()), Ok(rsa().into())];
    let server = Arc::new(Server {
        answers: Mutex::new(answers.into()),
        ..Server::default()
    });
    let fetch: Arc<dyn FetchKeys> = server.clone();
    let set = Arc::new(set(Duration::from_secs(30)));
    // No request of this test comes within a cooldown.
    let later = Instant::now() + Duration::from_secs(3600);
    let local = LocalSet::new();
    let mut task = local.spawn_local(Arc::clone(&set).keep_current(fetch));
    local.block_on(&runtime, async {
        let reports = [(0, 1, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1)];
        for (number, expected) in (1..).zip(reports) {
            let KeySetAnswer::Wait(mut wait) = set.ask(set.known().generation, later) else {
                panic!("it does not wait");
            };
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(wait.poll(&mut cx).is_pending());
            tokio::select! {
                () = poll_fn(|cx| wait.poll(cx)) => {}
                ended = &mut task => panic!("{ended:?}"),
            }
            // Until the next one asks, there is no other fetch.
            for _ in 0..10 {
                yield_now().await;
            }
            let report = set.report();
            let counts = (report.keys, report.failed, report.changed, report.unchanged);
            assert_eq!(counts, expected);
            assert_eq!(server.asked.load(Ordering::Relaxed), number);
            assert!(!set.flight().is_under_way);
        }
    });
}

#[test]
fn a_set_is_fetched_at_its_refresh_and_sooner_after_a_failure() {
    virtual_time::run(async {
        let away = || Err("away".to_owned());
        let answers = [away(), away(), Ok(rsa().into()), Ok(rsa().into()), away()];
        let server = Arc::new(Server {
            answers: Mutex::new(answers.into()),
            ..Server::default()
        });
        let fetch: Arc<dyn FetchKeys> = server.clone();
        let set = Arc::new(set(Duration::from_secs(30)));
        let began_at = clock::now();
        tokio::task::spawn_local(Arc::clone(&set).keep_current(fetch));
        let fetched = || {
            let asked_at = server.asked_at.lock().expect("no panic");
            let at = asked_at.expect("it was asked") - began_at;
            (server.asked.load(Ordering::Relaxed), at.as_secs())
        };
        let step = Duration::from_millis(10);
        // A cooldown after a failure, a refresh after a set.
        for (count, due) in (1..).zip([0, 30, 60, 360, 660, 690]) {
            if due > 0 {
                let just_before = Duration::from_secs(due) - step;
                virtual_time::pass(began_at + just_before - clock::now()).await;
                assert_eq!(fetched().0, count - 1, "not before {due}");
            }
            if [30, 60, 690].contains(&due) {
                let asked = set.ask(set.known().generation, clock::now());
                assert!(matches!(asked, KeySetAnswer::Cooling), "before {due}");
            }
            virtual_time::pass(2 * step).await;
            assert_eq!(fetched(), (count, due));
        }
        assert_eq!(set.report().failed, 3);
    });
}

#[test]
fn a_set_that_a_configuration_drops_is_neither_fetched_nor_waited_for() {
    virtual_time::run(async {
        let server = Arc::new(Server {
            answers: Mutex::new([Ok(rsa().into())].into()),
            ..Server::default()
        });
        let kept = KeySets::new(server.clone());
        let set = Arc::new(set(Duration::from_secs(10)));
        kept.replace(&[Arc::clone(&set)]);
        virtual_time::pass(Duration::from_secs(10)).await;
        let KeySetAnswer::Wait(mut wait) = set.ask(1, clock::now()) else {
            panic!("it has cooled");
        };
        virtual_time::settle().await;
        assert_eq!(server.asked.load(Ordering::Relaxed), 2);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(wait.poll(&mut cx).is_pending());
        kept.replace(&[]);
        assert!(wait.poll(&mut cx).is_ready());
        // For a cooldown, after which it would be asked for again.
        virtual_time::pass(Duration::from_secs(11)).await;
        assert!(matches!(set.ask(1, clock::now()), KeySetAnswer::Cooling));
        virtual_time::settle().await;
        assert_eq!(server.asked.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_state_that_is_new_is_tried_and_an_end_is_not_waited_for() {
    let (set, now) = (set(Duration::from_secs(30)), Instant::now());
    let KeySetAnswer::Wait(mut wait) = set.ask(0, now) else {
        panic!("it does not wait");
    };
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(wait.poll(&mut cx).is_pending());
    set.learn(rsa().as_bytes());
    assert!(matches!(set.ask(0, now), KeySetAnswer::Changed));
    assert!(is_waiting(&set.ask(1, now)));
    set.end();
    assert!(wait.poll(&mut cx).is_ready());
    assert!(matches!(set.ask(1, now), KeySetAnswer::Cooling));
}
