//! Files of a folder, through the whole node.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use steppe_testkit::{Curl, Message, Nginx, NodeConfig, Scratch, Section, Steppe, observe_until};

/// A folder, and a node that serves it.
struct Site {
    folder: Scratch,
    node: Steppe,
}

/// A configuration whose one route serves this folder.
fn serving(root: &Path) -> NodeConfig {
    NodeConfig::bare().add_route("all", |r| r.path("/{rest*}").set("files.root", root))
}

impl Site {
    fn new() -> Self {
        Self::with(|route| route)
    }

    /// A site with this change to the route.
    fn with(change: impl FnOnce(Section) -> Section) -> Self {
        let folder = Scratch::new("site");
        let config = serving(folder.path()).route("all", change);
        let node = Steppe::builder().start(&config);
        Self { folder, node }
    }

    /// Writes a file with an old modification time.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.join(name);
        let parent = path.parent().expect("it is below the folder");
        fs::create_dir_all(parent).expect("folders can be made");
        fs::write(&path, content).expect("files can be written");
        let file = fs::File::options()
            .write(true)
            .open(&path)
            .expect("it is there");
        file.set_modified(long_ago()).expect("it is ours");
        path
    }

    fn ask(&self, method: &str, path: &str, fields: &[&str]) -> Message {
        let fields: String = fields.iter().map(|line| format!("{line}\r\n")).collect();
        let mut peer = self.node.connect();
        peer.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
        ));
        peer.response_to(method)
    }

    fn get(&self, path: &str) -> Message {
        self.ask("GET", path, &[])
    }

    #[track_caller]
    fn is_served(&self, path: &str, content: &str) {
        let answer = self.get(path);
        assert_eq!((answer.status(), &*answer.text()), (200, content), "{path}");
    }

    #[track_caller]
    fn is_missing(&self, path: &str) {
        let answer = self.get(path);
        assert_eq!(answer.status(), 404, "{path}: {answer:?}");
        assert_eq!(answer.text(), "404 Not Found\n");
    }
}

/// 1994-11-06 08:49:37, as a time.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

const LONG_AGO: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Paths without a file, as of pages with client-side routes.
#[test]
fn a_fallback_is_served_for_pages_that_no_file_has() {
    let site = Site::with(|route| route.set("files.fallback", "/app.html"));
    site.write("app.html", "app");
    site.write("docs/index.html", "docs");
    site.write("main.js", "code");
    for path in ["/account/7", "/account/", "/a.b/c"] {
        site.is_served(path, "app");
    }
    site.is_served("/main.js", "code");
    site.is_served("/docs/", "docs");
    for missing in [
        "/missing.js",
        "/a/b.png",
        "/.env",
        "/a/.git/config",
        "/.well-known/a",
    ] {
        site.is_missing(missing);
    }
    // A folder without an index is still one: the page is served at its path.
    site.write("empty/a.txt", "a");
    assert_eq!(site.get("/empty").status(), 301);
    site.is_served("/empty/", "app");
    let page = site.get("/account/7");
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    let tag = page.field("etag").expect("it has one").to_owned();
    let again = site.ask("GET", "/other", &[&format!("If-None-Match: {tag}")]);
    assert_eq!(again.status(), 304, "{again:?}");
    let head = site.ask("HEAD", "/account/7", &[]);
    assert_eq!((head.status(), &*head.text()), (200, ""));
}

#[test]
fn a_fallback_may_stand_for_all_paths_and_may_be_missing_itself() {
    let all = Site::with(|route| {
        let route = route.set("files.fallback", "/sub/app.html");
        route.set("files.fallback_for", "all")
    });
    all.is_missing("/missing.js");
    all.write("sub/app.html", "app");
    all.is_served("/missing.js", "app");
    all.is_missing("/.env");
}

#[test]
fn a_fallback_is_sent_in_the_coding_that_lies_beside_it() {
    let site = Site::with(|route| {
        let route = route.set("files.fallback", "/app.html");
        route.set("files.precompressed", ["gzip"])
    });
    site.write("app.html", "app");
    site.write("app.html.gz", "packed");
    let packed = site.ask("GET", "/a", &["Accept-Encoding: gzip"]);
    assert_eq!(packed.field("content-encoding"), Some("gzip"), "{packed:?}");
    assert_eq!((packed.status(), &*packed.text()), (200, "packed"));
    site.is_served("/a", "app");
}

