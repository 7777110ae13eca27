//! The files of `examples/jobs/`, run as they are there: only addresses are replaced, and the files that they name are
//! the test's own. Clients request the hosts and ports of the file, and connect to the node's.

mod lines;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{EncodingKey, Header, encode};
use lines::{names, text};
use serde_json::json;
use steppe_node::config::{self, Drawing};
use steppe_testkit::{
    Authority, Curl, CurlOutput, Gate, GrpcOrigin, GrpcReply, Leaf, Nginx, Port, RawOrigin, Steppe,
    SteppeBuilder, TlsClient, ask_dns, eventually, grpc_message, observe_until, sha256_hex,
    websocket_connect, websocket_echo,
};

const SECRET: &str = "a secret that is long enough for HS256";
const KEYS: [(&str, &str); 2] = [
    ("ann", "0f6e2a1b7c9d4e3f8a5b6c7d8e9f0a1b"),
    ("bob", "9c8b7a6f5e4d3c2b1a0f9e8d7c6b5a4f"),
];

/// The certificates that the files name, and the hosts of each.
const CERTIFICATES: [(&str, &[&str]); 6] = [
    ("app", &["app.example.com"]),
    ("com", &["example.com", "www.example.com"]),
    ("org", &["example.org", "www.example.org"]),
    ("api", &["api.example.com"]),
    ("grpc", &["grpc.example.com"]),
    ("models", &["models.example.com"]),
];

/// A node with every file that the jobs name beside their configuration.
fn builder() -> SteppeBuilder<'static> {
    let authority = Authority::new("jobs");
    let keys = KEYS.map(|(name, key)| format!("{name} {}\n", sha256_hex(key.as_bytes())));
    let files = Steppe::builder()
        .with_file("ca.pem", &authority.pem())
        .with_file("public/index.html", "the page")
        .with_file("public/app.js", "the script")
        .with_file("ads.txt", "tracker.example\n")
        .with_file("tokens.key", SECRET)
        .with_file("api-keys", &keys.concat());
    CERTIFICATES.iter().fold(files, |files, (name, hosts)| {
        let issued = authority.issue(&Leaf::named(hosts));
        files
            .with_file(&format!("{name}.crt"), &issued.cert)
            .with_file(&format!("{name}.key"), &issued.key)
    })
}

/// A job whose addresses are replaced.
struct Draft {
    text: String,
    builder: SteppeBuilder<'static>,
    https: u16,
}

/// A running job.
struct Job {
    node: Steppe,
    https: SocketAddr,
}

impl Draft {
    /// The long form of a file, which has each listen address in full.
    fn of(name: &str) -> Self {
        let (outcome, long) = config::expand(name, &text(name));
        let long = long.unwrap_or_else(|| panic!("{}", outcome.report.render(Drawing::Plain)));
        let (builder, https) = builder().with_port("https");
        let text = long
            .replace("\"[::]:80\"", "\"{gateway}\"")
            .replace("\"[::]:443\"", "\"127.0.0.1:{https}\"");
        Self {
            text,
            builder,
            https,
        }
    }

    #[track_caller]
    fn replace(mut self, from: &str, to: impl ToString) -> Self {
        assert!(self.text.contains(from), "no {from} in {}", self.text);
        self.text = self.text.replace(from, &to.to_string());
        self
    }

    /// Starts the node, with an admin listener if the file has none.
    #[track_caller]
    fn start(self) -> Job {
        let draft = if self.text.contains("[admin]") {
            self.replace("127.0.0.1:9900", "{admin}")
        } else {
            Self {
                text: self.text + "\n[admin]\nlisten = \"{admin}\"\n",
                ..self
            }
        };
        Job {
            https: (Ipv4Addr::LOCALHOST, draft.https).into(),
            node: draft.builder.start(draft.text),
        }
    }
}

impl Job {
    /// curl, which finds the node at the usual ports of every host.
    fn curl(&self, url: &str) -> Curl {
        let ca = self.node.scratch().join("ca.pem");
        Curl::new(url)
            .args(["--cacert", &ca.to_string_lossy()])
            .args(["--connect-to", &format!(":80:{}", self.node.gateway())])
            .args(["--connect-to", &format!(":443:{}", self.https)])
    }

    #[track_caller]
    fn get(&self, url: &str) -> CurlOutput {
        finished(self.curl(url))
    }

