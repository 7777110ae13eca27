//! Ranges of stored responses.

use super::*;

const TAGGED: &str = "cache-control: max-age=3600\r\netag: \"v\"\r\ncontent-type: text/plain\r\n\
    content-digest: sha-256=:AA==:\r\nrepr-digest: sha-256=:AA==:\r\n";

fn with_stored(test: impl Fn(&Site)) {
    let answer = |request: &Message, _| match request.field("range") {
        None => ok(TAGGED, "0123456789"),
        Some(_) => response(
            "206 Partial Content",
            "content-range: bytes 0-1/10\r\n",
            "01",
        ),
    };
    with_each("", answer, |site| {
        site.get("/a");
        test(site);
        assert_eq!(site.asked("/a"), 1);
    });
}

#[test]
fn one_range_is_cut_out_of_what_is_stored() {
    with_stored(|site| {
        for (range, content, said) in [
            ("bytes=0-1", "01", "bytes 0-1/10"),
            ("bytes=8-", "89", "bytes 8-9/10"),
            ("bytes=-3", "789", "bytes 7-9/10"),
            ("bytes=2-999", "23456789", "bytes 2-9/10"),
        ] {
            let got = site.get_with("/a", [&format!("Range: {range}")]);
            assert_eq!(
                (got.head.status(), text(&got)),
                (206, content.into()),
                "{range}"
            );
            assert_eq!(got.head.field("content-range"), Some(said));
            let length = content.len().to_string();
            assert_eq!(got.head.field("content-length"), Some(&*length));
            // RFC 9530 §2, §3: of this message's content, and of the whole.
            assert_eq!(got.head.field("content-digest"), None);
            assert!(got.head.field("repr-digest").is_some());
            assert!(is_hit(&got));
        }
    });
}

#[test]
fn several_ranges_are_sent_as_one_content() {
    with_stored(|site| {
        let got = site.get_with("/a", ["Range: bytes=7-8,0-1"]);
        assert_eq!(got.head.status(), 206);
        let kind = got.head.field("content-type").expect("a type");
        let (_, boundary) = kind
            .split_once("multipart/byteranges; boundary=")
            .expect("one");
        let part = |range: &str, content: &str| {
            format!(
                "--{boundary}\r\ncontent-type: text/plain\r\ncontent-range: bytes {range}/10\r\n\r\n{content}\r\n"
            )
        };
        let want = part("7-8", "78") + &part("0-1", "01") + &format!("--{boundary}--\r\n");
        assert_eq!(text(&got), want);
    });
}

#[test]
fn a_range_beyond_the_end_is_refused() {
    with_stored(|site| {
        let got = site.get_with("/a", ["Range: bytes=10-"]);
        assert_eq!(got.head.status(), 416);
        assert_eq!(got.head.field("content-range"), Some("bytes */10"));
    });
}

#[test]
fn ranges_of_another_version_are_not_sent() {
    with_stored(|site| {
        let ask = |condition: &str| {
            let condition = format!("If-Range: {condition}");
            site.get_with("/a", ["Range: bytes=0-1", &condition])
                .head
                .status()
        };
        assert_eq!(
            (ask("\"v\""), ask("\"w\""), ask("W/\"v\"")),
            (206, 200, 200)
        );
        // An unreadable range requests the whole.
        assert_eq!(site.get_with("/a", ["Range: lines=0-1"]).head.status(), 200);
    });
}

#[test]
fn a_part_of_what_is_not_stored_is_its_servers_to_send() {
    let answer = |request: &Message, _| {
        let part = format!("{TAGGED}content-range: bytes 0-1/10\r\n");
        match request.field("range") {
            Some("bytes=0-1") => response("206 Partial Content", &part, "01"),
            _ => ok(TAGGED, "0123456789"),
        }
    };
    with_each("", answer, |site| {
        let got = site.get_with("/a", ["Range: bytes=0-1"]);
        assert_eq!((got.head.status(), text(&got)), (206, "01".into()));
        let whole = site.get("/a");
        assert_eq!((text(&whole), is_hit(&whole)), ("0123456789".into(), false));
        assert!(is_hit(&site.get_with("/a", ["Range: bytes=0-1"])));
    });
}