#[test]
fn a_file_is_served_with_its_fields() {
    let site = Site::new();
    site.write("a/page.html", "<p>hi</p>");
    let answer = site.get("/a/page.html");
    assert_eq!((answer.status(), &*answer.text()), (200, "<p>hi</p>"));
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-length", "9"),
        ("last-modified", LONG_AGO),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("via", "1.1 steppe"),
    ] {
        assert_eq!(answer.field(name), Some(value), "{name}");
    }
    let tag = answer.field("etag").expect("a tag");
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
}

#[test]
fn the_rest_of_the_path_lies_below_the_folder() {
    let site = Site::with(|r| r.path("/static/{rest*}").set("files.index", "main.html"));
    site.write("a.txt", "a");
    site.write("main.html", "main");
    site.write("static/b.txt", "b");
    site.is_served("/static/a.txt", "a");
    site.is_served("/static/", "main");
    site.is_served("/static/static/b.txt", "b");
    site.is_missing("/static/b.txt");
    site.is_missing("/static/index.html");
    assert_eq!(site.get("/a.txt").status(), 404);
}

/// A response without a file has no lifetime.
#[test]
fn a_lifetime_is_that_of_the_first_pattern_that_matches_the_file() {
    let site = Site::with(|route| {
        let route = route.set("files.fallback", "/app.html");
        let route = route.set("files.precompressed", ["gzip"]);
        route.with_toml(
            "files.cache_control = [\n\
             { path = \"/assets/*.css\", value = \"immutable\" },\n\
             { path = \"*.html\", value = \"no-cache\" },\n\
             { path = \"/assets/*\", value = \"max-age=60\" },\n]",
        )
    });
    for name in [
        "index.html",
        "app.html",
        "assets/a.css",
        "assets/a.css.gz",
        "assets/b.html",
        "assets/c d.js",
        "other.txt",
    ] {
        site.write(name, "content");
    }
    for (path, expected) in [
        ("/", Some("no-cache")),
        ("/page/of/the/app", Some("no-cache")),
        ("/assets/a.css?v=1", Some("immutable")),
        ("/assets/b.html", Some("no-cache")),
        ("/assets/c%20d.js", Some("max-age=60")),
        ("/other.txt", None),
    ] {
        let answer = site.get(path);
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.field("cache-control"), expected, "{path}");
        let head = site.ask("HEAD", path, &[]);
        assert_eq!(head.field("cache-control"), expected, "{path}");
    }
    let path = "/assets/a.css";
    let tag = site.get(path).field("etag").expect("a tag").to_owned();
    for (field, status) in [
        (format!("If-None-Match: {tag}"), 304),
        ("Range: bytes=1-2".to_owned(), 206),
        ("Accept-Encoding: gzip".to_owned(), 200),
    ] {
        let answer = site.ask("GET", path, &[&field]);
        let seen = (answer.status(), answer.field("cache-control"));
        assert_eq!(seen, (status, Some("immutable")), "{field}");
    }
    for (method, path, field, status) in [
        ("GET", "/assets/missing.css", "X: y", 404),
        ("GET", "/assets", "X: y", 301),
        ("POST", "/assets/a.css", "Content-Length: 0", 405),
        ("GET", "/assets/a.css", "Range: bytes=100-", 416),
        ("GET", "/assets/a.css", "If-Match: \"other\"", 412),
    ] {
        let answer = site.ask(method, path, &[field]);
        let seen = (answer.status(), answer.field("cache-control"));
        assert_eq!(seen, (status, None), "{method} {path} {field}");
    }
}

#[test]
fn a_lifetime_may_be_that_of_all_files() {
    let site = Site::with(|route| route.set("files.cache_control", "max-age=60"));
    site.write("a/b.bin", "content");
    assert_eq!(
        site.get("/a/b.bin").field("cache-control"),
        Some("max-age=60")
    );
    assert_eq!(site.get("/a/c.bin").field("cache-control"), None);
}

