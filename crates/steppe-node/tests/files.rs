//! Files of a folder, beside nginx on the same folder: what is found, which part of it, and what
//! nobody gets to see.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use steppe_testkit::{Curl, Message, Nginx, Peer, Scratch, Steppe, Wrk, heavy};

const STEPPE: &str = env!("CARGO_BIN_EXE_steppe");

/// nginx, and a node with the same folder below `/assets/`.
struct Site {
    nginx: Nginx,
    node: Steppe,
    root: PathBuf,
}

const FILES: &str = "files = { root = \"{root}\", index = \"index.html\" }";

fn configuration(files: &str) -> String {
    Steppe::PLAIN
        .replace("path = \"/{rest*}\"", "path = \"/assets/{rest*}\"")
        .replace("upstream = \"origin\"", files)
}

fn node(root: &Path, files: &str) -> Steppe {
    Steppe::builder(STEPPE)
        .with("origin", "127.0.0.1:1")
        .with("root", root.display())
        .start(&configuration(files))
}

impl Site {
    fn start() -> Self {
        let nginx = Nginx::start(
            "types { text/html html; text/css css; text/javascript js; image/svg+xml svg; \
             application/json json; image/png png; }
             charset utf-8; charset_types text/html text/css text/javascript text/plain;
             location /assets/ { alias {root}/; index index.html; }",
        );
        let root = nginx.file("hello.txt", "hello, files\n");
        let root = root.parent().expect("it is in a folder").to_owned();
        let node = node(&root, FILES);
        Self { nginx, node, root }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        let folder = path.parent().expect("it is in a folder");
        fs::create_dir_all(folder).expect("a folder");
        fs::write(&path, content).expect("a file");
        path
    }

    fn get(&self, path: &str) -> Message {
        self.ask("GET", path, "")
    }

    fn ask(&self, method: &str, path: &str, fields: &str) -> Message {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        self.node.connect().send(request).response_to(method)
    }
}

/// Old enough for its tag to be strong.
fn age(path: &Path) {
    let hour = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let file = fs::File::options().write(true).open(path).expect("a file");
    file.set_modified(hour).expect("its owner may");
}

/// The status, the content and every field that is not a name of the server or a tag: as nginx has them.
#[test]
fn answers_are_those_of_nginx() {
    let site = Site::start();
    for (name, content) in [
        ("index.html", "<p>home"),
        ("sub/index.html", "<p>sub"),
        ("sub/style.css", "a {}"),
        ("app.js", "1"),
        ("data.json", "{}"),
        ("logo.svg", "<svg/>"),
        ("empty.css", ""),
        ("a b \u{e9}.html", "spaces"),
        ("bare/only.html", "no index here"),
    ] {
        age(&site.write(name, content));
    }
    let tenth = "x".repeat(100);
    age(&site.write("hundred.css", tenth));
    let date = "Tue, 14 Nov 2023 22:13:20 GMT";
    let requests: &[(&str, &str, &str)] = &[
        ("GET", "/assets/", ""),
        ("GET", "/assets/index.html", ""),
        ("HEAD", "/assets/index.html", ""),
        ("GET", "/assets/sub/", ""),
        ("GET", "/assets/sub/style.css", ""),
        ("GET", "/assets/app.js", ""),
        ("GET", "/assets/data.json", ""),
        ("GET", "/assets/logo.svg", ""),
        ("GET", "/assets/empty.css", ""),
        ("GET", "/assets/a%20b%20%C3%A9.html", ""),
        ("GET", "/assets/hundred.css?x=1", ""),
        ("GET", "/assets/hundred.css", "Range: bytes=0-9\r\n"),
        ("HEAD", "/assets/hundred.css", ""),
        ("GET", "/assets/hundred.css", "Range: bytes=90-\r\n"),
        ("GET", "/assets/hundred.css", "Range: bytes=-5\r\n"),
        ("GET", "/assets/hundred.css", "Range: bytes=50-500\r\n"),
        ("GET", "/assets/hundred.css", "Range: bytes=100-\r\n"),
        ("GET", "/assets/hundred.css", "Range: lines=1-2\r\n"),
        (
            "GET",
            "/assets/hundred.css",
            "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n",
        ),
        (
            "GET",
            "/assets/hundred.css",
            "If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT\r\n",
        ),
        (
            "GET",
            "/assets/hundred.css",
            "If-Modified-Since: yesterday\r\n",
        ),
        (
            "GET",
            "/assets/hundred.css",
            "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT\r\n",
        ),
        ("GET", "/assets/hundred.css", "If-None-Match: \"other\"\r\n"),
        ("GET", "/assets/hundred.css", "If-Match: \"other\"\r\n"),
        (
            "GET",
            "/assets/hundred.css",
            "Range: bytes=0-9\r\nIf-Range: \"other\"\r\n",
        ),
        (
            "GET",
            "/assets/hundred.css",
            "Range: bytes=0-9\r\nIf-Range: Tue, 14 Nov 2023 22:13:20 GMT\r\n",
        ),
        ("GET", "/assets/missing", ""),
        ("GET", "/assets/sub/missing/", ""),
        ("GET", "/assets/index.html/", ""),
        ("POST", "/assets/index.html", "Content-Length: 0\r\n"),
        ("GET", "/assets/sub", ""),
    ];
    for (method, path, fields) in requests {
        let ours = site.ask(method, path, fields);
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut peer = Peer::connect(site.nginx.address());
        let theirs = peer.send(request).response_to(method);
        let what = format!("{method} {path} {fields}");
        assert_eq!(ours.status(), theirs.status(), "{what}");
        if matches!(ours.status(), 200 | 206 | 304) {
            assert_eq!(ours.body, theirs.body, "{what}");
            for name in [
                "content-length",
                "content-type",
                "content-range",
                "last-modified",
            ] {
                if (ours.status(), name) != (304, "content-type") {
                    assert_eq!(ours.field(name), theirs.field(name), "{what}: {name}");
                }
            }
            assert_eq!(ours.field("last-modified"), Some(date), "{what}");
        }
        if ours.status() == 416 {
            assert_eq!(ours.field("content-range"), theirs.field("content-range"));
        }
    }
    assert_eq!(
        site.get("/assets/sub?a=b").field("location"),
        Some("/assets/sub/?a=b")
    );
    let allowed = site.ask("DELETE", "/assets/index.html", "");
    assert_eq!(
        (allowed.status(), allowed.field("allow")),
        (405, Some("GET, HEAD"))
    );
    // Where nginx says 403, there is nothing to be seen.
    assert_eq!(site.get("/assets/bare/").status(), 404);
}

