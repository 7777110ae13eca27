//! nghttp, a client that shows every frame.

use super::*;

/// The output of nghttp: its log of frames, and the content.
fn nghttp(site: &Site, down: Downstream, further: &[&str]) -> String {
    let address = site.address(down);
    let mut command = Command::new("nghttp");
    // The name is only in the request; nghttp connects to an address.
    let authority = format!(":authority: h1.example:{}", address.port());
    command
        .args(["-v", "--no-dep", "-H", &authority])
        .args(further)
        .arg(format!("{}://{address}/nghttp", down.scheme()));
    let output = command.output().expect("it was looked for");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    println!("{text}");
    text
}

/// The JSON of the response's content in the output.
#[track_caller]
fn seen(text: &str) -> Seen {
    let start = text.find("{\"version\"").expect("content came");
    let line = text[start..].lines().next().unwrap_or_default();
    // A line of nghttp's log may follow it without a line end.
    let end = line.rfind("}}").expect("it is whole") + 2;
    Seen::parse(&line.as_bytes()[..end])
}

#[test]
fn nghttp_is_served() {
    const TEST: &str = "nghttp_is_served";
    if !is_there(TEST, "nghttp") {
        return;
    }
    let Some(site) = Site::start(TEST) else {
        return;
    };
    let sent = content(MEGABYTE);
    let file = site.file("sent", &sent);
    let file = file.to_str().expect("a path in ASCII");
    for down in [Downstream::H2c, Downstream::H2] {
        println!("{down:?}");
        let text = nghttp(&site, down, &[]);
        assert!(text.contains(":status: 200"), "{text}");
        assert_eq!(seen(&text).text("path"), "/nghttp");
        // Without a length, since a server of HTTP/1.1 gets trailers only with chunks.
        let further = [
            "-d",
            file,
            "--no-content-length",
            "--trailer",
            "x-digest: abc",
        ];
        let text = nghttp(&site, down, &further);
        let seen = seen(&text);
        seen.expect_content(&sent);
        assert_eq!(seen.0["trailers"]["x-digest"], "abc", "{}", seen.0);
    }
}