/// The listing has no scripts, and leaves out names that a client can't request.
#[test]
fn a_folder_without_an_index_is_listed() {
    let site = Site::with(|r| r.path("/pub/{rest*}").set("files.listing", true));
    let outside = Scratch::new("outside");
    outside.write("secret", "secret");
    for name in [
        "docs/index.html",
        "files/b&<i>.txt",
        "files/a \u{e9}.txt",
        "files/.hidden",
        "files/sub/x.txt",
        "files/.git/config",
    ] {
        site.write(name, "content");
    }
    for (to, link) in [
        ("../docs", "files/inside"),
        ("sub/x.txt", "files/link"),
        ("nowhere", "files/broken"),
        (".hidden", "files/shown"),
    ] {
        symlink(to, site.folder.join(link)).expect("a link");
    }
    symlink(outside.join("secret"), site.folder.join("files/out")).expect("a link");
    let list = site.get("/pub/files/");
    assert_eq!(list.status(), 200, "{list:?}");
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        (
            "content-security-policy",
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ] {
        assert_eq!(list.field(name), Some(value), "{name}");
    }
    let page = list.text();
    let links = page.split("href=\"").skip(1);
    let links: Vec<_> = links.filter_map(|rest| rest.split('"').next()).collect();
    let expected = [
        "../",
        "./inside/",
        "./sub/",
        "./a%20%C3%A9.txt",
        "./b%26%3Ci%3E.txt",
        "./link",
    ];
    assert_eq!(links, expected, "{page}");
    assert!(page.contains("<bdi>b&amp;&lt;i&gt;.txt</bdi>"), "{page}");
    assert!(
        page.contains("<time datetime=\"1994-11-06T08:49:37Z\">"),
        "{page}"
    );
    // Every link leads to a response.
    for link in &links[1..] {
        let path = format!("/pub/files/{}", link.trim_start_matches("./"));
        assert_eq!(site.get(&path).status(), 200, "{path}");
    }
    let head = site.ask("HEAD", "/pub/files/", &[]);
    let length = page.len().to_string();
    let seen = (head.status(), head.field("content-length"), &*head.text());
    assert_eq!(seen, (200, Some(&*length), ""));
    assert_eq!(
        site.ask("POST", "/pub/files/", &["Content-Length: 0"])
            .status(),
        405
    );
    site.is_served("/pub/docs/", "content");
    let answer = site.get("/pub/files?a=b");
    assert_eq!(
        (answer.status(), answer.field("location")),
        (301, Some("/pub/files/?a=b"))
    );
    for missing in [
        "/pub/none/",
        "/pub/files/.git/",
        "/pub/files/link/",
        "/pub/files/out/",
    ] {
        site.is_missing(missing);
    }
    let top = site.get("/pub/").text();
    assert!(
        top.contains("./files/") && !top.contains("Parent folder"),
        "{top}"
    );
}

#[test]
fn a_list_and_a_fallback_go_together() {
    let site = Site::with(|route| {
        let route = route.set("files.fallback", "/app.html");
        route.set("files.listing", true)
    });
    site.write("app.html", "app");
    site.write("empty/a.txt", "a");
    assert!(site.get("/empty/").text().contains("./a.txt"));
    site.is_served("/none/", "app");
    site.is_served("/account", "app");
}

#[test]
fn links_are_followed_within_the_folder_only() {
    let site = Site::new();
    let outside = Scratch::new("outside");
    outside.write("secret", "secret");
    site.write("real/a.txt", "a");
    symlink("real", site.folder.join("inside")).expect("a link");
    symlink("../real/a.txt", site.folder.join("real/up")).expect("a link");
    symlink(outside.path(), site.folder.join("out")).expect("a link");
    symlink(outside.join("secret"), site.folder.join("file")).expect("a link");
    site.is_served("/inside/a.txt", "a");
    site.is_served("/real/up", "a");
    site.is_missing("/out/secret");
    site.is_missing("/out/");
    site.is_missing("/file");
    for climbing in ["/../secret", "/real/../../secret", "/%2e%2e/secret"] {
        site.is_missing(climbing);
    }
}