    /// Like [`Job::get`], with a field.
    #[track_caller]
    fn get_with(&self, url: &str, field: &str) -> CurlOutput {
        finished(self.curl(url).args(["-H", field]))
    }

    /// Returns the `Location` of a redirect with 308.
    #[track_caller]
    fn redirect(&self, url: &str) -> Option<String> {
        let got = self.get(url);
        assert_eq!(got.head.status(), 308, "{url}");
        got.head.field("location").map(str::to_owned)
    }
}

#[track_caller]
fn finished(curl: Curl) -> CurlOutput {
    let got = curl.run();
    assert_eq!(got.exit, 0, "{}", got.errors);
    got
}

fn body(got: &CurlOutput) -> String {
    String::from_utf8_lossy(&got.body).into_owned()
}

fn ok(fields: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 200 OK\r\n{fields}content-length: {len}\r\n\r\n{body}").into_bytes()
}

#[test]
fn every_file_is_valid_as_it_stands() {
    for name in names() {
        let (status, said) = builder().run(&["check", "--offline"], text(&name));
        assert!(status.success(), "{name}: {said}");
        assert!(said.contains("steppe.toml: ok: "), "{name}: {said}");
    }
}

#[test]
fn https_in_front_of_a_server() {
    let origin = RawOrigin::replying(|request| {
        ok("", request.field("x-forwarded-proto").unwrap_or_default())
    });
    let job = Draft::of("https-proxy")
        .replace("127.0.0.1:3000", origin.address())
        .start();
    assert_eq!(body(&job.get("https://app.example.com/a?b")), "https");
    let to = job.redirect("http://app.example.com/a?b");
    assert_eq!(to.as_deref(), Some("https://app.example.com/a?b"));
}

#[test]
fn a_single_page_application() {
    let job = Draft::of("single-page").start();
    let get = |path: &str| {
        let got = job.get(&format!("http://app.example.com{path}"));
        (got.head.status(), body(&got))
    };
    for path in ["/", "/orders/7"] {
        assert_eq!(get(path), (200, "the page".to_owned()), "{path}");
    }
    assert_eq!(get("/app.js"), (200, "the script".to_owned()));
    assert_eq!(get("/missing.js").0, 404);
}

#[test]
fn two_hosts_with_redirects() {
    let origin = RawOrigin::replying(|_| ok("", "the server"));
    let job = Draft::of("two-hosts")
        .replace("127.0.0.1:3000", origin.address())
        .start();
    assert_eq!(body(&job.get("https://example.com/")), "the server");
    assert_eq!(body(&job.get("https://www.example.org/")), "the page");
    for (from, to) in [
        ("https://www.example.com", "https://example.com"),
        ("http://www.example.com", "https://example.com"),
        ("http://example.com", "https://example.com"),
        ("https://example.org", "https://www.example.org"),
        ("http://example.org", "https://www.example.org"),
        ("http://www.example.org", "https://www.example.org"),
    ] {
        let got = job.redirect(&format!("{from}/a?b"));
        assert_eq!(got, Some(format!("{to}/a?b")), "{from}");
    }
}

#[test]
fn servers_that_share_the_load() {
    const URL: &str = "http://app.example.com/";
    let start = |name| Nginx::start(&format!("location / {{ return 200 {name}; }}"));
    let mut servers = ["one", "two"].map(start);
    let job = Draft::of("balancing")
        .replace("10.0.0.7:3000", servers[0].address())
        .replace("10.0.0.8:3000", servers[1].address())
        .start();
    let first = job.get(URL);
    let theirs = body(&first);
    let cookie = first.head.field("set-cookie").expect("it is set");
    let cookie = cookie.split(';').next().expect("a pair");
    let cookie = format!("Cookie: {cookie}");
    let other = observe_until(
        "the other server's turn",
        || body(&job.get(URL)),
        |name| *name != theirs,
    );
    for _ in 0..20 {
        assert_eq!(body(&job.get_with(URL, &cookie)), theirs);
    }
    let dying = &mut servers[usize::from(theirs == "two")];
    dying.hang();
    let waiting = [(); 8].map(|()| job.curl(URL).args(["-H", &cookie]).start());
    let report = || job.node.admin_json("/upstreams").to_string();
    eventually("requests wait for it, or probes were faster", || {
        let report = report();
        report.contains("\"active\":8") || report.contains("\"unhealthy\"")
    });
    dying.kill();
    for request in waiting {
        assert_eq!(body(&request.finish()), other);
    }
    for _ in 0..20 {
        for got in [job.get(URL), job.get_with(URL, &cookie)] {
            assert_eq!((got.head.status(), body(&got)), (200, other.clone()));
        }
    }
    eventually("probes find the one that is gone", || {
        report().contains("\"unhealthy\"")
    });
}