#[test]
fn validators_are_strong_once_they_are_sure() {
    let site = Site::start();
    let path = site.write("a.html", "first");
    let tag_of = || {
        site.get("/assets/a.html")
            .field("etag")
            .expect("a tag")
            .to_owned()
    };
    let young = tag_of();
    assert!(young.starts_with("W/\""), "{young}");
    age(&path);
    let tag = tag_of();
    assert!(tag.starts_with('"'), "{tag}");
    let ask = |fields: &str| site.ask("GET", "/assets/a.html", fields);
    for (fields, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: W/{tag}\r\n"), 304),
        (format!("If-None-Match: \"x\", {tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        (format!("If-Match: {tag}\r\n"), 200),
        ("If-Match: *\r\n".to_owned(), 200),
        (format!("If-Match: W/{tag}\r\n"), 412),
        (format!("If-Range: {tag}\r\nRange: bytes=1-2\r\n"), 206),
        (format!("If-Range: W/{tag}\r\nRange: bytes=1-2\r\n"), 200),
        // A tag outweighs a date.
        (
            format!(
                "If-None-Match: {young}\r\nIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"
            ),
            200,
        ),
    ] {
        let answer = ask(&fields);
        assert_eq!(answer.status(), status, "{fields}");
        if status == 304 {
            assert_eq!(answer.field("etag"), Some(tag.as_str()));
        }
    }
    // Another file of the same length and time is another.
    fs::remove_file(&path).expect("it is there");
    site.write("other", "");
    age(&site.write("a.html", "other"));
    assert_eq!(ask(&format!("If-None-Match: {tag}\r\n")).status(), 200);
}

#[test]
fn several_ranges_come_in_parts() {
    let site = Site::start();
    site.write("digits.css", "0123456789");
    let answer = site.ask("GET", "/assets/digits.css", "Range: bytes=7-8,0-1,-1\r\n");
    assert_eq!(answer.status(), 206);
    let kind = answer.field("content-type").expect("a type");
    let (kind, boundary) = kind.split_once("; boundary=").expect("a boundary");
    assert_eq!(kind, "multipart/byteranges");
    let part = |range: &str, text: &str| {
        format!(
            "\r\n--{boundary}\r\ncontent-type: text/css; charset=utf-8\r\n\
             content-range: bytes {range}/10\r\n\r\n{text}"
        )
    };
    let parts = [part("7-8", "78"), part("0-1", "01"), part("9-9", "9")].concat();
    assert_eq!(answer.text(), format!("{parts}\r\n--{boundary}--\r\n"));
    for ranges in ["0-3,2-5", &"0-0,2-2,".repeat(9)] {
        let answer = site.ask(
            "GET",
            "/assets/digits.css",
            &format!("Range: bytes={ranges}\r\n"),
        );
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (200, "0123456789")
        );
    }
}

/// A download that was cut is resumed by curl.
#[test]
fn curl_resumes_a_download() {
    let site = Site::start();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    age(&site.write("large.bin", &bytes));
    let scratch = Scratch::new("resume");
    let saved = scratch.write("large.bin", &bytes[..1_234_567]);
    let url = site.node.url("/assets/large.bin");
    let curl = Curl::new(&url).args(["-C", "-", "-o", saved.to_str().expect("UTF-8")]);
    let output = curl.run();
    assert_eq!(output.exit, 0, "{}", output.errors);
    assert!(fs::read(&saved).expect("it is there") == bytes);
    let curl = Curl::new(&url).args(["-z", saved.to_str().expect("UTF-8"), "-w", "%{http_code}"]);
    assert_eq!(curl.run().body, b"304");
}

/// Bytes far inside a file that is larger than memory, and memory does not follow.
#[test]
fn a_huge_file_is_not_held() {
    let site = Site::start();
    let path = site.root.join("huge.bin");
    let file = fs::File::create(&path).expect("a file");
    file.set_len(5 << 30).expect("it is sparse");
    file.write_all_at(b"the end", (5 << 30) - 7).expect("room");
    let answer = site.ask("GET", "/assets/huge.bin", "Range: bytes=-7\r\n");
    assert_eq!(answer.text(), "the end");
    assert_eq!(
        answer.field("content-range"),
        Some("bytes 5368709113-5368709119/5368709120")
    );
    let _one = heavy();
    let url = site.node.url("/assets/huge.bin");
    let output = Curl::new(&url)
        .args(["-r", "0-999999999", "-o", "/dev/null"])
        .run();
    assert_eq!(output.exit, 0);
    let memory = site.node.admin_json("/memory").to_string();
    let peak = site
        .node
        .metrics()
        .sum("steppe_budget_peak_bytes", &[("account", "node/route all")]);
    assert!((1.0..2e6).contains(&peak), "{peak}: {memory}");
}

#[test]
fn what_is_not_for_everybody_is_not_there() {
    let site = Site::start();
    let outside = Scratch::new("outside");
    let secret = outside.write("secret.txt", "secret");
    site.write(".env", "secret");
    site.write(".git/config", "secret");
    site.write("sub/.hidden", "secret");
    site.write(".well-known/x", "shown");
    site.write("sub/real.txt", "real");
    let link = |target: &Path, name: &str| symlink(target, site.root.join(name)).expect("a link");
    link(&secret, "direct.txt");
    link(outside.path(), "folder");
    link(Path::new("/"), "slash");
    link(Path::new("../../../../../../../../etc/passwd"), "dots");
    link(Path::new("/proc/self/root/etc/passwd"), "magic");
    link(Path::new("loop"), "loop");
    link(Path::new("sub/real.txt"), "inside.txt");
    let made = Command::new("mkfifo").arg(site.root.join("pipe")).status();
    assert!(made.expect("mkfifo is there").success());
    for path in [
        "/assets/.env",
        "/assets/.git/config",
        "/assets/%2egit/config",
        "/assets/sub/.hidden",
        "/assets/direct.txt",
        "/assets/folder/secret.txt",
        "/assets/slash/etc/passwd",
        "/assets/dots",
        "/assets/magic",
        "/assets/loop",
        "/assets/pipe",
        "/assets/sub/real.txt/",
        "/assets/hello.txt%00",
        "/assets/..;/secret.txt",
    ] {
        let answer = site.get(path);
        assert!(matches!(answer.status(), 400 | 404), "{path}: {answer:?}");
        assert!(!answer.text().contains("secret") && !answer.text().contains("root:"));
    }
    assert_eq!(site.get("/assets/.well-known/x").text(), "shown");
    assert_eq!(
        site.get("/assets/inside.txt").text(),
        "real",
        "links within are followed"
    );
    for path in [
        "/assets/../steppe.toml",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets",
    ] {
        assert_eq!(site.get(path).status(), 404, "{path}");
    }
    fs::set_permissions(
        site.root.join("hello.txt"),
        std::os::unix::fs::PermissionsExt::from_mode(0),
    )
    .expect("its owner may");
    let answer = site.get("/assets/hello.txt");
    // Root may read whatever it likes.
    assert!(matches!(answer.status(), 403 | 200), "{answer:?}");
}

/// A folder that becomes a link to the outside, again and again, while it is asked for.
#[test]
fn links_that_are_swapped_meanwhile_lead_nowhere() {
    let _one = heavy();
    let site = Site::start();
    let outside = Scratch::new("outside");
    outside.write("name.txt", "secret");
    site.write("inner/name.txt", "public");
    let (real, place) = (site.root.join("inner"), site.root.join("place"));
    let (other, away) = (site.root.join("other"), site.root.join("away"));
    symlink(outside.path(), &other).expect("a link");
    fs::rename(&real, &place).expect("it is there");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (from, to) in [
                    (&place, &away),
                    (&other, &place),
                    (&place, &other),
                    (&away, &place),
                ] {
                    fs::rename(from, to).expect("it is there");
                }
            }
        });
        let mut peer = site.node.connect();
        let (mut found, mut missing) = (0, 0);
        for _ in 0..5000 {
            let answer = peer
                .send("GET /assets/place/name.txt HTTP/1.1\r\nHost: a\r\n\r\n")
                .response();
            match (answer.status(), answer.text().as_str()) {
                (200, "public") => found += 1,
                (404, _) => missing += 1,
                _ => panic!("{answer:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(found > 0 && missing > 0, "{found} found, {missing} missing");
    });
}