/// RFC 8615 defines the one hidden name that is public.
#[test]
fn links_lead_to_no_hidden_name() {
    let site = Site::with(|r| r.set("files.precompressed", ["gzip"]));
    for path in [
        ".env",
        ".git/config",
        "a/.secret",
        ".well-known/a",
        "b.txt",
        ".b.txt.gz",
    ] {
        site.write(path, path);
    }
    for (to, link) in [
        (".env", "dot"),
        ("../.env", "a/dot"),
        (".git", "git"),
        (".secret", "a/plain"),
        (".well-known", "known"),
        (".b.txt.gz", "b.txt.gz"),
        ("dot", "twice"),
        ("b.txt", "fine"),
    ] {
        symlink(to, site.folder.join(link)).expect("a link");
    }
    for hidden in [
        "/dot",
        "/a/dot",
        "/git",
        "/git/",
        "/git/config",
        "/a/plain",
        "/twice",
    ] {
        site.is_missing(hidden);
    }
    site.is_served("/known/a", ".well-known/a");
    site.is_served("/fine", "b.txt");
    let encoded = site.ask("GET", "/b.txt", &["Accept-Encoding: gzip"]);
    assert_eq!(encoded.field("content-encoding"), None);
}

/// Kubernetes swaps a link to a folder whose name begins with two dots: each file is a link through it.
#[test]
fn a_config_map_is_served() {
    let site = Site::new();
    let publish = |version: &str, content: &str| {
        let folder = format!("..{version}");
        site.write(&format!("{folder}/index.html"), content);
        site.write(&format!("{folder}/sub/a.txt"), content);
        site.write(&format!("{folder}/.hidden"), content);
        symlink(&folder, site.folder.join("..data_tmp")).expect("a link");
        fs::rename(site.folder.join("..data_tmp"), site.folder.join("..data")).expect("a link");
    };
    publish("2026_01_01_00_00_00.1", "one");
    for name in ["index.html", "sub", ".hidden"] {
        symlink(format!("..data/{name}"), site.folder.join(name)).expect("a link");
    }
    symlink("..data/.hidden", site.folder.join("shown")).expect("a link");
    for (version, content) in [("", "one"), ("2026_01_02_00_00_00.2", "two")] {
        if !version.is_empty() {
            publish(version, content);
        }
        site.is_served("/index.html", content);
        site.is_served("/", content);
        site.is_served("/sub/a.txt", content);
        for hidden in [
            "/.hidden",
            "/shown",
            "/..data/index.html",
            "/..data",
            "/..2026_01_01_00_00_00.1/index.html",
        ] {
            site.is_missing(hidden);
        }
    }
}

#[test]
fn names_are_escaped_as_in_urls() {
    let site = Site::new();
    for name in [
        "with space.txt",
        "caf\u{e9}.txt",
        "100%.txt",
        "a;b.txt",
        "a+b?.txt",
        "#.txt",
    ] {
        site.write(name, name);
    }
    site.is_served("/with%20space.txt", "with space.txt");
    site.is_served("/caf%C3%A9.txt", "caf\u{e9}.txt");
    site.is_served("/caf%c3%a9.txt", "caf\u{e9}.txt");
    site.is_served("/100%25.txt", "100%.txt");
    site.is_served("/a%3Bb.txt", "a;b.txt");
    site.is_served("/a+b%3F.txt", "a+b?.txt");
    site.is_served("/%23.txt", "#.txt");
    site.is_served("/with%20space.txt;version=1?query", "with space.txt");
}

#[test]
fn hidden_files_are_not_there() {
    let site = Site::new();
    for name in [
        ".env",
        ".git/config",
        "a/.hidden",
        ".well-known/security.txt",
    ] {
        site.write(name, "x");
    }
    site.is_served("/.well-known/security.txt", "x");
    for hidden in ["/.env", "/%2eenv", "/.git/config", "/a/.hidden", "/.git/"] {
        site.is_missing(hidden);
    }
}

#[test]
fn a_folder_is_its_index() {
    let site = Site::new();
    site.write("docs/index.html", "index");
    site.write("empty/other.html", "other");
    site.is_served("/docs/", "index");
    let answer = site.get("/docs?a=b%20c");
    assert_eq!(answer.status(), 301);
    assert_eq!(answer.field("location"), Some("/docs/?a=b%20c"));
    site.is_missing("/empty/");
    // A file is not a folder.
    site.is_missing("/docs/index.html/");
}

#[test]
fn other_methods_are_not_allowed() {
    let site = Site::new();
    site.write("a.txt", "a");
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = site.ask(method, "/a.txt", &["content-length: 0"]);
        assert_eq!(answer.status(), 405, "{method}");
        assert_eq!(answer.field("allow"), Some("GET, HEAD"));
    }
}

