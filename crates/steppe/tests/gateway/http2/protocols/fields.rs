//! Requests and responses as the other side receives them: targets, hosts, fields, and the node's own answers.

use super::*;

#[test]
fn requests_arrive_as_they_were_sent() {
    with_pairs("requests_arrive_as_they_were_sent", |pair| {
        let path = "/a%20b/%C3%A9;p=1?x=%2F&y=a+b&&z=%00";
        let seen = pair.seen(pair.curl(path).args(["-H", "X-Two: a", "-H", "X-Two: b"]));
        assert_eq!((seen.text("method"), seen.text("path")), ("GET", path));
        assert_eq!(seen.text("host"), pair.authority());
        assert_eq!(seen.all("x-two"), ["a", "b"]);
        assert_eq!(seen.all("via"), [pair.down.via()]);
        assert_eq!(seen.all("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(seen.all("x-forwarded-proto"), [pair.down.scheme()]);
        assert_eq!(seen.all("x-forwarded-host"), [pair.authority()]);
        let forwarded = seen.all("forwarded").concat();
        let proto = format!("proto={}", pair.down.scheme());
        assert!(forwarded.contains(&proto), "{forwarded}");
        seen.expect_content(b"");
        // Neither `content-length` nor `transfer-encoding` announces content.
        assert!(seen.all("transfer-encoding").is_empty());
        let lengths = seen.all("content-length");
        assert!(lengths.is_empty(), "{lengths:?}");
    });
}

#[test]
fn responses_say_how_they_came() {
    with_pairs("responses_say_how_they_came", |pair| {
        let got = pair.get("/");
        assert_eq!(got.head.all("via"), [pair.up.via()]);
        assert_eq!(got.head.all("date").len(), 1, "{:?}", got.head);
        assert_eq!(got.head.field("content-type"), Some("application/json"));
        let length = got.body.len().to_string();
        assert_eq!(got.head.field("content-length"), Some(&*length));
        // RFC 9113 §8.2.2: connection-specific fields of HTTP/1.1 are not forwarded.
        if pair.down.is_http2() {
            let names = ["connection", "keep-alive", "transfer-encoding"];
            assert!(names.iter().all(|name| got.head.all(name).is_empty()));
        }
    });
}

/// HTTP/2 may have a field line for each cookie; HTTP/1.1 has one for all (RFC 9113 §8.2.3).
#[test]
fn cookies_of_a_request_are_one_line() {
    with_pairs("cookies_of_a_request_are_one_line", |pair| {
        let curl = pair.curl("/").args(["-b", "a=1; b=\"2\"; c=3"]);
        let seen = pair.seen(curl);
        assert_eq!(seen.text("cookie"), "a=1; b=\"2\"; c=3");
        if !pair.up.is_http2() {
            assert_eq!(seen.all("cookie"), ["a=1; b=\"2\"; c=3"]);
        }
        if !pair.down.is_http2() {
            return;
        }
        let fields = r#"{"cookie": ["a=1", "b=2", "c=3"]}"#;
        let got = pair.node_js("GET", "/", [fields, "{}", "null"]);
        let seen = Seen::parse(got["text"].as_str().unwrap_or_default().as_bytes());
        assert_eq!(seen.text("cookie"), "a=1; b=2; c=3");
        if !pair.up.is_http2() {
            assert_eq!(seen.all("cookie"), ["a=1; b=2; c=3"]);
        }
    });
}

/// The values of `Set-Cookie` may have commas: the lines cannot be joined (RFC 9110 §5.3).
#[test]
fn each_set_cookie_keeps_its_line() {
    with_pairs("each_set_cookie_keeps_its_line", |pair| {
        let got = pair.get("/cookies");
        let cookies = got.head.all("set-cookie");
        assert_eq!(cookies, ["a=1; Path=/", "b=2, 3", "c=\"4; 5\""]);
    });
}

/// The node's own answers, which do not depend on a server's protocol.
#[test]
fn refusals_are_told_in_each_protocol() {
    let Some(site) = Site::start("refusals_are_told_in_each_protocol") else {
        return;
    };
    let field = format!("X-Large: {}", "x".repeat(17_000));
    for down in Downstream::ALL {
        println!("{down:?}");
        let ask = |host: &str, path: &str, further: [&str; 2]| {
            let got = site.curl(down, host, path).args(further).run();
            assert_eq!(got.exit, 0, "{}", got.errors);
            let text = String::from_utf8_lossy(&got.body).into_owned();
            (got.head, text)
        };
        let (head, text) = ask("other.example", "/", ["-X", "GET"]);
        assert_eq!((head.status(), &*text), (404, "404 Not Found\n"));
        assert_eq!(head.field("content-length"), Some("14"));
        let (head, text) = ask("get.example", "/", ["-X", "PUT"]);
        assert_eq!((head.status(), &*text), (405, "405 Method Not Allowed\n"));
        assert_eq!(head.field("allow"), Some("GET, HEAD"));
        // An escaped slash is ambiguous: parsers disagree about the segments of such a path.
        let (head, text) = ask("h1.example", "/a%2Fb", ["-X", "GET"]);
        assert_eq!((head.status(), &*text), (400, "400 Bad Request\n"));
        let (head, text) = ask("h1.example", "/", ["-H", &field]);
        let told = (head.status(), &*text);
        assert_eq!(told, (431, "431 Request Header Fields Too Large\n"));
    }
}

/// The node refuses such requests before all of their content has arrived, and its answer must not be lost. Clients may
/// take the reset of a stream after its response for an error (RFC 9113 §8.1): curl of Debian 12 does.
#[test]
fn refusals_of_content_are_told_in_each_protocol() {
    let Some(site) = Site::start("refusals_of_content_are_told_in_each_protocol") else {
        return;
    };
    // No more content than the node still reads on a connection that it closes: beyond that, a reset may overtake the
    // response.
    let large = (MEGABYTE + 20_000).to_string();
    let length = format!(r#"{{"content-length": {large}}}"#);
    for down in Downstream::ALL {
        let ask = |host: &str, fields: &str, content: &str| {
            let url = site.url(down, host, "/");
            let got = site.node_js(down, ["PUT", &url], [fields, "{}", content]);
            println!("{down:?}: {got}");
            (got["status"].clone(), got["text"].clone())
        };
        let (status, text) = ask("get.example", "{}", "\"content\"");
        assert_eq!(
            (status, text),
            (405.into(), "405 Method Not Allowed\n".into())
        );
        // Several requests, since the content and the response may arrive in either order.
        for _ in 0..10 {
            let curl = site.curl(down, "get.example", "/");
            let got = curl.args(["-X", "PUT", "-d", "content"]).run();
            assert_eq!((got.exit, got.head.status()), (0, 405), "{}", got.errors);
        }
        for fields in ["{}", &length] {
            let (status, text) = ask("h1.example", fields, &large);
            assert_eq!(
                (status, text),
                (413.into(), "413 Content Too Large\n".into())
            );
        }
    }
}
