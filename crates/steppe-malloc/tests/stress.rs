//! Threads that allocate, exchange blocks and end, with this allocator as the program's own.
#![expect(unsafe_code, reason = "raw blocks are what is tested")]

use std::collections::HashMap;
use std::sync::mpsc::sync_channel;

use steppe_malloc::{SteppeMalloc, profile, raw, stats};

#[global_allocator]
static ALLOCATOR: SteppeMalloc = SteppeMalloc;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> usize {
        usize::try_from(self.next() % end).expect("64 bits")
    }

    /// Sizes as programs have them: mostly small, some large, few huge.
    fn size(&mut self) -> usize {
        let most = match self.below(100) {
            0..60 => 256,
            60..90 => 4 << 10,
            90..97 => 64 << 10,
            97..99 => 1 << 20,
            _ => 3 << 20,
        };
        self.below(most)
    }
}

/// A block whose every byte is its own seed.
struct Block {
    address: usize,
    bytes: usize,
    seed: u8,
}

impl Block {
    fn new(bytes: usize, seed: u8) -> Self {
        let pointer = raw::allocate(bytes);
        assert!(!pointer.is_null());
        assert_eq!(pointer.addr() % raw::ALIGN, 0);
        // SAFETY: as many bytes were asked for.
        unsafe { pointer.write_bytes(seed, bytes) };
        Self {
            address: pointer.expose_provenance(),
            bytes,
            seed,
        }
    }

    fn check(&self) {
        // SAFETY: the block lives, with as many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.pointer(), self.bytes) };
        assert!(bytes.iter().all(|&byte| byte == self.seed), "overwritten");
    }

    fn pointer(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    fn resize(&mut self, bytes: usize) {
        // SAFETY: the block lives.
        let pointer = unsafe { raw::reallocate(self.pointer(), bytes) };
        assert!(!pointer.is_null());
        self.address = pointer.expose_provenance();
        self.bytes = self.bytes.min(bytes);
        self.check();
        // SAFETY: as many bytes were asked for.
        unsafe { pointer.write_bytes(self.seed, bytes) };
        self.bytes = bytes;
    }

    fn free(self) {
        self.check();
        // SAFETY: the block lives, and ends here.
        unsafe { raw::free(self.pointer()) };
    }
}

#[test]
fn one_thread_keeps_what_it_wrote() {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    let mut blocks: HashMap<usize, Block> = HashMap::new();
    for round in 0..200_000 {
        let slot = rng.below(700);
        match blocks.remove(&slot) {
            Some(mut block) if rng.below(4) == 0 => {
                block.resize(rng.size().max(1));
                blocks.insert(slot, block);
            }
            Some(block) => block.free(),
            None => {
                let seed = u8::try_from(round % 251).unwrap();
                blocks.insert(slot, Block::new(rng.size(), seed));
            }
        }
        if round % 50_000 == 0 {
            raw::trim();
        }
    }
    blocks.into_values().for_each(Block::free);
}

#[test]
fn threads_hand_blocks_over_and_end() {
    for wave in 0..30_u64 {
        let (to, from) = sync_channel::<Block>(256);
        let makers: Vec<_> = (0..4)
            .map(|maker| {
                let to = to.clone();
                std::thread::spawn(move || {
                    let mut rng = Rng(wave * 31 + maker + 1);
                    for _ in 0..3_000 {
                        let seed = u8::try_from(rng.below(255)).unwrap();
                        to.send(Block::new(rng.below(2_000), seed)).unwrap();
                    }
                })
            })
            .collect();
        drop(to);
        let taker = std::thread::spawn(move || from.into_iter().for_each(Block::free));
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        taker.join().unwrap();
        if wave % 10 == 3 {
            profile::set(profile::Profile::Lean);
        }
        if wave % 10 == 6 {
            profile::set(profile::Profile::Speed);
        }
        raw::trim();
    }
    let mut json = String::new();
    stats::write_json(&mut json).unwrap();
    println!("{json}");
    profile::set(profile::Profile::Balanced);
}