#[test]
fn content_of_a_get_is_not_taken_for_the_next_request() {
    const HIDDEN: &str = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    let site = Site::new();
    site.write("a.txt", "a");
    let mut peer = site.node.connect();
    let length = HIDDEN.len();
    peer.send(format!(
        "GET /a.txt HTTP/1.1\r\nHost: a\r\ncontent-length: {length}\r\n\r\n{HIDDEN}\
         GET /a.txt HTTP/1.1\r\nHost: a\r\nconnection: close\r\n\r\n"
    ));
    for _ in 0..2 {
        let answer = peer.response();
        assert_eq!((answer.status(), &*answer.text()), (200, "a"));
    }
    peer.expect_close();
}

#[test]
fn filters_see_files() {
    let folder = Scratch::new("site");
    folder.write("a.txt", "a");
    let config = serving(folder.path())
        .route("all", |r| r.filters(["mark"]))
        .add_filter("mark", |f| {
            f.set("kind", "transform")
                .set("response_headers.set.x-mark", "1")
        });
    let node = Steppe::builder().start(&config);
    for path in ["/a.txt", "/missing"] {
        let answer = node.exchange(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.field("x-mark"), Some("1"), "{path}");
    }
    // Requests are counted only after their response was sent.
    let counts = || {
        let metrics = node.metrics();
        ["2xx", "4xx"].map(|status| {
            let labels = [("route", "all"), ("status", status), ("upstream", "-")];
            metrics.sum("steppe_http_requests_total", &labels)
        })
    };
    observe_until("they are counted", counts, |counts| *counts == [1.0, 1.0]);
    let memory = node.admin_get("/memory").text();
    assert!(memory.contains("route all"), "{memory}");
}

#[test]
fn curl_resumes_and_asks_for_what_changed() {
    let site = Site::new();
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let path = site.write("big.bin", &content);
    let url = site.node.url("/big.bin");
    let part = Curl::new(&url).args(["-r", "1000-1999"]).run();
    assert_eq!(
        (part.head.status(), &*part.body),
        (206, &content[1000..2000])
    );
    let range = "bytes 1000-1999/300000";
    assert_eq!(part.head.field("content-range"), Some(range));
    let last = Curl::new(&url).args(["-r", "-5"]).run();
    assert_eq!(&*last.body, &content[299_995..]);
    // The client has the first half already.
    let resumed = Curl::new(&url).args(["-C", "150000"]).run();
    assert_eq!((resumed.exit, resumed.head.status()), (0, 206));
    assert_eq!(&*resumed.body, &content[150_000..]);
    // `-z` sends the modification time of the local file.
    let known = path.to_string_lossy().into_owned();
    let unchanged = Curl::new(&url).args(["-z", &known]).run();
    assert_eq!((unchanged.head.status(), unchanged.body.len()), (304, 0));
    let head = Curl::new(&url).args(["-I"]).run();
    assert_eq!(head.head.field("content-length"), Some("300000"));
    let whole = Curl::new(&url).args(["--compressed"]).run();
    assert_eq!((whole.head.status(), &*whole.body), (200, &*content));
}

