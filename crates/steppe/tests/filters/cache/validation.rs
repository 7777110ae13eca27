//! Validation of stored responses, and the use of stale ones.

use super::*;

/// Fields of a response that is stale on arrival, and has a validator.
const STALE: &str = "cache-control: max-age=10\r\nage: 10\r\netag: \"v\"\r\n";

#[test]
fn what_still_holds_is_served_with_the_fields_of_the_word_for_it() {
    let answer = |request: &Message, _| match request.field("if-none-match") {
        Some("\"v\"") => {
            let fields = "etag: \"v\"\r\ncache-control: max-age=3600\r\nx-new: 2\r\nx-old: 2\r\n";
            format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n")
        }
        _ => ok(&format!("{STALE}x-old: 1\r\nx-kept: 1\r\n"), "content"),
    };
    with_each("", answer, |site| {
        assert_eq!(site.get("/a").head.field("x-old"), Some("1"));
        let second = site.get("/a");
        assert_eq!(
            (second.head.status(), text(&second)),
            (200, "content".into())
        );
        for (name, value) in [("x-old", "2"), ("x-new", "2"), ("x-kept", "1")] {
            assert_eq!(second.head.field(name), Some(value), "{name}");
        }
        assert!(status_of(&second).contains("fwd-status=304"), "{second:?}");
        let third = site.get("/a");
        assert_eq!((text(&third), is_hit(&third)), ("content".into(), true));
        assert_eq!(third.head.field("x-new"), Some("2"));
        assert_eq!(site.asked("/a"), 2);
    });
}

/// RFC 9111 §4.3.4, §3: by its fields, what is stored may not be kept any longer.
#[test]
fn what_may_not_be_stored_any_longer_is_taken_out() {
    let answer = |request: &Message, _| match request.field("if-none-match") {
        Some("\"v\"") => {
            "HTTP/1.1 304 Not Modified\r\netag: \"v\"\r\ncache-control: private\r\n\r\n".to_owned()
        }
        _ => ok(STALE, "content"),
    };
    with_each("", answer, |site| {
        let control = |got: &CurlOutput| got.head.field("cache-control").map(str::to_owned);
        let first = site.get("/a");
        let kept = control(&first);
        let second = site.get("/a");
        assert_eq!(
            (text(&second), control(&second).as_deref()),
            ("content".into(), Some("private"))
        );
        // The next request is not one for a 304.
        let third = site.get("/a");
        assert_eq!((text(&third), control(&third)), ("content".into(), kept));
        assert_eq!(site.asked("/a"), 3);
    });
}

/// RFC 9111 §4.3.4: a 304 renews the response that its validators name, and no other.
#[test]
fn a_word_about_another_renews_nothing() {
    let (date, later) = (
        "last-modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "last-modified: Sun, 06 Nov 1994 08:49:38 GMT",
    );
    let (old, tag, weak) = (
        "cache-control: max-age=10\r\nage: 10\r\n",
        "etag: \"v\"",
        "etag: W/\"v\"",
    );
    for (stored, word, is_renewed) in [
        (tag, tag, true),
        (weak, weak, true),
        (weak, tag, true),
        (tag, "x-none: 1", true),
        (date, date, true),
        (tag, "etag: \"w\"", false),
        (tag, "etag: W/\"w\"", false),
        (weak, "etag: W/\"w\"", false),
        (date, later, false),
        (date, tag, false),
    ] {
        let answer = move |request: &Message, count: usize| {
            let is_asked = ["if-none-match", "if-modified-since"];
            match is_asked.iter().any(|name| request.field(name).is_some()) {
                true => format!("HTTP/1.1 304 Not Modified\r\n{word}\r\n{FRESH}\r\n"),
                false if count == 0 => ok(&format!("{old}{stored}\r\n"), "old"),
                false => ok(FRESH, "new"),
            }
        };
        with_each("", answer, |site| {
            assert_eq!(text(&site.get("/a")), "old");
            let want = if is_renewed { "old" } else { "new" };
            let row = format!("{stored}, then {word}");
            assert_eq!(text(&site.get("/a")), want, "{row}");
            let again = site.get("/a");
            assert_eq!((&*text(&again), is_hit(&again)), (want, true), "{row}");
            assert_eq!(site.asked("/a"), if is_renewed { 2 } else { 3 }, "{row}");
        });
    }
}

