//! Chromium: a page with many pictures, and a WebSocket, on one connection of HTTP/2.

use serde_json::json;
use steppe_testkit::{
    Authority, Chromium, Leaf, Scratch, Steppe, eventually, skip, websocket_echo,
};

const PICTURES: usize = 200;

const CONFIG: &str = r#"
[node]
workers = 1
memory_budget = "64MiB"
[admin]
listen = "{admin}"
[[http.listener]]
listen = "{gateway}"
protocols = ["h1", "h2"]
tls.certificates = [{ cert = "{scratch}/cert.pem", key = "{scratch}/key.pem" }]
# A browser may open a second connection ahead of need, and leave it unused.
timeouts.idle = "2s"
[http.upstream.echo]
servers = ["{echo}"]
[[http.route]]
name = "echo"
path = "/echo"
upstream = "echo"
[[http.route]]
name = "page"
path = "/{rest*}"
files = { root = "{page}" }
"#;

const PAGE: &str = r#"<!doctype html>
<meta charset="utf-8"><link rel="icon" href="data:,">
<title>waiting</title>
<style>body { margin: 8px; display: grid; grid-template-columns: repeat(20, 24px); gap: 4px }</style>
<script>
const socket = new WebSocket(`wss://${location.host}/echo`);
socket.onopen = () => socket.send("over the WebSocket");
socket.onmessage = (message) => { document.title = message.data };
</script>
"#;

/// Writes the page, and for each picture a square of its own color.
fn write_page() -> Scratch {
    let folder = Scratch::new("page");
    let mut page = PAGE.to_owned();
    for number in 0..PICTURES {
        let name = format!("{number}.svg");
        page += &format!("<img src=\"/{name}\" width=24 height=24>\n");
        let color = format!("hsl({} 80% 50%)", number * 360 / PICTURES);
        let picture = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"24\" height=\"24\">\
             <rect width=\"24\" height=\"24\" fill=\"{color}\"/></svg>"
        );
        folder.write(&name, &picture);
    }
    folder.write("index.html", &page);
    folder
}

#[test]
fn a_page_of_pictures_and_its_websocket_share_a_connection() {
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("a_page_of_pictures", &reason),
    };
    browser.trust_any_certificate();
    let (folder, echo) = (write_page(), websocket_echo());
    let issued = Authority::new("browser").issue(&Leaf::named(&["localhost"]));
    let node = Steppe::builder()
        .with("echo", echo.address())
        .with("page", folder.path().display())
        .with_file("cert.pem", &issued.cert)
        .with_file("key.pem", &issued.key)
        .start(CONFIG);
    browser.go(&format!("https://localhost:{}/", node.gateway().port()));
    browser.await_true("document.title === 'over the WebSocket'");
    browser.await_true(&format!(
        "[...document.images].filter((image) => image.naturalWidth === 24).length === {PICTURES}"
    ));
    let others = "performance.getEntriesByType('resource')\
         .concat(performance.getEntriesByType('navigation'))\
         .filter((entry) => entry.nextHopProtocol !== 'h2' && !entry.name.startsWith('data:')).length";
    assert_eq!(browser.evaluate(others), json!(0), "not by HTTP/2");
    // A WebSocket by HTTP/1.1 would have a connection of its own.
    let connections = || node.metrics().sum("steppe_http_connections", &[]);
    eventually("one connection", || connections() == 1.0);
    assert_eq!(node.admin_json("/memory")["connections"]["tunnels"], 1);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