#[expect(clippy::disallowed_methods, reason = "tokens end by the time of day")]
fn bearer(subject: &str) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let claims = json!({ "sub": subject, "aud": "api", "exp": now.as_secs() + 600 });
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = encode(&Header::default(), &claims, &key).expect("a token");
    format!("Authorization: Bearer {token}")
}

#[test]
fn an_api_with_tokens() {
    const URL: &str = "https://api.example.com/things";
    const ORIGIN: &str = "Origin: https://app.example.com";
    let origin = RawOrigin::replying(|_| ok("", "things"));
    let job = Draft::of("jwt-api")
        .replace("127.0.0.1:4000", origin.address())
        .start();
    let anonymous = job.get_with(URL, ORIGIN);
    assert_eq!(anonymous.head.status(), 401);
    let allowed = anonymous.head.field("access-control-allow-origin");
    assert_eq!(allowed, Some("https://app.example.com"));
    assert_eq!(body(&job.get_with(URL, &bearer("ann"))), "things");

    let preflight = |origin: &str| {
        let method = "Access-Control-Request-Method: GET";
        let curl = job.curl(URL).args(["-X", "OPTIONS", "-H", origin]);
        let fields = "Access-Control-Request-Headers: authorization";
        finished(curl.args(["-H", method, "-H", fields]))
    };
    let allowed = preflight(ORIGIN).head;
    let fields = allowed.field("access-control-allow-headers");
    assert_eq!((allowed.status(), fields), (204, Some("authorization")));
    let refused = preflight("Origin: https://other.example.com").head;
    assert_eq!(refused.status(), 403);

    let greedy = bearer("eve");
    let request = format!("GET / HTTP/1.1\r\nHost: api.example.com\r\n{greedy}\r\n\r\n");
    let statuses = observe_until(
        "a caller above its rate",
        || {
            let mut peer = TlsClient::new().connect(job.https, "api.example.com");
            peer.send(request.repeat(40));
            let statuses = (0..40).map(|_| peer.response().status());
            statuses.collect::<Vec<_>>()
        },
        |statuses| statuses.contains(&429),
    );
    let is_known = |status: &u16| [200, 429].contains(status);
    assert!(statuses.iter().all(is_known), "{statuses:?}");
    assert_eq!(job.get_with(URL, &bearer("bob")).head.status(), 200);
}

#[test]
fn a_websocket() {
    let origin = websocket_echo();
    let job = Draft::of("websocket")
        .replace("127.0.0.1:3000", origin.address())
        // The client sends the address that it connects to as its host.
        .replace("chat.example.com", "127.0.0.1")
        .start();
    let (mut socket, response) = websocket_connect(job.node.gateway(), "/room");
    assert_eq!(response.status().as_u16(), 101);
    for message in ["hello", "again"] {
        socket.send(message.into()).expect("the tunnel is open");
        let back = socket.read().expect("an echo comes");
        assert!(back.into_text().is_ok_and(|text| text.as_str() == message));
    }
}

#[test]
fn grpc_over_tls() {
    let origin = GrpcOrigin::start(|_| GrpcReply::message(b"order", 0));
    let job = Draft::of("grpc")
        .replace("127.0.0.1:50051", origin.address())
        .start();
    let message = job
        .node
        .scratch()
        .write("message", grpc_message(b"which order"));
    let content = format!("@{}", message.display());
    let curl = job
        .curl("https://grpc.example.com/shop.Orders/Get")
        .args(["--http2", "--data-binary", &content, "-H", "te: trailers"])
        .args(["-H", "content-type: application/grpc"]);
    let got = finished(curl);
    assert_eq!(got.figures["http_version"].as_str(), Some("2"));
    assert_eq!(got.body, grpc_message(b"order"));
    let status = ("grpc-status".to_owned(), "0".to_owned());
    assert_eq!(got.trailers, [status]);
    let call = &origin.calls()[0];
    assert_eq!(call.path, "/shop.Orders/Get");
    assert_eq!(call.content, grpc_message(b"which order"));
}