/// What is missing is not made up: the connection ends.
#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
    let site = Site::start();
    let path = site.write("shrinks.bin", vec![b'x'; 64 << 20]);
    let mut peer = Peer::connect_narrow(site.node.gateway(), 8 << 10);
    peer.send("GET /assets/shrinks.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        peer.head().expect("a head").field("content-length"),
        Some("67108864")
    );
    peer.bytes(1000);
    fs::File::options()
        .write(true)
        .open(&path)
        .expect("a file")
        .set_len(1 << 20)
        .expect("ours");
    let rest = peer.rest();
    assert!(rest.len() < 64 << 20, "{}", rest.len());
    assert!(rest.iter().all(|&byte| byte == b'x'));
    // One that is replaced is sent as it was.
    let path = site.write("replaced.bin", vec![b'a'; 8 << 20]);
    let mut peer = Peer::connect_narrow(site.node.gateway(), 8 << 10);
    peer.send("GET /assets/replaced.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    peer.head();
    let next = site.write("next.bin", vec![b'b'; 9 << 20]);
    fs::rename(next, path).expect("it is there");
    let rest = peer.rest();
    assert_eq!(rest.len(), 8 << 20);
    assert!(rest.iter().all(|&byte| byte == b'a'));
    assert!(site.get("/assets/replaced.bin").body.starts_with(b"b"));
}

