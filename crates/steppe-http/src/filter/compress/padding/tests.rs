//! The attack that padding is there against, played; and what padding costs.

use std::fmt::Write;

use aws_lc_rs::hmac;
use steppe_mem::{Budget, Buffer};

use super::super::encoder::{ContentEncoder, Operation, Shape, WholeEncoder};
use super::{Padding, fill};
use crate::config::Coding;

/// As numbers of a generator go: the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 16] = [
            "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet",
            "jetty", "knoll", "larch", "maple", "north", "oasis", "prairie",
        ];
        WORDS[usize::try_from(self.next() % 16).expect("below 16")]
    }
}

fn json(bytes: usize, seed: u64) -> String {
    let mut numbers = Numbers(seed | 1);
    let mut text = String::from("[");
    while text.len() < bytes {
        let (id, price) = (numbers.next() % 100_000, numbers.next() % 10_000);
        let (first, last) = (numbers.word(), numbers.word());
        let _ = write!(
            text,
            "{{\"id\":{id},\"name\":\"{first} {last}\",\"price\":{price},\"active\":{}}},",
            numbers.next().is_multiple_of(2)
        );
    }
    text + "null]"
}

fn html(bytes: usize, seed: u64) -> String {
    let mut numbers = Numbers(seed | 1);
    let mut text = String::from("<!doctype html><html><head><title>shop</title></head><body><ul>");
    while text.len() < bytes {
        let (first, last, number) = (numbers.word(), numbers.word(), numbers.next() % 1000);
        let _ = writeln!(
            text,
            "<li class=\"item\"><a href=\"/{first}/{number}\">{first} {last}</a> <b>{number}</b></li>"
        );
    }
    text + "</ul></body></html>"
}

fn key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, b"the same in each run of the test")
}

/// A form of compression.
#[derive(Debug, Clone, Copy)]
enum Form {
    Stream(Coding),
    /// Gzip all at once.
    Whole,
}

const LEVEL: u8 = 4;
const FORMS: [Form; 4] = [
    Form::Stream(Coding::Br),
    Form::Stream(Coding::Zstd),
    Form::Stream(Coding::Gzip),
    Form::Whole,
];

fn compressed(form: Form, content: &[u8], key: Option<&hmac::Key>) -> usize {
    match form {
        Form::Stream(coding) => streamed(coding, content, key),
        Form::Whole => gzip(content, key).len(),
    }
}

fn gzip(content: &[u8], key: Option<&hmac::Key>) -> Buffer {
    let budget = Budget::new(1 << 20);
    let mut encoder = WholeEncoder::new(LEVEL);
    let bytes_max = encoder.bytes_max(content.len());
    let padding = key.map(|key| {
        let mut padding = Padding::new(Coding::Gzip, key);
        padding.see(content);
        padding
    });
    let longest = padding
        .as_ref()
        .map_or(0, |padding| padding.bytes_max(bytes_max));
    let taken = Buffer::take(&budget.root().lease(), bytes_max + longest);
    let mut gzip = taken.expect("room");
    let written = encoder.encode(content, gzip.spare_mut());
    gzip.advance(written);
    if let Some(padding) = padding {
        padding.insert(&mut gzip);
    }
    gzip
}

fn streamed(coding: Coding, content: &[u8], key: Option<&hmac::Key>) -> usize {
    let shape = Shape::of(coding, LEVEL, Some(content.len() as u64));
    let mut encoder = ContentEncoder::new(shape).expect("memory");
    let mut room = vec![0; 64 << 10];
    let padding = key.map(|key| {
        let mut padding = Padding::new(coding, key);
        padding.see(content);
        padding
    });
    let is_within = padding.is_some() && Padding::is_within(coding);
    let mut written = 0;
    if is_within {
        written += whole(&mut encoder, content, &mut room, Operation::Flush);
    } else {
        written += whole(&mut encoder, content, &mut room, Operation::Finish);
    }
    if let Some(padding) = padding {
        let bytes = padding.bytes(written as u64);
        fill(coding, &mut room[..bytes]);
        written += bytes;
    }
    if is_within {
        written += whole(&mut encoder, b"", &mut room, Operation::Finish);
    }
    written
}

fn whole(
    encoder: &mut ContentEncoder,
    content: &[u8],
    room: &mut [u8],
    operation: Operation,
) -> usize {
    let (mut read, mut written) = (0, 0);
    loop {
        let encoded = encoder.encode(&content[read..], room, operation);
        let encoded = encoded.expect("memory");
        read += encoded.read;
        written += encoded.written;
        if encoded.is_done {
            return written;
        }
    }
}

