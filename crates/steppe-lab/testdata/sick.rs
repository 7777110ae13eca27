//! A server with a slow sickness that is no leak of heap memory.
//!
//! `lab-sick ADDRESS KIND [EVERY] [FOLDER]`: one request in EVERY does it. Kinds: `descriptors` that
//! stay open, `memfd` that is written and never mapped, `tmpfs` for files left in FOLDER, `zombies` for
//! children that nobody waits for, `stairs` for 3 MiB that are never freed, `hang` for requests that are
//! never answered, with an error in the log, `none` for the healthy twin. With `cpu` and `latency`,
//! requests take longer and longer: twice as long after EVERY of them.

#[path = "server.rs"]
mod server;

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

static REQUESTS: AtomicU64 = AtomicU64::new(0);

fn main() -> std::io::Result<()> {
    let kind = server::argument(2).unwrap_or_else(|| "none".to_owned());
    let sicken: fn(u64) = match kind.as_str() {
        "descriptors" => |_| forget(File::open("/dev/null")),
        "memfd" => |_| {
            let memfd = memfd_create("left", MemfdFlags::CLOEXEC).map(File::from);
            forget(memfd.map_err(Into::into).and_then(|mut file| {
                file.write_all(&[0x5a; BLOCK_BYTES])?;
                Ok(file)
            }));
        },
        "tmpfs" => |request| {
            let folder = server::argument(4).unwrap_or_else(|| "/dev/shm".to_owned());
            // Whoever runs out of room has been found out.
            let _ = fs::write(format!("{folder}/left-{request}"), [0x5a; BLOCK_BYTES]);
        },
        "zombies" => |_| {
            let child = Command::new("true").stdin(Stdio::null()).spawn();
            // The descriptor of its end is closed, and nobody waits.
            let _ = child.map(|child| child.id());
        },
        "stairs" => |_| std::mem::forget(vec![0x5a_u8; STAIR_BYTES].into_boxed_slice()),
        "hang" => |_| loop {
            eprintln!("can't accept: Too many open files (os error 24)");
            std::thread::sleep(Duration::from_secs(3_600));
        },
        _ => |_| {},
    };
    let every = server::number(3, 1).max(1);
    let is_slower = kind == "latency";
    let works_more = kind == "cpu";
    server::serve(move || {
        let request = REQUESTS.fetch_add(1, Ordering::Relaxed);
        let more = |of: u64| of + of * request / every;
        work(if works_more { more(ROUNDS) } else { ROUNDS });
        if is_slower {
            std::thread::sleep(Duration::from_micros(more(SLEEP_US)));
        } else if request.is_multiple_of(every) {
            sicken(request);
        }
    })
}

fn forget(file: std::io::Result<File>) {
    // At the limit it fails, as a server's own would.
    if let Ok(file) = file {
        std::mem::forget(file);
    }
}

fn work(rounds: u64) {
    let mut state = 1_u64;
    for _ in 0..rounds {
        state = black_box(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
}

/// A healthy request computes for so long that CPU time can be told by it.
const ROUNDS: u64 = 100_000;
const SLEEP_US: u64 = 2_000;
const STAIR_BYTES: usize = 3 << 20;
const BLOCK_BYTES: usize = 64 << 10;
