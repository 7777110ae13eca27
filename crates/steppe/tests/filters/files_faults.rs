//! Files that change, are hidden or in the way while they are served, and many at once.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use steppe_testkit::{
    Curl, MemoryMeter, NodeConfig, Peer, Scratch, Steppe, Wrk, eventually, skip, thread_count,
};

fn serving(folder: &Scratch) -> Steppe {
    Steppe::builder().start(config(folder.path()))
}

/// A configuration whose one route serves this folder.
fn config(root: &Path) -> NodeConfig {
    NodeConfig::bare().add_route("all", |r| r.path("/{rest*}").set("files.root", root))
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A folder is replaced by a link outside, and back, while files in it are requested.
#[test]
fn a_link_that_is_swapped_leads_nowhere() {
    let outside = Scratch::new("outside");
    outside.write("passwd", "secret");
    let folder = Scratch::new("site");
    fs::create_dir(folder.join("real")).expect("a folder");
    folder.write("real/passwd", "public");
    symlink(outside.path(), folder.join("link")).expect("a link");
    let node = serving(&folder);
    let is_over = AtomicBool::new(false);
    let (mut public, mut missing) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [real, link, now] = ["real", "link", "now"].map(|name| folder.join(name));
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(&real, &now).expect("it is there");
                fs::rename(&now, &real).expect("it is there");
                fs::rename(&link, &now).expect("it is there");
                fs::rename(&now, &link).expect("it is there");
            }
        });
        let mut peer = node.connect();
        for _ in 0..20_000 {
            let answer = peer.send(request("/now/passwd")).response();
            match (answer.status(), &*answer.text()) {
                (200, "public") => public += 1,
                (404, _) => missing += 1,
                other => panic!("{other:?}"),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // Otherwise the swap did not happen in between.
    assert!(public > 0 && missing > 0, "{public} {missing}");
}

/// Bytes of a file that exceeds the socket buffers in between.
const LARGE: usize = 32 << 20;

/// Requests a large file with a small receive buffer: some of it was sent, and no more comes.
fn begin(node: &Steppe) -> Peer {
    let mut peer = Peer::connect_narrow(node.gateway(), 4096);
    peer.send(request("/large"));
    let head = peer.head().expect("a response");
    assert_eq!(head.field("content-length"), Some(&*LARGE.to_string()));
    peer
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_the_connection() {
    let folder = Scratch::new("site");
    let path = folder.write("large", vec![7; LARGE]);
    let node = serving(&folder);
    let mut peer = begin(&node);
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_len(1000).expect("it is ours");
    let rest = peer.rest();
    assert!(rest.len() < LARGE, "{} bytes", rest.len());
    assert!(rest.iter().all(|&byte| byte == 7), "it was padded");
    let failed = [("reason", "file_failed")];
    eventually("it is counted with its reason", || {
        node.metrics().sum("steppe_http_closed_total", &failed) > 0.0
    });
    assert_eq!(node.exchange(request("/large")).body.len(), 1000);
}

#[test]
fn what_is_added_to_a_file_while_it_is_sent_is_not() {
    let folder = Scratch::new("site");
    let path = folder.write("large", vec![7; LARGE]);
    let node = serving(&folder);
    let mut peer = begin(&node);
    let mut file = File::options()
        .append(true)
        .open(path)
        .expect("it is there");
    file.write_all(&[8; 1000]).expect("it is ours");
    let content = peer.bytes(LARGE);
    assert!(content.iter().all(|&byte| byte == 7));
    assert_eq!(peer.send(request("/missing")).response().status(), 404);
}

#[test]
fn what_is_no_file_is_not_there() {
    let folder = Scratch::new("site");
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("fifo"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("bound");
    symlink("loop", folder.join("loop")).expect("a link");
    let node = serving(&folder);
    let mut peer = node.connect();
    for path in [
        "/fifo",
        "/socket",
        "/loop",
        "/fifo/a",
        &format!("/{}", "a".repeat(300)),
    ] {
        assert_eq!(peer.send(request(path)).response().status(), 404, "{path}");
    }
}

#[test]
fn the_end_of_a_huge_file_is_sent_in_flat_memory() {
    const HUGE: u64 = 5 << 30;
    const TAIL: u64 = 256 << 20;
    let folder = Scratch::new("site");
    let file = File::create(folder.join("huge")).expect("a file");
    file.set_len(HUGE).expect("a sparse file");
    file.write_all_at(b"the end", HUGE - 7).expect("it is ours");
    let node = serving(&folder);
    let last = Curl::new(&node.url("/huge")).args(["-r", "-7"]).run();
    let range = format!("bytes {}-{}/{HUGE}", HUGE - 7, HUGE - 1);
    assert_eq!(last.head.field("content-range"), Some(&*range));
    assert_eq!(last.body, b"the end");
    let meter = MemoryMeter::watch(node.id());
    let tail = Curl::new(&node.url("/huge"))
        .args(["-r", &format!("-{TAIL}")])
        .run();
    let peak = meter.finish();
    assert_eq!((tail.exit, tail.body.len() as u64), (0, TAIL));
    assert!(tail.body.ends_with(b"\0the end"));
    println!("{peak:?}");
    assert!(peak.high_water_bytes < TAIL / 2, "{peak:?}");
}

#[test]
fn many_are_served_at_once() {
    let folder = Scratch::new("site");
    folder.write("small.txt", "x".repeat(1000));
    folder.write("large.bin", vec![1; 1 << 20]);
    let node = serving(&folder);
    for path in ["/small.txt", "/large.bin"] {
        let run = Wrk::new(&node.url(path), 64, 2).run();
        assert!(run.requests > 64, "{}", run.text);
        assert_eq!((run.refused, run.errors), (0, 0), "{}", run.text);
    }
}

/// The configured name is served, whatever folder it leads to by now.
#[test]
fn a_folder_that_is_replaced_is_served_anew() {
    let site = Scratch::new("site");
    for release in ["one", "two"] {
        fs::create_dir(site.join(release)).expect("a folder");
        site.write(&format!("{release}/a.txt"), release);
    }
    symlink("one", site.join("current")).expect("a link");
    let node = Steppe::builder().start(config(&site.join("current")));
    assert_eq!(node.exchange(request("/a.txt")).text(), "one");
    symlink("two", site.join("next")).expect("a link");
    fs::rename(site.join("next"), site.join("current")).expect("it can be replaced");
    eventually("the new one is served", || {
        node.exchange(request("/a.txt")).text() == "two"
    });
}

#[test]
fn a_reload_changes_folders_or_is_refused() {
    let folder = Scratch::new("site");
    for name in ["one", "two"] {
        fs::create_dir(folder.join(name)).expect("a folder");
        folder.write(&format!("{name}/a.txt"), name);
    }
    let node = Steppe::builder().start(config(&folder.join("one")));
    let mut peer = node.connect();
    assert_eq!(peer.send(request("/a.txt")).response().text(), "one");
    node.set_config(config(&folder.join("three")));
    let refused = node.admin_post("/reload");
    assert_ne!(refused.status(), 200);
    assert!(refused.text().contains("/three"), "{}", refused.text());
    assert_eq!(peer.send(request("/a.txt")).response().text(), "one");
    node.set_config(config(&folder.join("two")));
    assert_eq!(node.admin_post("/reload").status(), 200);
    assert_eq!(peer.send(request("/a.txt")).response().text(), "two");
}

/// A file that is not in the page cache is read by a thread that may block.
#[test]
fn what_lies_on_the_disk_alone_is_served_too() {
    let folder = Scratch::new("site");
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    folder.write("cold", &content);
    let file = File::open(folder.join("cold")).expect("it is there");
    let system = rustix::fs::fstatfs(&file).expect("it is on one");
    if system.f_type == TMPFS {
        return skip("cold files", "temporary files are in memory");
    }
    file.sync_all().expect("it is written");
    let node = serving(&folder);
    let mut peer = node.connect();
    // The file's name is cached from here on.
    peer.send("HEAD /cold HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.response_to("HEAD").status(), 200);
    let is_awaited = (0..50).any(|_| {
        let whole = None;
        rustix::fs::fadvise(&file, 0, whole, rustix::fs::Advice::DontNeed).expect("advice");
        let before = thread_count(node.id());
        let answer = peer.send(request("/cold")).response();
        assert!(answer.body == content, "{} bytes", answer.body.len());
        thread_count(node.id()) > before
    });
    assert!(is_awaited, "no thread waited");
}

/// `TMPFS_MAGIC` of the kernel.
const TMPFS: i64 = 0x0102_1994;
