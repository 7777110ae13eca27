//! The content to compress: JSON and HTML as servers make it, the same in each run.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One file, and the rate of its requests a second.
#[derive(Debug)]
pub(super) struct Corpus {
    pub(super) name: &'static str,
    pub(super) bytes: usize,
    pub(super) rate: f64,
}

/// 10 KiB at the rate of the targets; higher rates of the others would be too much for one worker.
pub(super) const CORPORA: [Corpus; 3] = [
    Corpus {
        name: "records.json",
        bytes: 10 << 10,
        rate: 1000.0,
    },
    Corpus {
        name: "page.html",
        bytes: 64 << 10,
        rate: 100.0,
    },
    Corpus {
        name: "export.json",
        bytes: 1 << 20,
        rate: 8.0,
    },
];

pub(super) fn folder(run_dir: &Path) -> PathBuf {
    run_dir.join("corpus")
}

/// # Errors
/// When a file can't be written.
pub(super) fn write(run_dir: &Path) -> Result<()> {
    let folder = folder(run_dir);
    std::fs::create_dir_all(&folder)?;
    for corpus in &CORPORA {
        let path = folder.join(corpus.name);
        let mut text = match corpus.name.ends_with("json") {
            true => records(corpus.bytes),
            false => page(corpus.bytes),
        };
        text.truncate(corpus.bytes);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A generator of Marsaglia's (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 32] = [
            "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet",
            "jetty", "knoll", "larch", "maple", "north", "oasis", "prairie", "quartz", "river",
            "summit", "tundra", "upland", "valley", "willow", "xenon", "yonder", "zephyr",
            "anchor", "bridge", "castle", "domain", "engine", "forest",
        ];
        WORDS[usize::try_from(self.next() % 32).expect("below 32")]
    }
}

fn records(bytes: usize) -> String {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let mut text = String::from("[");
    while text.len() < bytes {
        let (first, last) = (numbers.word(), numbers.word());
        let _ = write!(
            text,
            "{{\"id\":{},\"name\":\"{first} {last}\",\"mail\":\"{first}{}@example.com\",\"active\":{},\
             \"score\":{}.{:02},\"key\":\"{:016x}\",\"tags\":[\"{}\",\"{}\"]}},",
            numbers.next() % 100_000,
            numbers.next() % 1000,
            numbers.next().is_multiple_of(2),
            numbers.next() % 100,
            numbers.next() % 100,
            numbers.next(),
            numbers.word(),
            numbers.word(),
        );
    }
    text
}

fn page(bytes: usize) -> String {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let mut text =
        String::from("<!doctype html><html><head><title>Catalog</title></head><body><main>");
    while text.len() < bytes {
        let (first, last, number) = (numbers.word(), numbers.word(), numbers.next() % 10_000);
        let _ = writeln!(
            text,
            "<article class=\"card\" id=\"item-{number}\"><h2><a href=\"/{first}/{last}-{number}\">{first} \
             {last}</a></h2><p>{} {} {} {} {} {}.</p><span class=\"price\">{}.{:02}</span></article>",
            numbers.word(),
            numbers.word(),
            numbers.word(),
            numbers.word(),
            numbers.word(),
            numbers.word(),
            numbers.next() % 500,
            numbers.next() % 100,
        );
    }
    text
}
