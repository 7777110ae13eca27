//! A Rust program with steppe-malloc as its allocator.
//!
//! `work` (or nothing) allocates in several threads and prints its result; `exhaust` allocates
//! until memory runs out, and ends as any Rust program does then.

use std::collections::BTreeMap;

use steppe_malloc::SteppeMalloc;

#[global_allocator]
static ALLOCATOR: SteppeMalloc = SteppeMalloc;

fn main() {
    match std::env::args().nth(1).as_deref() {
        None | Some("work") => println!("{}", work()),
        Some("exhaust") => exhaust(),
        Some(other) => eprintln!("no such command '{other}': work or exhaust"),
    }
}

/// Words counted by eight threads, added up by one: blocks of one thread are freed by another.
fn work() -> u64 {
    let threads: Vec<_> = (0..8_u64)
        .map(|seed| std::thread::spawn(move || count_words(seed)))
        .collect();
    let counts = threads
        .into_iter()
        .map(|thread| thread.join().expect("it does not panic"));
    counts.flat_map(BTreeMap::into_values).sum()
}

fn count_words(seed: u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for number in 0..50_000_u64 {
        let word = format!("word-{}", number.wrapping_mul(seed + 7) % 1000);
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

fn exhaust() {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    loop {
        blocks.push(vec![1; 100_000]);
    }
}
