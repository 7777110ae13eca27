//! Samples of the node, one a second.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use steppe_testkit::{Peer, SteadyLoad, TcpStates, resident_bytes};

use super::site::Fault;

/// Growth allowed from the first third to the last, by the medians of both.
///
/// Buffers that are kept for the next burst and the allocator's own change by some hundred KiB up
/// and down. A leak of a byte a request would make 10 MB in a third of the whole night, at the
/// 15,000 requests a second of a small machine.
const GROWTH_BYTES_MAX: u64 = 2 << 20;

/// A sample of one second, and its line.
#[derive(Debug, Clone)]
struct Sample {
    anonymous_bytes: u64,
    reserved_bytes: u64,
    limit_bytes: u64,
    close_wait: usize,
    text: String,
}

/// The samples so far, and their file.
pub struct Diary {
    pid: u32,
    admin: SocketAddr,
    began_at: Instant,
    path: PathBuf,
    file: File,
    samples: Vec<Sample>,
}

impl Diary {
    /// Opens the diary of the node with this process ID and admin address.
    pub fn open(pid: u32, admin: SocketAddr) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("night.csv");
        let mut file = File::create(&path).expect("the target folder is writable");
        let names = "second,fault,served,failed,established,close_wait,rss,anonymous,reserved";
        writeln!(file, "{names}").expect("there is room");
        Self {
            pid,
            admin,
            began_at: Instant::now(),
            path,
            file,
            samples: Vec::new(),
        }
    }

    /// Adds a sample each second until `end`, at least one.
    pub fn note_until(&mut self, end: Instant, fault: Fault, load: &SteadyLoad) {
        loop {
            self.note(fault, load);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // One sample a second.
            std::thread::sleep(left.min(Duration::from_secs(1)));
        }
    }

    fn note(&mut self, fault: Fault, load: &SteadyLoad) {
        let established = TcpStates::of(self.pid).established();
        let close_wait = TcpStates::forgotten(self.pid);
        let [rss, anonymous_bytes] = resident_bytes(self.pid);
        let [reserved_bytes, limit_bytes] = self.budget();
        let text = format!(
            "{},{fault:?},{},{},{},{},{rss},{anonymous_bytes},{reserved_bytes}",
            self.began_at.elapsed().as_secs(),
            load.served(),
            load.failures().len(),
            established,
            close_wait,
        );
        writeln!(self.file, "{text}").expect("there is room");
        self.samples.push(Sample {
            anonymous_bytes,
            reserved_bytes,
            limit_bytes,
            close_wait,
            text,
        });
    }

    fn budget(&self) -> [u64; 2] {
        let host = self.admin;
        let request = format!("GET /memory HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let answer = Peer::connect(host).send(request).response();
        let report: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        ["reserved_bytes", "limit_bytes"].map(|key| {
            let bytes = report["budget"][key].as_u64();
            bytes.unwrap_or_else(|| panic!("no {key}: {report}"))
        })
    }

    /// The last line.
    pub fn last(&self) -> &str {
        self.samples.last().map_or("", |sample| &sample.text)
    }

    /// Checks each sample, and the growth over all of them.
    #[track_caller]
    pub fn judge(&self) {
        for sample in &self.samples {
            assert_eq!(sample.close_wait, 0, "{}", sample.text);
            assert!(sample.reserved_bytes <= sample.limit_bytes, "{sample:?}");
        }
        let [first, last] = self.medians();
        assert!(last <= first + GROWTH_BYTES_MAX, "{first}, then {last}");
    }

    /// The medians of anonymous memory, in the first and in the last third.
    fn medians(&self) -> [u64; 2] {
        let third = self.samples.len() / 3;
        let median = |samples: &[Sample]| {
            let mut bytes: Vec<_> = samples
                .iter()
                .map(|sample| sample.anonymous_bytes)
                .collect();
            bytes.sort_unstable();
            bytes[bytes.len() / 2]
        };
        let (first, last) = (third.max(1), self.samples.len() - third.max(1));
        [
            median(&self.samples[..first]),
            median(&self.samples[last..]),
        ]
    }
}

impl fmt::Display for Diary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, last] = self.medians();
        let waiting = self.samples.iter().filter(|sample| sample.close_wait != 0);
        write!(
            f,
            "{} samples in {}, {} with CLOSE_WAIT; {first} bytes held in the first third, {last} in \
             the last (medians)",
            self.samples.len(),
            self.path.display(),
            waiting.count()
        )
    }
}
