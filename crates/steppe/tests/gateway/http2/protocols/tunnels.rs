//! CONNECT, for routes that allow it: to proxies of Node.js, which make the tunnel.

use super::*;

/// More bytes than any buffer on the way has, and no multiple of a buffer's size.
const CONTENT: &str = "1000003";

#[test]
fn a_tunnel_carries_bytes_both_ways() {
    with_pairs("a_tunnel_carries_bytes_both_ways", |pair| {
        let got = pair.node_js("CONNECT", "/", [r#"{"port":"7"}"#, "{}", CONTENT]);
        assert_eq!(got["status"], 200, "{got}");
        let target = format!("{}:7", pair.up.host());
        assert_eq!(got["fields"]["x-seen"], target, "{got}");
        assert_eq!(got["fields"].get("content-length"), None, "{got}");
        let text = got["text"].as_str().expect("it came back");
        assert!(
            text.len() == 1_000_003 && text.bytes().all(|byte| byte == b'x'),
            "{} bytes",
            text.len()
        );
        // A proxy's refusal is a response like others.
        let got = pair.node_js("CONNECT", "/", [r#"{"port":"9"}"#, "{}", "1"]);
        assert_eq!((&got["status"], &got["text"]), (&403.into(), &"".into()));
        assert_eq!(pair.get("/").head.status(), 200);
    });
}

/// curl speaks HTTP through the tunnel.
#[test]
fn curl_goes_through_a_tunnel() {
    let Some(site) = Site::start("curl_goes_through_a_tunnel") else {
        return;
    };
    let proxy = format!("http://{}", site.address(Downstream::H1));
    for up in Upstream::ALL {
        let got = Curl::new(&format!("http://{}/inside", up.host()))
            .args(["--noproxy", "", "--proxytunnel", "--proxy", &proxy])
            .run();
        assert_eq!((got.exit, got.head.status()), (0, 200), "{got:?}");
        let seen = Seen::parse(&got.body);
        assert_eq!(
            (seen.text("path"), seen.text("host")),
            ("/inside", &*up.host())
        );
        assert_eq!(
            seen.all("via"),
            Vec::<&str>::new(),
            "the node sees bytes alone"
        );
    }
}