/// A page with a secret, which shows what was searched for.
fn page(secret: &str, guess: &str, seed: u64) -> String {
    let mut page = html(1 << 10, seed);
    let _ = write!(page, "<input name=\"csrf\" value=\"csrf={secret}\">");
    page += &html(512, seed + 1);
    let _ = write!(page, "<p>nothing found for csrf={guess}</p>");
    page
}

const SECRETS: usize = 50;

/// Mean rank of the right guess by mean length, least first, and the half of its 95 % interval.
fn attack(form: Form, repetitions: usize, key: Option<&hmac::Key>) -> (f64, f64) {
    let mut numbers = Numbers(0x5eed);
    let ranks: Vec<f64> = (0..SECRETS)
        .map(|_| {
            let (secret, seed) = (format!("{:016x}", numbers.next()), numbers.next());
            let lengths: Vec<usize> = (0..256)
                .map(|guess| {
                    let page = page(&secret, &format!("{guess:02x}"), seed);
                    let lengths = (0..repetitions).map(|_| compressed(form, page.as_bytes(), key));
                    lengths.sum()
                })
                .collect();
            let right = usize::from_str_radix(&secret[..2], 16).expect("hexadecimal");
            rank(&lengths, right)
        })
        .collect();
    let count = SECRETS as f64;
    let mean = ranks.iter().sum::<f64>() / count;
    let variance = ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, 1.96 * (variance / count).sqrt())
}

/// From 1 on; of those that are the same, the middle.
fn rank(lengths: &[usize], of: usize) -> f64 {
    let less = lengths
        .iter()
        .filter(|length| **length < lengths[of])
        .count();
    let same = lengths
        .iter()
        .filter(|length| **length == lengths[of])
        .count();
    less as f64 + (same as f64 + 1.0) / 2.0
}

fn is_long() -> bool {
    std::env::var_os("STEPPE_LONG").is_some_and(|value| value == "1")
}

#[test]
fn the_right_guess_ranks_like_any_other() {
    let (repetitions, forms) = match is_long() {
        true => (100, &FORMS[..]),
        false => (1, &FORMS[2..]),
    };
    for &form in forms {
        let (mean, half) = attack(form, 1, None);
        println!("{form:?} bare: {mean:.1} ± {half:.1}");
        assert!(
            mean + half < 100.0,
            "{form:?} tells nothing: {mean} ± {half}"
        );
        let (mean, half) = attack(form, repetitions, Some(&key()));
        println!("{form:?} padded: {mean:.1} ± {half:.1}");
        assert!((mean - 128.5).abs() <= half, "{form:?}: {mean} ± {half}");
    }
}

#[test]
fn padding_costs_less_than_a_twentieth() {
    for form in FORMS {
        let (mut bare, mut padded, mut plain) = (0, 0, 0);
        for seed in 1..20 {
            for text in [json(10 << 10, seed), html(10 << 10, seed)] {
                plain += text.len();
                bare += compressed(form, text.as_bytes(), None);
                padded += compressed(form, text.as_bytes(), Some(&key()));
            }
        }
        println!("{form:?}: {plain} became {bare}, {padded} padded");
        assert!(
            padded * 100 <= bare * 105,
            "{form:?}: {bare} became {padded}"
        );
        assert!(padded * 100 < plain * 40, "{form:?}: {padded} of {plain}");
    }
}

#[test]
fn padding_in_gzip_of_any_length_is_read_by_another_decoder() {
    use std::io::Read;

    for seed in 1..60 {
        let content = json(1 << 10, seed);
        let gzip = gzip(content.as_bytes(), Some(&key()));
        let mut read = String::new();
        let mut decoder = flate2::bufread::GzDecoder::new(gzip.filled());
        decoder.read_to_string(&mut read).expect("it is gzip");
        assert!(read == content, "seed {seed}");
        assert!(decoder.into_inner().is_empty(), "nothing follows");
    }
}

#[test]
fn each_length_can_be_had_and_is_the_same_each_time() {
    let content = json(4 << 10, 1);
    for coding in Coding::ALL {
        let lengths = |seed: u64| {
            let mut padding = Padding::new(coding, &key());
            padding.see(content.as_bytes());
            padding.see(&seed.to_le_bytes());
            padding.bytes(1000)
        };
        let all: std::collections::BTreeSet<usize> = (0..2000).map(lengths).collect();
        // Nearly all of the range, whose ends are rare.
        assert!(all.len() > 55, "{coding:?}: {all:?}");
        assert_eq!(lengths(7), lengths(7));
    }
}
