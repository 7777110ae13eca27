//! Files of a folder, through the whole node.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use steppe_testkit::{Message, Scratch, Steppe};

const STEPPE: &str = env!("CARGO_BIN_EXE_steppe");

/// A folder, and a node that serves it.
struct Site {
    folder: Scratch,
    node: Steppe,
}

impl Site {
    fn new() -> Self {
        Self::at("/{rest*}", "")
    }

    /// At this path, with further keys of `files`.
    fn at(path: &str, keys: &str) -> Self {
        let folder = Scratch::new("site");
        let toml = Steppe::PLAIN
            .replace("[http.upstream.origin]\nservers = [\"{origin}\"]\n", "")
            .replace(
                "upstream = \"origin\"",
                "files = { root = \"{root}\"{keys} }",
            )
            .replace("path = \"/{rest*}\"", &format!("path = \"{path}\""));
        let node = Steppe::builder(STEPPE)
            .with("root", folder.path().display())
            .with("keys", keys)
            .start(&toml);
        Self { folder, node }
    }

    /// Writes a file that was changed long ago.
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

/// 1994-11-06 08:49:37.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

const LONG_AGO: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

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
    let site = Site::at("/static/{rest*}", ", index = \"main.html\"");
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