#[test]
fn several_ranges_come_in_parts() {
    let site = Site::new();
    site.write("a.txt", "0123456789");
    let answer = site.ask("GET", "/a.txt", &["range: bytes=0-1, 4-5, -1"]);
    assert_eq!(answer.status(), 206);
    let kind = answer.field("content-type").expect("a type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect(kind);
    let part = |range: &str, content: &str| {
        format!(
            "--{boundary}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-range: bytes {range}/10\r\n\r\n{content}\r\n"
        )
    };
    let parts = part("0-1", "01") + &part("4-5", "45") + &part("9-9", "9");
    assert_eq!(answer.text(), format!("{parts}--{boundary}--\r\n"));
    for whole in ["bytes=0-5,5-6", "bytes=0-1,x"] {
        let answer = site.ask("GET", "/a.txt", &[&format!("range: {whole}")]);
        assert_eq!((answer.status(), &*answer.text()), (200, "0123456789"));
    }
}

#[test]
fn a_young_file_has_a_weak_tag_and_is_not_put_together() {
    let site = Site::new();
    let path = site.write("a.txt", "0123456789");
    let settled = site.get("/a.txt").field("etag").expect("a tag").to_owned();
    let if_range = |tag: &str| {
        let fields = ["range: bytes=0-1".to_owned(), format!("if-range: {tag}")];
        site.ask("GET", "/a.txt", &[&fields[0], &fields[1]])
            .status()
    };
    assert_eq!(if_range(&settled), 206);
    // In 2100, so that the file looks as if just changed for the whole test.
    let file = fs::File::options()
        .write(true)
        .open(&path)
        .expect("it is there");
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800);
    file.set_modified(later).expect("it is ours");
    let answer = site.get("/a.txt");
    let young = answer.field("etag").expect("a tag").to_owned();
    assert!(young.starts_with("W/\""), "{young}");
    assert_eq!(answer.field("last-modified"), answer.field("date"));
    assert_eq!(if_range(&young), 200);
    let again = site.ask("GET", "/a.txt", &[&format!("if-none-match: {young}")]);
    assert_eq!(again.status(), 304);
    assert_eq!(again.field("etag"), Some(&*young));
    let strictly = site.ask("GET", "/a.txt", &[&format!("if-match: {young}")]);
    assert_eq!(strictly.status(), 412);
}

/// Compares the responses of nginx and Steppe for the same folder.
#[test]
fn answers_are_those_of_nginx() {
    let nginx = Nginx::start(
        "charset utf-8; charset_types text/css text/plain; root {root}; max_ranges 16;
         types { text/html html; text/css css; text/plain txt; image/png png; application/json json; }",
    );
    let files = [
        ("index.html", "<p>index</p>"),
        ("a.txt", "0123456789"),
        ("b.css", "p {}"),
        ("c.png", "PNG"),
        ("d.json", "{}"),
        ("empty.txt", ""),
        ("unknown.unheard", "?"),
        ("with space.txt", "space"),
    ];
    let root = nginx.file(files[0].0, files[0].1);
    let root = root.parent().expect("a folder").to_owned();
    fs::create_dir(root.join("sub")).expect("a folder");
    for (name, content) in files.into_iter().chain([("sub/index.html", "sub")]) {
        let path = nginx.file(name, content);
        let file = fs::File::options()
            .write(true)
            .open(path)
            .expect("it is there");
        file.set_modified(long_ago()).expect("it is ours");
    }
    let node = Steppe::builder().start(serving(&root));
    let since = format!("if-modified-since: {LONG_AGO}");
    let until = "if-unmodified-since: Sun, 06 Nov 1994 08:49:36 GMT";
    let same = format!("if-range: {LONG_AGO}");
    let other = "if-range: Sun, 06 Nov 1994 08:49:38 GMT";
    let mut asked = 0;
    for method in ["GET", "HEAD"] {
        for (path, fields) in [
            ("/", &[][..]),
            ("/a.txt", &[]),
            ("/b.css", &[]),
            ("/c.png", &[]),
            ("/d.json", &[]),
            ("/empty.txt", &[]),
            ("/unknown.unheard", &[]),
            ("/with%20space.txt", &[]),
            ("/sub/", &[]),
            ("/sub", &[]),
            ("/missing", &[]),
            ("/a.txt/", &[]),
            ("/a.txt", &["range: bytes=0-0"]),
            ("/a.txt", &["range: bytes=2-5"]),
            ("/a.txt", &["range: bytes=5-"]),
            ("/a.txt", &["range: bytes=-3"]),
            ("/a.txt", &["range: bytes=-30"]),
            ("/a.txt", &["range: bytes=5-100"]),
            ("/a.txt", &["range: bytes=10-"]),
            ("/a.txt", &["range: lines=1-2"]),
            ("/a.txt", &[&*since]),
            ("/a.txt", &[until]),
            ("/a.txt", &["range: bytes=2-5", &same]),
            ("/a.txt", &["range: bytes=2-5", other]),
            ("/a.txt", &["if-none-match: *"]),
            ("/a.txt", &["if-match: \"x\""]),
        ] {
            // A HEAD has no ranges (RFC 9110 §14.2); nginx thinks otherwise.
            if method == "HEAD" && fields.iter().any(|field| field.starts_with("range")) {
                continue;
            }
            let lines: String = fields.iter().map(|line| format!("{line}\r\n")).collect();
            let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let answers = [nginx.address(), node.gateway()].map(|address| {
                let mut peer = steppe_testkit::Peer::connect(address);
                said(&peer.send(&request).response_to(method))
            });
            assert_eq!(answers[0], answers[1], "{request}");
            asked += 1;
        }
    }
    assert!(asked > 35, "{asked}");
}

