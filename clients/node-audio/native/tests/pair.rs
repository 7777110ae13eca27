//! Allocations of two sources on one clock: none for a packet, on any thread.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test as well")]

#[path = "pair/counting.rs"]
mod counting;

use std::thread;
use std::time::Duration;

use counting::allocations;
use steppe_audio::capture::Capture;
use steppe_audio::channel_map::{ChannelMap, Position};
use steppe_audio::convert::Policy;
use steppe_audio::format::{Format, Sample};
use steppe_audio::layout::Layout;
use steppe_audio::packetizer::{Overrun, Packetizer, Settings, Silence};
use steppe_audio::ring::Ring;
use steppe_audio::ring::consumer::Consumer;
use steppe_audio::ring::sys::Heap;
use steppe_audio::source::Source;
use steppe_audio::source::pair::{Combine, Pair};
use steppe_audio::source::synthetic::{self, Pace, Synthetic, Wave};

/// Packets of a millisecond of two sources side by side, mixed to two channels of 16 bits.
const FORMAT: Format = Format {
    rate: 48_000,
    channels: 2,
    sample: Sample::S16,
};
const SETTINGS: Settings = Settings {
    format: FORMAT,
    packet_frames: 48,
    overrun: Overrun::DropOldest,
    silence: Silence::Emit,
    gate: None,
    map: ChannelMap::new(&[Position::Mono, Position::Mono]),
};

/// A device that runs fast by `ppm`, and is resampled for the pair.
fn device(ppm: f64) -> Box<dyn Source> {
    let settings = synthetic::Settings {
        format: Format {
            rate: 44_100,
            ..FORMAT
        },
        map: ChannelMap::standard(FORMAT.channels),
        wave: Wave::Speech,
        pace: Pace::Clock { ppm, speed: 1.0 },
        period: 44,
        frames: None,
    };
    Box::new(Synthetic::new(settings).unwrap())
}

fn wait_for(consumer: Consumer, packets: u32) {
    for _ in 0..packets {
        let taken = loop {
            match consumer.take() {
                Some(taken) => break taken,
                None => thread::sleep(Duration::from_micros(200)),
            }
        };
        consumer.release(&taken);
    }
}

#[test]
fn a_packet_of_two_sources_allocates_nothing() {
    let layout = Layout::new(64, 192).unwrap();
    let heap = Heap::new(layout.bytes);
    let ring = Ring::new(heap.producer(), layout).unwrap();
    let consumer = Consumer::of(&ring);
    let packetizer = Packetizer::new(ring, SETTINGS).unwrap();
    let sources = [device(0.0), device(200.0)];
    let pair = Pair::new(sources, Combine::SideBySide, &SETTINGS, Policy::Allow);
    let before = allocations();
    let mut capture =
        Capture::start(Box::new(pair), packetizer, Policy::Allow, Box::new(|| {})).unwrap();
    wait_for(consumer, 200);
    assert!(allocations() > before, "it counts");
    let warm = allocations();
    wait_for(consumer, 800);
    assert_eq!(allocations() - warm, 0, "of 800 packets");
    capture.close();
}
