//! Each way to free, and then no further call: free memory goes back within twice the decay time.
//!
//! `idleness.c` frees in the way that a case names, calls the allocator no more, and judges itself: at most the pages
//! that have a live block stay resident, and 4 MiB. A case that is late is tried again alone, since a busy machine
//! delays the background thread; one that keeps its memory for a minute fails at once.
//!
//! The first tier runs each of [`STRIDE`] cases, the long tier all of them.

use std::fmt::{self, Display, Formatter};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use steppe_testkit::{heavy, is_long};

use crate::support::{Ended, Program, hardened_library, library, preloaded_by, run};

/// A way to free, with sizes of blocks and orders of frees.
struct Way {
    name: &'static str,
    bytes: &'static [usize],
    orders: &'static [&'static str],
}

const ALL_FREED: &[&str] = &["lifo", "fifo", "random"];
const FIFO: &[&str] = &["fifo"];
/// A size of each group of classes: small ones, runs of units, and mappings.
const GROUPS: &[usize] = &[48, 2_000, 16_000, 200_000, 1_500_000, 20_000_000];

const WAYS: &[Way] = &[
    Way {
        name: "own",
        bytes: &[
            16, 48, 112, 256, 700, 2_000, 5_000, 16_000, 32_768, 40_000, 200_000, 1_048_576,
            1_500_000, 20_000_000,
        ],
        orders: ALL_FREED,
    },
    Way {
        name: "own",
        bytes: &[16, 112, 700, 2_000],
        orders: &["half", "page", "slab", "chunk"],
    },
    Way {
        name: "own",
        bytes: &[5_000, 16_000, 32_768],
        orders: &["half", "slab", "chunk"],
    },
    Way {
        name: "own",
        bytes: &[40_000, 200_000, 1_048_576],
        orders: &["half", "chunk"],
    },
    Way {
        name: "own",
        bytes: &[1_500_000, 20_000_000],
        orders: &["half"],
    },
    of_groups("other"),
    of_groups("freed-then-ended"),
    of_groups("ended"),
    Way {
        name: "exchange",
        bytes: GROUPS,
        orders: ALL_FREED,
    },
    of_groups("warm"),
    of_groups("thread-exit"),
    Way {
        name: "shrunk",
        bytes: &[
            700, 16_000, 32_768, 200_000, 1_048_576, 1_500_000, 20_000_000,
        ],
        orders: FIFO,
    },
    Way {
        name: "replaced",
        bytes: &[6_000_000, 20_000_000],
        orders: FIFO,
    },
    of_groups("grown"),
    of_groups("child"),
    of_groups("prefork"),
    of_groups("parent"),
    of_groups("signal"),
    of_groups("atexit"),
    of_groups("destructor"),
];

const fn of_groups(name: &'static str) -> Way {
    Way {
        name,
        bytes: GROUPS,
        orders: &["random", "slab"],
    }
}

/// A build in a profile, and its decay time.
struct Kept {
    name: &'static str,
    profile: &'static str,
    /// Value of `STEPPE_MALLOC_PURGE_MS` where the decay time is not the profile's own.
    purge_ms: Option<&'static str>,
    decay_ms: &'static str,
    huge_pages: &'static str,
}

const BALANCED: Kept = Kept {
    name: "balanced",
    profile: "balanced",
    purge_ms: None,
    decay_ms: "1000",
    huge_pages: "0",
};
const LEAN: Kept = Kept {
    name: "lean",
    profile: "lean",
    purge_ms: None,
    decay_ms: "100",
    huge_pages: "0",
};
/// The profile's own ten seconds are long. Huge pages make units resident that were never used: [`HUGE`].
const SPEED: Kept = Kept {
    name: "speed",
    profile: "speed",
    purge_ms: Some("500"),
    decay_ms: "500",
    huge_pages: "0",
};

/// `speed` with huge pages, in cases in which each chunk gets some memory back.
const HUGE: Kept = Kept {
    name: "speed, huge pages",
    huge_pages: "1",
    ..SPEED
};
const HUGE_CASES: [Case; 3] = [
    huge("own", 2_000, "random"),
    huge("parent", 200_000, "half"),
    huge("shrunk", 200_000, "fifo"),
];

const fn huge(way: &'static str, bytes: usize, order: &'static str) -> Case {
    Case {
        way,
        bytes,
        order,
        threads: 4,
    }
}

/// Small blocks have many slabs, and each slab two kinds of bits in the hardened build.
const BITS: [Case; 2] = [bits("slab"), bits("chunk")];