#[test]
fn dns_of_a_home() {
    let authority = Authority::new("resolver");
    let public = Steppe::builder().start_secure_forwarder(
        &authority,
        "dns.quad9.net",
        "[dns.hosts]\nrecords = { \"www.example.org\" = \"203.0.113.7\" }\n\
         [[dns.rule]]\nblock = \"nxdomain\"\n",
    );
    let listen = Port::free().keep();
    let mut draft = Draft::of("home-dns")
        .replace("0.0.0.0:53", listen)
        .replace("net@9.9.9.9", format!("net@{}", public.dot))
        .replace("net@149.112.112.112", format!("net@{}", public.dot));
    draft.builder = draft.builder.with_file("resolver.pem", &authority.pem());
    draft.text += "\n[dns.upstream.public.tls]\nca = \"resolver.pem\"\n";
    let _job = draft.start();
    let address = |name: &str| {
        let response = ask_dns(listen, name);
        assert_eq!((response[3] & 0x0f, response[7]), (0, 1), "{name}");
        // The address is the end of the record.
        Ipv4Addr::from(*response.last_chunk::<4>().expect("an address"))
    };
    assert_eq!(address("printer.home.arpa"), Ipv4Addr::new(192, 168, 7, 9));
    assert_eq!(address("pixel.tracker.example"), Ipv4Addr::UNSPECIFIED);
    assert_eq!(public.queries("tls"), 0.0);
    assert_eq!(address("www.example.org"), Ipv4Addr::new(203, 0, 113, 7));
    assert!(public.queries("tls") >= 1.0);
}

#[test]
fn a_cache_and_its_purge() {
    const URL: &str = "http://www.example.com/news";
    let asked = AtomicUsize::new(0);
    let origin = RawOrigin::replying(move |_| {
        let edition = asked.fetch_add(1, Ordering::SeqCst);
        ok("cache-control: max-age=3600\r\n", &edition.to_string())
    });
    let job = Draft::of("cache")
        .replace("127.0.0.1:3000", origin.address())
        .start();
    let get = || {
        let got = job.get(URL);
        let status = got.head.field("cache-status").unwrap_or_default();
        (body(&got), status.contains("; hit"))
    };
    assert_eq!(get(), ("0".to_owned(), false));
    assert_eq!(get(), ("0".to_owned(), true));
    let purge = job.node.admin_post(&format!("/cache/purge?uri={URL}"));
    assert_eq!(purge.status(), 200, "{}", purge.text());
    assert_eq!(get(), ("1".to_owned(), false));
}

#[test]
fn an_inference_server() {
    const URL: &str = "https://models.example.com/v1/chat/completions";
    let may_end = Gate::new();
    let gate = may_end.clone();
    let model = RawOrigin::start(move |peer| {
        while let Some(request) = peer.request() {
            assert_eq!(request.field("authorization"), None);
            let name = request.field("x-api-key-name").expect("who asks");
            peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
            peer.send(format!("b\r\ndata: {name}\n\n\r\n"));
            gate.wait();
            peer.send("b\r\ndata: end\n\n\r\n0\r\n\r\n");
        }
    });
    let job = Draft::of("inference")
        .replace("127.0.0.1:8000", model.address())
        .start();
    let [ann, bob] = KEYS.map(|(_, key)| format!("Authorization: Bearer {key}"));
    let ask = |client: &str| job.curl(URL).args(["-H", client, "-d", "{}"]);
    assert_eq!(job.get(URL).head.status(), 401);
    let unknown = "Authorization: Bearer 00000000000000000000000000000000";
    assert_eq!(job.get_with(URL, unknown).head.status(), 401);

    let streams = [(&ann, "ann"), (&ann, "ann"), (&bob, "bob")].map(|(client, name)| {
        let stream = ask(client).start();
        let begun = format!("data: {name}\n\n");
        eventually("the first piece has come", || {
            body(&stream.so_far()) == begun
        });
        (stream, begun)
    });
    // Two streams of the first client are open, and one of the second.
    assert_eq!(finished(ask(&ann)).head.status(), 429);
    may_end.open();
    for (stream, begun) in streams {
        assert_eq!(body(&stream.finish()), begun + "data: end\n\n");
    }
    assert_eq!(finished(ask(&ann)).head.status(), 200);
}
