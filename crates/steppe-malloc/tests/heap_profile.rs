//! A heap profile names the function that holds memory, and how much: one test, since it plants
//! memory.
#![expect(unsafe_code, reason = "calls the allocator as C would")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use steppe_malloc::{SteppeMalloc, heap_profile, raw};

#[global_allocator]
static ALLOCATOR: SteppeMalloc = SteppeMalloc;

const MIB: usize = 1 << 20;
/// A low mean, for many samples: 4,096 of the planted bytes, a standard deviation of 1.6 %, so the
/// figure is almost always within 10 %.
const MEAN_BYTES: usize = 16 << 10;
const PLANTED: usize = 64 * MIB;
const BESIDE: usize = 16 * MIB;

/// The function that holds most, which the tools must find.
#[inline(never)]
fn planted_hot(blocks: &mut Vec<*mut u8>) {
    for _ in 0..PLANTED / 1000 {
        blocks.push(raw::allocate(1000));
    }
}

/// A second function, which holds less in larger blocks.
#[inline(never)]
fn planted_beside(blocks: &mut Vec<*mut u8>) {
    for _ in 0..BESIDE / 100_000 {
        blocks.push(raw::allocate(100_000));
    }
}

/// A function whose blocks are freed and must not be counted.
#[inline(never)]
fn planted_and_freed() {
    let blocks: Vec<*mut u8> = (0..PLANTED / 500).map(|_| raw::allocate(500)).collect();
    free_all(&blocks);
}

fn free_all(blocks: &[*mut u8]) {
    for &block in blocks {
        // SAFETY: from `raw::allocate`, freed once.
        unsafe { raw::free(block) };
    }
}

#[test]
fn measured_a_profile_names_who_holds_most() {
    assert!(heap_profile::start(MEAN_BYTES), "there is an unwinder");
    // Another thread than the one that frees, and one that ends before.
    let planter = std::thread::spawn(|| {
        let mut blocks = Vec::with_capacity(PLANTED / 1000 + BESIDE / 100_000);
        planted_hot(&mut blocks);
        planted_beside(&mut blocks);
        planted_and_freed();
        blocks
            .into_iter()
            .map(|block| block.expose_provenance())
            .collect::<Vec<_>>()
    });
    let blocks = planter.join().expect("it does not panic");
    let file = std::env::temp_dir().join(format!("steppe-heap-{}", std::process::id()));
    assert!(heap_profile::write_file(
        file.as_os_str().as_encoded_bytes()
    ));
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(heap_profile::lost(), 0);

    let lines: Vec<Line> = text.lines().filter_map(Line::of).collect();
    let header = &lines[0];
    let scaled: f64 = lines[1..].iter().map(Line::scaled_bytes).sum();
    let planted = (PLANTED + BESIDE) as f64;
    assert!(
        (scaled / planted - 1.0).abs() < 0.1,
        "{scaled} of {planted}"
    );
    assert!(
        header.all_bytes > header.live_bytes,
        "the freed ones were seen"
    );
    assert!(text.contains("@ heap_v2/16384\n"));
    assert!(text.contains("\nMAPPED_LIBRARIES:\n"));

    names_the_planted("jeprof", &file, jeprof);
    names_the_planted("go", &file, pprof);
    std::fs::remove_file(&file).expect("it is there");

    let pointers: Vec<*mut u8> = blocks
        .into_iter()
        .map(std::ptr::with_exposed_provenance_mut)
        .collect();
    free_all(&pointers);
    heap_profile::stop();
    let mut text = String::new();
    heap_profile::write(&mut text).expect("a string takes it");
    let header = text.lines().find_map(Line::of).expect("a header");
    assert!(
        header.live_bytes < 2 * MIB as u64,
        "what was freed is gone: {text:.80}"
    );
    after_it_stopped();
}

/// Blocks come from bins again, also on a thread that sampled.
fn after_it_stopped() {
    let mut before = String::new();
    heap_profile::write(&mut before).expect("a string takes it");
    let mut blocks = Vec::with_capacity(PLANTED / 1000);
    planted_hot(&mut blocks);
    let mut after = String::new();
    heap_profile::write(&mut after).expect("a string takes it");
    let all = |text: &str| text.lines().find_map(Line::of).expect("a header").all_bytes;
    assert!(all(&after) - all(&before) < MIB as u64);
    free_all(&blocks);
}

/// Counts of one stack, or of all stacks.
struct Line {
    live_blocks: u64,
    live_bytes: u64,
    all_bytes: u64,
}

impl Line {
    fn of(line: &str) -> Option<Self> {
        let line = line.strip_prefix("heap profile: ").unwrap_or(line);
        let (counts, _) = line.split_once("] @")?;
        let mut numbers = counts
            .split([':', '[', ' '])
            .filter_map(|part| part.parse().ok());
        let (live_blocks, live_bytes) = (numbers.next()?, numbers.next()?);
        let all_bytes = numbers.nth(1)?;
        Some(Self {
            live_blocks,
            live_bytes,
            all_bytes,
        })
    }

    /// Scaled as readers do: a sample is taken with probability 1 - e^(-size/mean), so each stands
    /// for as many more.
    fn scaled_bytes(&self) -> f64 {
        if self.live_blocks == 0 {
            return 0.0;
        }
        let size = self.live_bytes as f64 / self.live_blocks as f64;
        self.live_bytes as f64 / (1.0 - (-size / MEAN_BYTES as f64).exp())
    }
}

/// A tool's answer: the function that holds most, and its bytes; `None`: the tool is not installed.
type Ask = fn(&Path, &Path) -> Option<(f64, String)>;

/// Checks that a tool names the planted function as the largest, within 10 % of its bytes.
fn names_the_planted(tool: &str, file: &Path, ask: Ask) {
    let exe: PathBuf = std::env::current_exe().expect("this test");
    let Some((bytes, name)) = ask(&exe, file) else {
        println!("SKIPPED {tool}: it is not on this machine");
        return;
    };
    println!("{tool}: {bytes} bytes by {name}");
    assert!(name.contains("planted_hot"), "{tool} names {name}");
    let share = bytes / PLANTED as f64;
    assert!(
        (share - 1.0).abs() < 0.1,
        "{tool}: {share} of what was planted"
    );
}

/// `   64.1  80.0%  80.0%     64.1  80.0% heap_profile::planted_hot`, in MB.
fn jeprof(exe: &Path, file: &Path) -> Option<(f64, String)> {
    let text = said(
        Command::new("jeprof")
            .args(["--text", "--show_bytes"])
            .args([exe, file]),
    )?;
    let first = text.lines().find(|line| line.contains('%'))?;
    let words: Vec<&str> = first.split_whitespace().collect();
    Some((words.first()?.parse().ok()?, words[5..].join(" ")))
}

/// `  67.1MB 80.0% 80.0%  67.1MB 80.0%  heap_profile::planted_hot`
fn pprof(exe: &Path, file: &Path) -> Option<(f64, String)> {
    let options = ["tool", "pprof", "-top", "-unit=B", "-symbolize=local"];
    let text = said(Command::new("go").args(options).args([exe, file]))?;
    // Behind the names of the columns.
    let first = text
        .lines()
        .skip_while(|line| !line.contains("flat%"))
        .nth(1)?;
    let words: Vec<&str> = first.split_whitespace().collect();
    Some((
        words.first()?.strip_suffix('B')?.parse().ok()?,
        words[5..].join(" "),
    ))
}

/// The standard output of a command; `None`: it can't be run.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let _ = write!(said, "{}", String::from_utf8_lossy(&output.stderr));
        panic!("{command:?}: {said}");
    }
    Some(said)
}