#[test]
fn a_word_without_a_date_is_of_when_it_came() {
    let answer = |request: &Message, _| match request.field("if-none-match") {
        Some(_) => "HTTP/1.1 304 Not Modified\r\netag: \"v\"\r\n\r\n".to_owned(),
        None => ok(
            "date: Sun, 06 Nov 1994 08:49:37 GMT\r\ncache-control: max-age=60\r\netag: \"v\"\r\n",
            "content",
        ),
    };
    with_each("", answer, |site| {
        site.get("/a");
        assert!(status_of(&site.get("/a")).contains("fwd-status=304"));
        assert!(is_hit(&site.get("/a")), "it is fresh again");
        assert_eq!(site.asked("/a"), 2);
    });
}

#[test]
fn what_does_not_hold_is_replaced() {
    let answer = |request: &Message, count: usize| match request.field("if-none-match") {
        Some(_) => ok(
            "cache-control: max-age=60\r\netag: \"w\"\r\n",
            &format!("new {count}"),
        ),
        None => ok(STALE, "old"),
    };
    with_each("", answer, |site| {
        site.get("/a");
        assert_eq!(text(&site.get("/a")), "new 1");
        let third = site.get("/a");
        assert_eq!((text(&third), is_hit(&third)), ("new 1".into(), true));
    });
}

#[test]
fn clients_learn_that_they_have_it_from_the_store() {
    let modified = "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let fields = format!("{FRESH}etag: \"v\"\r\n{modified}content-type: text/plain\r\n");
    let answer = move |request: &Message, _| {
        assert_eq!(
            request.field("if-none-match"),
            None,
            "it is the cache's to answer"
        );
        ok(&fields, "content")
    };
    with_each("", answer, |site| {
        let cold = site.get_with("/a", ["If-None-Match: \"v\""]);
        assert_eq!((cold.head.status(), cold.body.len()), (304, 0));
        for condition in [
            "If-None-Match: \"x\", W/\"v\"",
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            let got = site.get_with("/a", [condition]);
            assert_eq!((got.head.status(), got.body.len()), (304, 0), "{condition}");
            assert_eq!(got.head.field("etag"), Some("\"v\""));
            assert_eq!(got.head.field("content-type"), None);
        }
        for condition in [
            "If-None-Match: \"x\"",
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT",
        ] {
            let got = site.get_with("/a", [condition]);
            assert_eq!(
                (got.head.status(), is_hit(&got)),
                (200, true),
                "{condition}"
            );
        }
        assert_eq!(site.asked("/a"), 1);
    });
}

#[test]
fn what_is_stale_is_used_while_another_is_fetched() {
    let answer = |request: &Message, count: usize| {
        let stale = match request.target() {
            "/own" => "max-age=10, stale-while-revalidate=60",
            "/never" => "max-age=10, must-revalidate",
            _ => "max-age=10",
        };
        let fields = format!("cache-control: {stale}\r\nage: 10\r\netag: \"v\"\r\n");
        let is_first = request.field("if-none-match").is_none();
        ok(
            if is_first { &fields } else { FRESH },
            &format!("answer {count}"),
        )
    };
    with_each("stale_while_revalidate = \"30s\"", answer, |site| {
        for target in ["/own", "/default"] {
            let first = text(&site.get(target));
            let second = site.get(target);
            assert_eq!((text(&second), is_hit(&second)), (first, true), "{target}");
            steppe_testkit::eventually("another is stored", || {
                let got = site.get(target);
                is_hit(&got) && text(&got) != text(&second)
            });
        }
    });
    with_each("stale_while_revalidate = \"30s\"", answer, |site| {
        let (first, second) = (site.get("/never"), site.get("/never"));
        assert_ne!(text(&first), text(&second));
    });
}