/// The parts of a response that must be equal; the text of errors may differ.
#[derive(Debug, PartialEq)]
struct Said {
    status: u16,
    fields: Vec<(&'static str, Option<String>)>,
    content: Option<String>,
}

fn said(answer: &Message) -> Said {
    let field = |name| (name, answer.field(name).map(str::to_owned));
    let is_content = matches!(answer.status(), 200 | 206);
    let mut fields: Vec<_> = ["content-range", "last-modified"].map(field).into();
    if is_content {
        fields.extend(["content-length", "content-type"].map(field));
    }
    Said {
        status: answer.status(),
        fields,
        content: is_content.then(|| answer.text()),
    }
}

#[test]
fn encoded_forms_are_sent_to_those_who_take_them() {
    let site = Site::with(|r| r.set("files.precompressed", ["br", "gzip"]));
    let plain = "p { color: red }\n".repeat(100);
    let path = site.write("site.css", &plain);
    let zipped = std::process::Command::new("gzip")
        .arg("-k")
        .arg(&path)
        .status();
    assert!(zipped.is_ok_and(|status| status.success()), "gzip");
    site.write("site.css.br", "not really brotli");
    site.write("site.css.zst", "not asked for by the configuration");
    site.write("only/index.html", "plain");
    // curl decodes the coding that it requested.
    let curl = Curl::new(&site.node.url("/site.css"));
    let decoded = curl
        .args(["-H", "accept-encoding: gzip", "--compressed"])
        .run();
    assert_eq!(decoded.exit, 0, "{}", decoded.errors);
    assert_eq!(decoded.head.field("content-encoding"), Some("gzip"));
    assert_eq!(String::from_utf8_lossy(&decoded.body), plain);
    let ask =
        |path, accepted: &str| site.ask("GET", path, &[&format!("accept-encoding: {accepted}")]);
    let encoded = ask("/site.css", "gzip;q=0.5, br, zstd");
    assert_eq!(encoded.text(), "not really brotli");
    for (name, value) in [
        ("content-encoding", "br"),
        ("content-type", "text/css; charset=utf-8"),
        ("vary", "accept-encoding"),
    ] {
        assert_eq!(encoded.field(name), Some(value), "{name}");
    }
    let other = site.get("/site.css");
    assert_eq!(
        (other.field("content-encoding"), other.text()),
        (None, plain.clone())
    );
    assert_eq!(other.field("vary"), Some("accept-encoding"));
    assert_ne!(other.field("etag"), encoded.field("etag"));
    assert_eq!(ask("/site.css", "zstd").text(), plain);
    // This file has no encoded form.
    let answer = ask("/only/", "br, gzip");
    assert_eq!(
        (answer.field("content-encoding"), &*answer.text()),
        (None, "plain")
    );
    assert_eq!(ask("/only", "br").status(), 301);
    // An encoded form belongs to a file, not to a folder or a missing name.
    site.write("only.br", "of nothing");
    assert_eq!(ask("/only", "br").status(), 301);
    site.write("missing.gz", "of nothing");
    assert_eq!(ask("/missing", "gzip").status(), 404);
    assert_eq!(ask("/missing", "br").status(), 404);
    // Conditions and ranges apply to the form that is sent.
    let tag = format!("if-none-match: {}", encoded.field("etag").expect("a tag"));
    let again = site.ask("GET", "/site.css", &["accept-encoding: br", &tag]);
    assert_eq!(
        (again.status(), again.field("vary")),
        (304, Some("accept-encoding"))
    );
    assert_eq!(site.ask("GET", "/site.css", &[&tag]).status(), 200);
    let part = site.ask(
        "GET",
        "/site.css",
        &["accept-encoding: br", "range: bytes=0-2"],
    );
    assert_eq!((part.status(), &*part.text()), (206, "not"));
}