const fn bits(order: &'static str) -> Case {
    Case {
        way: "own",
        bytes: 16,
        order,
        threads: 1,
    }
}

/// Shorter blocks have the mappings of longer ones.
const REPLACED: [Case; 2] = [replaced(6_000_000, 4), replaced(20_000_000, 1)];

const fn replaced(bytes: usize, threads: usize) -> Case {
    Case {
        way: "replaced",
        bytes,
        order: "fifo",
        threads,
    }
}

/// A stride that divides no number of sizes, orders or threads of a way, so each of them is met with others.
const STRIDE: usize = 11;
/// Programs at a time: they sleep for the most part, and each holds 64 MiB at first.
const PROCESSES: usize = 12;
/// Tries of a late case, the first included.
const TRIES: usize = 5;
/// The program's exit code when memory went back after more than twice the decay time.
const LATE: i32 = 4;

#[derive(Clone, Copy)]
struct Case {
    way: &'static str,
    bytes: usize,
    order: &'static str,
    threads: usize,
}

impl Display for Case {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            way,
            bytes,
            order,
            threads,
        } = self;
        write!(formatter, "{way} {bytes} {order} {threads}")
    }
}

fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &Way {
        name,
        bytes,
        orders,
    } in WAYS
    {
        for &bytes in bytes {
            for &order in orders {
                // A mapping has a chunk of its own: none would be freed.
                let order = if order == "slab" && bytes > 32_768 {
                    "half"
                } else {
                    order
                };
                let case = |threads| Case {
                    way: name,
                    bytes,
                    order,
                    threads,
                };
                cases.extend([1, 4].map(case));
            }
        }
    }
    cases
}

fn judged(program: &Program, case: &Case, kept: &Kept) -> Ended {
    let built = if kept.name == "hardened" {
        hardened_library()
    } else {
        library()
    };
    let mut command: Command = preloaded_by(built, program.path());
    command.env("STEPPE_MALLOC_PROFILE", kept.profile);
    command.env("STEPPE_MALLOC_THP", kept.huge_pages);
    if let Some(purge_ms) = kept.purge_ms {
        command.env("STEPPE_MALLOC_PURGE_MS", purge_ms);
    }
    command
        .args(case.to_string().split(' '))
        .args(["judge", kept.decay_ms]);
    run(&mut command)
}

/// Runs cases, many at a time; returns those that kept their memory, or were late at every try.
fn failures(cases: &[Case], kept: &Kept) -> Vec<String> {
    let program = Program::compile("idleness.c");
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ended = judged(&program, case, kept);
            println!("{}: {case}: {}", kept.name, ended.out.trim());
            if ended.code != Some(0) {
                failed
                    .lock()
                    .expect("no thread panics with it")
                    .push((*case, ended));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("no thread panics with it");
    let is_late = |ended: &Ended| ended.code == Some(LATE);
    let fails = failed.into_iter().filter_map(|(case, mut ended)| {
        for _ in 1..TRIES {
            if is_late(&ended) {
                ended = judged(&program, &case, kept);
            }
        }
        (ended.code != Some(0)).then(|| format!("{}: {case}: {ended:?}", kept.name))
    });
    fails.collect()
}

fn goes_back(kept: &Kept) {
    let step = if is_long() { 1 } else { STRIDE };
    let cases: Vec<Case> = all_cases().into_iter().step_by(step).collect();
    all_go_back(&cases, kept);
}

fn all_go_back(cases: &[Case], kept: &Kept) {
    let _one = heavy();
    let failures = failures(cases, kept);
    let count = failures.len();
    assert!(
        failures.is_empty(),
        "{count} of {}:\n{}",
        cases.len(),
        failures.join("\n")
    );
}

#[test]
fn balanced() {
    goes_back(&BALANCED);
}

#[test]
fn lean() {
    goes_back(&LEAN);
}

#[test]
fn speed() {
    goes_back(&SPEED);
}

#[test]
fn speed_with_huge_pages() {
    all_go_back(&HUGE_CASES, &HUGE);
}

#[test]
fn tails_of_mappings() {
    for kept in [&BALANCED, &SPEED, &HUGE] {
        all_go_back(&REPLACED, kept);
    }
}

const HARDENED: Kept = Kept {
    name: "hardened",
    purge_ms: Some("500"),
    decay_ms: "500",
    ..BALANCED
};

#[test]
fn hardened() {
    goes_back(&HARDENED);
}

#[test]
fn hardened_small_blocks() {
    all_go_back(&BITS, &HARDENED);
}