#[test]
fn what_is_stale_stands_in_for_a_server_that_fails() {
    let answer = |request: &Message, count: usize| match (request.target(), count) {
        (_, 0) => ok(STALE, "old"),
        ("/503", _) => response("503 Service Unavailable", "", "sorry"),
        ("/404", _) => response("404 Not Found", "", "gone"),
        // Bytes that are no response.
        _ => "nonsense\r\n\r\n".into(),
    };
    for (target, stands_in) in [("/503", true), ("/broken", true), ("/404", false)] {
        with_each("stale_if_error = \"10m\"", answer, |site| {
            assert_eq!(text(&site.get(target)), "old");
            let got = site.get(target);
            assert_eq!(text(&got) == "old", stands_in, "{target}: {got:?}");
        });
    }
    with_each("", answer, |site| {
        site.get("/503");
        assert_eq!(site.get("/503").head.status(), 503);
        // The client allows it.
        let told = site.get_with("/503", ["Cache-Control: stale-if-error=600"]);
        assert_eq!(text(&told), "old");
    });
}

/// A refusal of one request is for one client; the stored response still replaces errors, for HEAD
/// as well.
#[test]
fn a_refusal_of_one_request_changes_nothing_for_others() {
    let answer = |request: &Message, count: usize| match count {
        0 => ok(STALE, "old"),
        _ if request.field("x-bad").is_some() => response("400 Bad Request", "", "you"),
        _ => response("503 Service Unavailable", "", "sorry"),
    };
    with_each("stale_if_error = \"10m\"", answer, |site| {
        assert_eq!(text(&site.get("/a")), "old");
        let bad = site.get_with("/a", ["X-Bad: 1", "Cache-Control: no-cache"]);
        assert_eq!(bad.head.status(), 400);
        assert_eq!(text(&site.get("/a")), "old");
        let head = site.curl("/a").args(["--head"]).run();
        assert_eq!((head.exit, head.head.status()), (0, 200), "{head:?}");
    });
    // A refusal does not keep a later response from being stored, either.
    let answer = |request: &Message, _| match request.field("x-bad") {
        Some(_) => response("400 Bad Request", "", "you"),
        None => ok(FRESH, "good"),
    };
    with_each("", answer, |site| {
        assert_eq!(site.get_with("/a", ["X-Bad: 1"]).head.status(), 400);
        assert_eq!(text(&site.get("/a")), "good");
        assert!(is_hit(&site.get("/a")));
    });
}

#[test]
fn what_the_server_keeps_from_others_takes_the_place_of_what_is_stored() {
    let answer = |_: &Message, count: usize| match count {
        0 => ok(STALE, "old"),
        1 => ok("cache-control: private\r\n", "yours"),
        _ => response("503 Service Unavailable", "", "sorry"),
    };
    with_each("stale_if_error = \"10m\"", answer, |site| {
        assert_eq!(text(&site.get("/a")), "old");
        assert_eq!(text(&site.get("/a")), "yours");
        assert_eq!(site.get("/a").head.status(), 503);
        let stored = site.node.metrics().sum("steppe_http_cache_responses", &[]);
        assert_eq!(stored, 0.0);
    });
}

/// Served stale by the settings alone: the response came stale and has no validator.
#[test]
fn what_came_stale_stands_in_where_the_settings_say_so() {
    let answer = |_: &Message, count: usize| match count {
        0 => ok("cache-control: max-age=10\r\nage: 10\r\n", "old"),
        _ => response("503 Service Unavailable", "", "sorry"),
    };
    with_each("stale_if_error = \"10m\"", answer, |site| {
        assert_eq!(text(&site.get("/a")), "old");
        assert_eq!(text(&site.get("/a")), "old");
    });
}

#[test]
fn a_server_that_is_not_there_is_stood_in_for() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let origin = RawOrigin::start(|peer| {
            if peer.index == 0 && peer.request().is_some() {
                peer.send(ok(STALE, "old"));
            }
            // Every other connection ends without a response.
        });
        let site = Site::start(origin, protocol, "stale_if_error = \"10m\"", "");
        assert_eq!(text(&site.get("/a")), "old");
        for _ in 0..2 {
            let got = site.get("/a");
            assert_eq!(
                (got.head.status(), text(&got)),
                (200, "old".into()),
                "{got:?}"
            );
        }
    }
}
