//! Responses that arrive in parts, or are never complete: the server sends each part when the test
//! allows it.

use steppe_testkit::eventually;

use super::*;

#[test]
fn events_come_one_by_one() {
    with_pairs("events_come_one_by_one", |pair| {
        let word = pair.word("events");
        let run = pair.curl(&format!("/events?{word}")).start();
        let mut expected = String::new();
        for number in 1..=3 {
            expected += &format!("data: {number}\n\n");
            // The server has not even made the next one.
            eventually("an event comes", || {
                run.so_far().body == expected.as_bytes()
            });
            pair.site.go(&word);
        }
        let got = run.finish();
        assert_eq!(got.exit, 0, "{}", got.errors);
        assert_eq!(got.head.field("content-type"), Some("text/event-stream"));
        assert_eq!(got.body, expected.as_bytes());
    });
}

#[test]
fn early_hints_come_early() {
    with_pairs("early_hints_come_early", |pair| {
        let word = pair.word("early");
        let run = pair.curl(&format!("/early?{word}")).start();
        eventually("hints come", || run.so_far().heads.len() == 1);
        let hints = run.so_far().head;
        assert_eq!(hints.status(), 103);
        let link = hints.field("link");
        assert_eq!(link, Some("</a.css>; rel=preload; as=style"));
        pair.site.go(&word);
        let got = run.finish();
        assert_eq!((got.exit, got.head.status()), (0, 200), "{}", got.errors);
        assert_eq!((got.heads.len(), &*got.body), (2, &b"late"[..]));
    });
}

/// A cut response is not complete for the client, with or without a length.
#[test]
fn a_response_that_is_cut_is_an_error() {
    with_pairs("a_response_that_is_cut_is_an_error", |pair| {
        for path in ["/reset-known", "/reset-unknown"] {
            let word = pair.word(&path[1..]);
            let run = pair.curl(&format!("{path}?{word}")).start();
            eventually("it begins", || run.so_far().body.len() == 1_000);
            pair.site.go(&word);
            let got = run.finish();
            assert_eq!(got.head.status(), 200, "{path}");
            // curl's exit codes for the early end of a connection (18, 56), and of a stream (92).
            assert!([18, 56, 92].contains(&got.exit), "{path}: {got:?}");
        }
        // Other exchanges are served.
        assert_eq!(pair.get("/").head.status(), 200);
    });
}
