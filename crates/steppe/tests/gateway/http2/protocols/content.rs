//! Content both ways, and responses that have none.

use steppe_testkit::Head;

use super::*;

#[test]
fn responses_come_whole() {
    let big = content(MEGABYTE);
    with_pairs("responses_come_whole", |pair| {
        let got = pair.get("/big");
        assert!(got.body == big, "{} bytes", got.body.len());
        assert_eq!(got.head.field("content-length"), Some("1000000"));
        let got = pair.get("/endless");
        assert!(got.body == big, "{} bytes", got.body.len());
        assert_eq!(got.head.field("content-length"), None);
    });
}

#[test]
fn content_of_a_known_length_arrives() {
    let sent = content(MEGABYTE);
    with_pairs("content_of_a_known_length_arrives", |pair| {
        let data = format!("@{}", pair.site.file("sent", &sent).display());
        let curl = pair
            .curl("/")
            .args(["-H", "Expect:", "--data-binary", &data]);
        let seen = pair.seen(curl);
        seen.expect_content(&sent);
        assert_eq!(seen.text("method"), "POST");
        assert_eq!(seen.all("content-length"), ["1000000"]);
        assert!(seen.all("transfer-encoding").is_empty());
    });
}

/// Content that is ended by the last chunk or the last frame alone.
#[test]
fn content_of_unknown_length_arrives() {
    let sent = content(MEGABYTE);
    with_pairs("content_of_unknown_length_arrives", |pair| {
        let file = pair.site.file("sent", &sent);
        let curl = pair
            .curl("/")
            .args(["-H", "Expect:", "-T", "-", "-X", "POST"]);
        let seen = pair.seen(curl.input(&file));
        seen.expect_content(&sent);
        assert!(seen.all("content-length").is_empty());
        let codings: &[&str] = if pair.up.is_http2() {
            &[]
        } else {
            &["chunked"]
        };
        assert_eq!(seen.all("transfer-encoding"), codings);
    });
}

/// curl sends no content before 100 (Continue): without that it would wait longer than the test may take.
#[test]
fn content_waits_for_the_word_to_continue() {
    let sent = content(MEGABYTE);
    with_pairs("content_waits_for_the_word_to_continue", |pair| {
        let data = format!("@{}", pair.site.file("sent", &sent).display());
        let curl = pair
            .curl("/continue")
            .args(["-H", "Expect: 100-continue", "--expect100-timeout", "600"])
            .args(["--data-binary", &data]);
        let got = pair.run(curl);
        assert_eq!(got.head.status(), 200, "{got:?}");
        let seen = Seen::parse(&got.body);
        seen.expect_content(&sent);
        let statuses: Vec<u16> = got.heads.iter().map(|head| head.status()).collect();
        assert_eq!(statuses, [100, 200]);
    });
}

/// A response to HEAD has the length of that to GET.
#[test]
fn heads_have_no_content() {
    with_pairs("heads_have_no_content", |pair| {
        let urls = if pair.down == Downstream::H2c { 1 } else { 2 };
        let mut curl = pair.curl("/big").args(["--head", "-v"]);
        // The connection can be reused: it carries no byte of content. But curl of Debian 12 cannot do that with any
        // server of h2c (curl's issue 10634).
        if urls == 2 {
            curl = curl.args(["-o", "/dev/null", &pair.url("/big")]);
        }
        let got = curl.run();
        assert_eq!(got.exit, 0, "{}", got.errors);
        let told = |head: &Head| {
            (
                head.status(),
                head.field("content-length") == Some("1000000"),
            )
        };
        let told: Vec<_> = got.heads.iter().map(told).collect();
        assert_eq!(told, vec![(200, true); urls]);
        let connections = got.errors.matches("* Connected to").count();
        assert_eq!(connections, 1, "{}", got.errors);
    });
}

#[test]
fn some_statuses_have_no_content() {
    with_pairs("some_statuses_have_no_content", |pair| {
        let got = pair.get("/nocontent");
        assert_eq!((got.head.status(), got.body.len()), (204, 0));
        assert_eq!(got.head.field("content-length"), None);
        let curl = pair.curl("/notmodified");
        let got = pair.run(curl.args(["-H", "If-None-Match: \"one\""]));
        assert_eq!((got.head.status(), got.body.len()), (304, 0));
        assert_eq!(got.head.field("etag"), Some("\"one\""));
        let got = pair.get("/notmodified");
        assert_eq!((got.head.status(), &*got.body), (200, &b"one"[..]));
    });
}

#[test]
fn trailers_of_a_response_arrive() {
    with_pairs("trailers_of_a_response_arrive", |pair| {
        let expected = [("x-digest", "abc"), ("x-count", "2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut curl = pair.curl("/trailers").args(["-H", "TE: trailers"]);
        if !pair.down.is_http2() {
            curl = curl.args(["-H", "Connection: TE"]);
        }
        let got = pair.run(curl);
        assert_eq!(got.body, b"with trailers");
        let mut trailers = got.trailers;
        trailers.sort_by(|one, other| other.cmp(one));
        assert_eq!(trailers, expected, "{:?}", got.head);
        let got = pair.node_js("GET", "/trailers", ["{}", "{}", "null"]);
        assert_eq!(got["text"], "with trailers");
        assert_eq!(got["trailers"]["x-digest"], "abc", "{got}");
        assert_eq!(got["trailers"]["x-count"], "2", "{got}");
    });
}

#[test]
fn trailers_of_a_request_arrive() {
    with_pairs("trailers_of_a_request_arrive", |pair| {
        let trailers = r#"{"x-digest": "abc", "authorization": "Basic YQ==", "x-count": "2"}"#;
        let got = pair.node_js("POST", "/", ["{}", trailers, "\"content\""]);
        assert_eq!(got["status"], 200, "{got}");
        let seen = Seen::parse(got["text"].as_str().unwrap_or_default().as_bytes());
        seen.expect_content(b"content");
        assert_eq!(seen.0["trailers"]["x-digest"], "abc", "{}", seen.0);
        assert_eq!(seen.0["trailers"]["x-count"], "2", "{}", seen.0);
        // RFC 9110 §6.5.1: credentials are in the head alone.
        assert!(seen.0["trailers"]["authorization"].is_null(), "{}", seen.0);
    });
}