#[test]
fn many_are_served_under_load() {
    let _one = heavy();
    let site = Site::start();
    site.write("page.html", "x".repeat(1000));
    site.write("large.bin", vec![7; 300_000]);
    for (path, connections) in [("/assets/page.html", 64), ("/assets/large.bin", 16)] {
        let run = Wrk::new(&site.node.url(path), connections, 2).run();
        assert_eq!((run.errors, run.refused), (0, 0), "{}", run.text);
        assert!(run.requests > 100, "{}", run.text);
    }
}

#[test]
fn a_root_is_looked_at_at_the_start_and_at_reloads() {
    let scratch = Scratch::new("roots");
    for name in ["one", "two"] {
        fs::create_dir(scratch.join(name)).expect("a folder");
        scratch.write(&format!("{name}/name.txt"), name);
    }
    let node = node(&scratch.join("one"), FILES);
    let get = || {
        node.exchange("GET /assets/name.txt HTTP/1.1\r\nHost: a\r\n\r\n")
            .text()
    };
    assert_eq!(get(), "one");
    let config = node.config();
    let two = config.replace("/one\"", "/two\"");
    node.set_config(&config.replace("/one\"", "/three\""));
    let refused = node.admin_post("/reload");
    assert_eq!(refused.status(), 422);
    assert!(
        refused.text().contains("http.route.files.root"),
        "{}",
        refused.text()
    );
    assert_eq!(get(), "one");
    node.set_config(&two);
    assert_eq!(node.admin_post("/reload").status(), 200);
    assert_eq!(get(), "two");
    // A root that is replaced is followed, as a release is swapped by a link.
    fs::rename(scratch.join("two"), scratch.join("old")).expect("it is there");
    fs::rename(scratch.join("one"), scratch.join("two")).expect("it is there");
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while get() != "one" {
        assert!(
            std::time::Instant::now() < end,
            "the old folder is still served"
        );
    }
    let missing = scratch.write("steppe.toml", two.replace("/two\"", "/three\""));
    let output = Command::new(STEPPE)
        .arg("run")
        .arg("-c")
        .arg(missing)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("http.route.files.root"));
}

/// Without the key, a folder has no face.
#[test]
fn an_index_is_served_where_it_is_asked_for() {
    let site = Site::start();
    site.write("index.html", "<p>home");
    site.write("start.html", "<p>start");
    for (files, text) in [
        (FILES, Some("<p>home")),
        (
            "files = { root = \"{root}\", index = \"start.html\" }",
            Some("<p>start"),
        ),
        ("files = { root = \"{root}\" }", None),
    ] {
        let node = node(&site.root, files);
        let answer = node.exchange("GET /assets/ HTTP/1.1\r\nHost: a\r\n\r\n");
        match text {
            Some(text) => assert_eq!(answer.text(), text),
            None => assert_eq!(answer.status(), 404),
        }
    }
}
