//! Lines that are written and lines that are lost, and the counts of both.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use steppe_mem::{Budget, Lease};

use super::*;
use crate::limits::{LINE_BUFFER_BYTES, LINE_BUFFERS_IDLE_MAX, LINE_BYTES_MAX};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("steppe-log-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lease() -> (Budget, Lease) {
    let budget = Budget::new(64 << 20);
    let lease = budget.root().child("log", None).lease();
    (budget, lease)
}

fn file(name: &str) -> (Folder, PathBuf, LineLog) {
    let folder = Folder::new(name);
    let path = folder.0.join("a.log");
    let log = LineLog::open(Destination::File(path.clone()), 2).expect("it can be made");
    (folder, path, log)
}

#[test]
fn every_line_of_every_worker_is_written_in_its_order() {
    // So few lines that a worker's buffers hold them all: none may be dropped.
    const LINES: usize = 10_000;
    let (_folder, path, log) = file("order");
    let threads: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let log = log.clone();
            std::thread::spawn(move || {
                let (_budget, lease) = lease();
                let mut writer = log.writer(lease);
                for number in 0..LINES {
                    let text = format!("{name} {number} {}", "x".repeat(number % 97));
                    writer.line(|line| line.put(text.as_bytes()));
                    if number % 1000 == 0 {
                        writer.flush();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("nothing panics");
    }
    assert!(log.close(TIMEOUT));
    let text = fs::read_to_string(path).expect("a file");
    for name in ["a ", "b "] {
        let numbers = text.lines().filter_map(|line| line.strip_prefix(name));
        let numbers = numbers.map(|line| line.split(' ').next().map(str::parse));
        let numbers: Vec<usize> = numbers.flatten().flatten().collect();
        assert!(numbers.into_iter().eq(0..LINES));
    }
    assert_eq!((log.written(), log.dropped()), (2 * LINES as u64, 0));
}

#[test]
fn a_file_that_was_moved_away_is_followed_by_a_new_one() {
    let (folder, path, log) = file("reopen");
    let (_budget, lease) = lease();
    let mut writer = log.writer(lease);
    writer.line(|line| line.put(b"first"));
    writer.flush();
    let moved = folder.0.join("a.log.1");
    fs::rename(&path, &moved).expect("a file");
    writer.line(|line| line.put(b"second"));
    writer.flush();
    log.reopen();
    writer.line(|line| line.put(b"third"));
    drop(writer);
    assert!(log.close(TIMEOUT));
    assert_eq!(
        fs::read_to_string(moved).expect("a file"),
        "first\nsecond\n"
    );
    assert_eq!(fs::read_to_string(path).expect("a file"), "third\n");
}

#[test]
fn what_exists_is_kept() {
    let folder = Folder::new("append");
    let path = folder.0.join("a.log");
    fs::write(&path, "before\n").expect("a file");
    let log = LineLog::open(Destination::File(path.clone()), 1).expect("a file");
    let (_budget, lease) = lease();
    let mut writer = log.writer(lease);
    writer.line(|line| line.put(b"after"));
    drop(writer);
    assert!(log.close(TIMEOUT));
    assert_eq!(fs::read_to_string(path).expect("a file"), "before\nafter\n");
}

#[test]
fn a_reader_that_stands_still_costs_lines_and_not_time() {
    let folder = Folder::new("pipe");
    let path = folder.0.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
    let nobody = LineLog::open(Destination::File(path.clone()), 1);
    assert!(nobody.is_err(), "nobody reads it");
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path);
    let mut reader = reader.expect("both ends at once don't wait");
    let log = LineLog::open(Destination::File(path), 1).expect("somebody reads it");
    let (budget, lease) = lease();
    let mut writer = log.writer(lease);
    // More lines than the pipe and all buffers hold.
    let wanted = (LINE_BUFFERS_MAX + 4) * LINE_BUFFER_BYTES / 1024;
    for _ in 0..wanted {
        writer.line(|line| line.put(&[b'x'; 1023]));
    }
    assert!(log.dropped() > 0);
    let most = ((LINE_BUFFERS_MAX + 1) * LINE_BUFFER_BYTES) as u64;
    assert!(budget.root().reserved_bytes() <= most);
    // The reader goes on: all lines that were kept arrive, and the counts add up.
    let kept = wanted as u64 - log.dropped();
    let mut arrived = vec![0; usize::try_from(kept).expect("some thousands") * 1024];
    writer.flush();
    reader.read_exact(&mut arrived).expect("whole lines");
    assert!(arrived.chunks(1024).all(|line| line[1023] == b'\n'));
    assert!(log.close(TIMEOUT));
    assert_eq!(log.written() + log.dropped(), wanted as u64);
    assert_eq!(log.written(), kept);
}

#[test]
fn a_full_disk_is_counted_and_nothing_stops() {
    let log = LineLog::open(Destination::File("/dev/full".into()), 1).expect("a device");
    let (_budget, lease) = lease();
    let mut writer = log.writer(lease);
    for _ in 0..3 {
        writer.line(|line| line.put(b"lost"));
        writer.flush();
    }
    drop(writer);
    assert!(log.close(TIMEOUT));
    let counts = (log.written(), log.dropped(), log.write_errors());
    assert_eq!(counts, (0, 3, 3));
}

#[test]
fn a_budget_without_room_costs_lines() {
    let (_folder, _path, log) = file("budget");
    let budget = Budget::new(64 << 20);
    let lease = budget.root().child("log", Some(1024)).lease();
    let mut writer = log.writer(lease);
    writer.line(|line| line.put(b"lost"));
    drop(writer);
    assert!(log.close(TIMEOUT));
    assert_eq!((log.written(), log.dropped()), (0, 1));
}

#[test]
fn a_line_that_fits_no_buffer_is_dropped_and_its_neighbors_are_not() {
    let (_folder, path, log) = file("long");
    let (_budget, lease) = lease();
    let mut writer = log.writer(lease);
    let long = vec![b'x'; LINE_BYTES_MAX];
    writer.line(|line| line.put(b"before"));
    writer.line(|line| line.put(&long));
    writer.line(|line| line.put(b"after"));
    drop(writer);
    assert!(log.close(TIMEOUT));
    assert_eq!(fs::read_to_string(path).expect("a file"), "before\nafter\n");
    assert_eq!(log.dropped(), 1);
}

#[test]
fn buffers_go_back_when_it_is_quiet() {
    let (_folder, _path, log) = file("quiet");
    let (budget, lease) = lease();
    let mut writer = log.writer(lease);
    for _ in 0..8 * LINE_BUFFER_BYTES / 1024 {
        writer.line(|line| line.put(&[b'x'; 1023]));
    }
    // The thread gives buffers back; each flush frees the surplus.
    let most = LINE_BUFFERS_IDLE_MAX * LINE_BUFFER_BYTES;
    for _ in 0..1000 {
        writer.flush();
        if writer.charges.len() <= LINE_BUFFERS_IDLE_MAX {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(writer.charges.len() * LINE_BUFFER_BYTES <= most);
    drop(writer);
    drop(budget);
}
