//! Connections of HTTP/2 that are mutated frame by frame: ten million in the long tier, a sample in the first.
//!
//! libFuzzer mutates bytes and follows coverage. These mutations keep most frames whole, so a connection stays alive
//! for longer. Invariant: case N is the same in every run, so a case that fails is repeated by its number.

use std::fs;
use std::num::NonZero;
use std::panic::catch_unwind;
use std::thread;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use steppe_fuzz_targets::h2_connection::run;
use steppe_testkit::is_long;

use crate::corpus::files_in;

const CASES: u64 = 100_000;
const CASES_LONG: u64 = 10_000_000;

/// Of a frame (RFC 9113 §4.1).
const HEADER_BYTES: usize = 9;
const TYPE_AT: usize = 3;
const FLAGS_AT: usize = 4;
const STREAM_AT: usize = 5;

/// An input of the target `h2_connection`, in its parts.
#[derive(Clone)]
struct Input {
    first: u8,
    /// None is zero.
    commands: Vec<u8>,
    /// The peer's bytes, cut before each frame.
    frames: Vec<Vec<u8>>,
}

impl Input {
    /// `None`: it has no bytes of a peer.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&first, bytes) = bytes.split_first()?;
        let zero = bytes.iter().position(|&byte| byte == 0)?;
        let mut rest = &bytes[zero + 1..];
        let mut frames = Vec::new();
        if let Some(after) = rest.strip_prefix(steppe_h2::frame::PREFACE) {
            frames.push(steppe_h2::frame::PREFACE.to_vec());
            rest = after;
        }
        while let Some([high, middle, low]) = rest.first_chunk::<3>().copied() {
            let length = u32::from_be_bytes([0, high, middle, low]);
            let length = usize::try_from(length).expect("24 bits");
            let (frame, after) = rest.split_at((HEADER_BYTES + length).min(rest.len()));
            frames.push(frame.to_vec());
            rest = after;
        }
        Some(Self {
            first,
            commands: bytes[..zero].to_vec(),
            frames,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.first];
        bytes.extend(&self.commands);
        bytes.push(0);
        bytes.extend(self.frames.iter().flatten());
        bytes
    }
}

/// Random numbers of a case.
struct Choice(Pcg32);

impl Choice {
    /// Below `end`.
    fn below(&mut self, end: usize) -> usize {
        let end = u32::try_from(end).expect("a few");
        usize::try_from(self.0.next_u32() % end.max(1)).expect("32 bits")
    }

    fn byte(&mut self) -> u8 {
        self.0.next_u32().to_be_bytes()[0]
    }

    /// Mostly small and odd, as a client numbers its streams.
    fn stream(&mut self) -> [u8; 4] {
        let number = match self.below(8) {
            0 => self.0.next_u32() >> 1,
            1 => 0,
            2 => 2,
            _ => 2 * (self.0.next_u32() % 8) + 1,
        };
        number.to_be_bytes()
    }
}

fn mutate(input: &mut Input, seeds: &[Input], choice: &mut Choice) {
    let frames = input.frames.len();
    let at = choice.below(frames);
    match choice.below(12) {
        0 => input.first = choice.byte(),
        1 => input.commands.push(choice.byte().max(1)),
        2 if !input.commands.is_empty() => {
            let at = choice.below(input.commands.len());
            input.commands[at] = choice.byte().max(1);
        }
        3 if frames > 1 => _ = input.frames.remove(at),
        4 if frames > 1 => input.frames.swap(at, frames - 1),
        5 if frames > 0 => input.frames.insert(at, input.frames[at].clone()),
        6 | 7 => {
            let other = &seeds[choice.below(seeds.len())].frames;
            if let Some(frame) = other.get(choice.below(other.len())) {
                input.frames.insert(at, frame.clone());
            }
        }
        8 => {
            let length = choice.below(24);
            let mut frame = vec![0, 0, u8::try_from(length).expect("small")];
            frame.extend([choice.byte() % 12, choice.byte()]);
            frame.extend(choice.stream());
            frame.extend((0..length).map(|_| choice.byte()));
            input.frames.insert(at, frame);
        }
        kind if frames > 0 => change_frame(&mut input.frames[at], kind, choice),
        _ => {}
    }
}

/// Changes a frame in its place.
fn change_frame(frame: &mut [u8], kind: usize, choice: &mut Choice) {
    if frame.len() < HEADER_BYTES {
        return;
    }
    match kind {
        9 => frame[STREAM_AT..HEADER_BYTES].copy_from_slice(&choice.stream()),
        10 => frame[FLAGS_AT] ^= 1 << choice.below(6),
        11 if choice.below(4) == 0 => frame[TYPE_AT] = choice.byte() % 12,
        // Its length stands at its first octets, so one of them cuts all frames behind it anew.
        _ => frame[choice.below(frame.len())] = choice.byte(),
    }
}

fn case(number: u64, seeds: &[Input]) -> Vec<u8> {
    let mut choice = Choice(Pcg32::seed_from_u64(number));
    let mut input = seeds[choice.below(seeds.len())].clone();
    for _ in 0..1 + choice.below(8) {
        mutate(&mut input, seeds, &mut choice);
    }
    input.bytes()
}

#[test]
fn mutated_connections_keep_every_property() {
    let seeds: Vec<Input> = files_in("corpus/h2_connection")
        .iter()
        .filter_map(|path| Input::parse(&fs::read(path).expect("a readable seed")))
        .collect();
    assert!(seeds.len() > 5, "the corpus has connections");
    let cases = if is_long() { CASES_LONG } else { CASES };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for first in 0..threads {
            let seeds = &seeds;
            let numbers = (first as u64..cases).step_by(threads);
            scope.spawn(move || {
                for number in numbers {
                    let input = case(number, seeds);
                    let checked = catch_unwind(|| run(&input));
                    assert!(checked.is_ok(), "case {number}: {}", input.escape_ascii());
                }
            });
        }
    });
}
