//! Packets made of pushed frames, in a ring of memory without JavaScript.

use super::*;
use crate::format::Sample;
use crate::frames::Data;
use crate::gaps::Gaps;
use crate::ring::tests::{Consumer, Taken, ring};
use std::sync::atomic::Ordering::Relaxed;

const FORMAT: Format = Format {
    rate: 48_000,
    channels: 1,
    sample: Sample::S16,
};

const PLAIN: Settings = Settings {
    format: FORMAT,
    packet_frames: 4,
    overrun: Overrun::DropOldest,
    silence: Silence::Emit,
    gate: None,
    map: ChannelMap::standard(1),
};

fn packetizer(slots: u32, settings: Settings) -> (Packetizer, Consumer) {
    let ring = ring(slots, 8);
    let consumer = Consumer::of(&ring);
    (Packetizer::new(ring, settings).unwrap(), consumer)
}

fn ramp(from: i16, count: i16) -> Vec<u8> {
    (from..from + count)
        .flat_map(|sample| sample.to_le_bytes())
        .collect()
}

fn push(packetizer: &mut Packetizer, data: &[u8], ns: u64) -> Result<()> {
    packetizer.push(&Data::Bytes(data).plain(FORMAT), Time::of_device(ns))
}

fn samples(taken: &Taken) -> Vec<i16> {
    let (samples, _) = taken.data.as_chunks::<2>();
    samples
        .iter()
        .map(|&bytes| i16::from_le_bytes(bytes))
        .collect()
}

fn count(packetizer: &Packetizer, counter: Counter) -> u64 {
    packetizer.ring().counter(counter).load(Relaxed)
}

#[test]
fn chunks_of_any_size_become_packets_of_one_size() {
    let (mut packetizer, consumer) = packetizer(8, PLAIN);
    for (from, frames) in [(1, 3), (4, 7), (11, 1), (12, 5)] {
        let ns = u64::try_from(from - 1).unwrap() * 1_000_000_000 / 48_000;
        push(&mut packetizer, &ramp(from, frames), ns).unwrap();
    }
    let taken: Vec<Taken> = std::iter::from_fn(|| consumer.take()).collect();
    let all: Vec<i16> = taken.iter().flat_map(samples).collect();
    assert_eq!(all, (1..=16).collect::<Vec<i16>>());
    for (index, taken) in taken.iter().enumerate() {
        let index = index as u64;
        assert_eq!(
            (taken.packet.sequence, taken.packet.position),
            (index, index * 4)
        );
        // A packet's time is that of its first frame.
        assert!(taken.packet.time_ns.abs_diff(index * 83_333) <= 1);
        assert_eq!(taken.packet.flags, 0);
    }
    assert_eq!(count(&packetizer, Counter::CopiedFrames), 16);
}

#[test]
fn an_overrun_drops_the_oldest_and_positions_tell_it() {
    let (mut packetizer, consumer) = packetizer(2, PLAIN);
    push(&mut packetizer, &ramp(1, 16), 0).unwrap();
    let taken: Vec<Taken> = std::iter::from_fn(|| consumer.take()).collect();
    let positions: Vec<u64> = taken.iter().map(|taken| taken.packet.position).collect();
    assert_eq!(positions, [8, 12]);
    assert_eq!(samples(&taken[0]), [9, 10, 11, 12]);
    assert_eq!(count(&packetizer, Counter::DroppedFrames), 8);
    assert_eq!(count(&packetizer, Counter::Misses), 2);
}

#[test]
fn an_overrun_drops_the_newest_by_option_and_when_every_slot_is_held() {
    let newest = Settings {
        overrun: Overrun::DropNewest,
        ..PLAIN
    };
    for (settings, expected) in [(newest, [0, 4]), (PLAIN, [0, 4])] {
        let (mut packetizer, consumer) = packetizer(2, settings);
        push(&mut packetizer, &ramp(1, 8), 0).unwrap();
        let held =
            (settings == PLAIN).then(|| [consumer.take().unwrap(), consumer.take().unwrap()]);
        push(&mut packetizer, &ramp(9, 8), 0).unwrap();
        let taken = held.map_or_else(
            || std::iter::from_fn(|| consumer.take()).collect(),
            Vec::from,
        );
        let positions: Vec<u64> = taken.iter().map(|taken| taken.packet.position).collect();
        assert_eq!(positions, expected);
        taken.iter().for_each(|taken| consumer.release(taken));
        push(&mut packetizer, &ramp(17, 4), 0).unwrap();
        assert_eq!(consumer.take().unwrap().packet.position, 16);
        assert_eq!(count(&packetizer, Counter::DroppedPackets), 2);
        assert_eq!(count(&packetizer, Counter::Frames), 20);
    }
}

#[test]
fn an_overrun_fails_by_option() {
    let (mut packetizer, _) = packetizer(
        2,
        Settings {
            overrun: Overrun::Fail,
            ..PLAIN
        },
    );
    let failed = push(&mut packetizer, &ramp(1, 12), 0);
    assert_eq!(failed, Err(Error::Overrun { slots: 2 }));
}

#[test]
fn lost_frames_end_a_packet_and_are_told_by_the_next() {
    let (mut packetizer, consumer) = packetizer(4, PLAIN);
    push(&mut packetizer, &ramp(1, 2), 0).unwrap();
    packetizer.lose(Loss::exact(480));
    push(&mut packetizer, &ramp(3, 4), 10_041_666).unwrap();
    let (short, next) = (
        consumer.take().unwrap().packet,
        consumer.take().unwrap().packet,
    );
    assert_eq!((short.frames, short.flags), (2, 0));
    assert_eq!((next.position, short.lost, next.lost), (482, 0, 480));
    assert_eq!(next.flags, flag::DISCONTINUITY);
    assert_eq!(count(&packetizer, Counter::LostFrames), 480);
    push(&mut packetizer, &ramp(7, 4), 10_125_000).unwrap();
    let last = consumer.take().unwrap().packet;
    assert_eq!((last.lost, last.estimated), (480, 0));
}

#[test]
fn a_capture_begins_with_the_first_frame_that_came_or_was_lost() {
    let (mut packetizer, _) = packetizer(4, PLAIN);
    packetizer.lose(Loss::estimated(2));
    assert_eq!(count(&packetizer, Counter::StartedNs), 0);
    push(&mut packetizer, &ramp(0, 4), 5_000_000_000).unwrap();
    packetizer.lose(Loss::exact(7));
    push(&mut packetizer, &ramp(4, 4), 9_000_000_000).unwrap();
    let before_ns = PLAIN.format.duration_ns(2);
    assert_eq!(
        count(&packetizer, Counter::StartedNs),
        5_000_000_000 - before_ns
    );
}

#[test]
fn an_overrun_drops_no_estimate_with_its_packet() {
    let (mut packetizer, consumer) = packetizer(2, PLAIN);
    packetizer.lose(Loss::estimated(100));
    push(&mut packetizer, &ramp(1, 4), 0).unwrap();
    packetizer.lose(Loss::exact(10));
    // The first packet is dropped for the third.
    push(&mut packetizer, &ramp(5, 8), 0).unwrap();
    packetizer.lose(Loss::estimated(1));
    let mut gaps = Gaps::default();
    let first = consumer.take().unwrap().packet;
    assert_eq!(
        (first.position, first.lost, first.estimated),
        (114, 110, 100)
    );
    let losses = gaps.before(&first);
    assert_eq!(losses, [Loss::exact(14), Loss::estimated(100)]);
    // A later loss is not in the record of a packet that waits.
    let second = consumer.take().unwrap().packet;
    assert_eq!(gaps.before(&second), [Loss::exact(0), Loss::estimated(0)]);
}

#[test]
fn silence_is_flagged_or_skipped() {
    let (mut packetizer, consumer) = packetizer(4, PLAIN);
    let silence = Data::Silence(4).plain(FORMAT);
    packetizer.push(&silence, Time::of_device(0)).unwrap();
    let taken = consumer.take().unwrap();
    assert_eq!(
        (taken.packet.flags, samples(&taken)),
        (flag::SILENT, vec![0; 4])
    );

    let (mut packetizer, consumer) = self::packetizer(
        4,
        Settings {
            silence: Silence::Skip,
            ..PLAIN
        },
    );
    push(&mut packetizer, &ramp(1, 4), 0).unwrap();
    push(&mut packetizer, &[0; 8], 83_333).unwrap();
    push(&mut packetizer, &ramp(5, 4), 166_666).unwrap();
    let packets = [
        consumer.take().unwrap().packet,
        consumer.take().unwrap().packet,
    ];
    assert_eq!(
        (packets[1].position, packets[1].flags),
        (4, flag::DISCONTINUITY)
    );
    assert_eq!(count(&packetizer, Counter::SilentFrames), 4);
}

#[test]
fn a_gate_lets_the_preroll_pass_first() {
    let gate = gate::Settings {
        threshold: 0.25,
        hangover: 1,
        preroll: 2,
    };
    let (mut packetizer, consumer) = packetizer(
        8,
        Settings {
            gate: Some(gate),
            ..PLAIN
        },
    );
    let faint = |n: i16| [n; 4].map(i16::to_le_bytes).concat();
    let loud = [16_384_i16; 4].map(i16::to_le_bytes).concat();
    for data in [faint(1), faint(2), faint(3), loud, faint(4), faint(5)] {
        push(&mut packetizer, &data, 0).unwrap();
    }
    let taken: Vec<Taken> = std::iter::from_fn(|| consumer.take()).collect();
    let firsts: Vec<i16> = taken.iter().map(|taken| samples(taken)[0]).collect();
    assert_eq!(firsts, [2, 3, 16_384, 4]);
    assert_eq!(
        taken[0].packet.flags,
        flag::VOICE_BEGINS | flag::DISCONTINUITY
    );
    assert_eq!(taken[0].packet.position, 0);
    assert_eq!(count(&packetizer, Counter::GatedFrames), 4);
    packetizer.end();
    assert_eq!(count(&packetizer, Counter::GatedFrames), 8);
}

/// Sound from before a pause or a loss is no beginning of what is heard after it.
#[test]
fn a_pause_and_a_loss_end_the_preroll() {
    let gate = gate::Settings {
        threshold: 0.25,
        hangover: 0,
        preroll: 2,
    };
    let settings = Settings {
        gate: Some(gate),
        ..PLAIN
    };
    let faint = [1_i16; 4].map(i16::to_le_bytes).concat();
    let loud = [16_384_i16; 4].map(i16::to_le_bytes).concat();
    let cuts: [fn(&mut Packetizer); 2] = [
        |packetizer| packetizer.pass_over(4),
        |packetizer| packetizer.lose(Loss::exact(4)),
    ];
    for cut in cuts {
        let (mut packetizer, consumer) = packetizer(8, settings);
        push(&mut packetizer, &faint, 0).unwrap();
        cut(&mut packetizer);
        push(&mut packetizer, &loud, 0).unwrap();
        let taken = consumer.take().unwrap();
        assert_eq!(samples(&taken)[0], 16_384);
        assert_eq!(taken.packet.flags, flag::VOICE_BEGINS | flag::DISCONTINUITY);
        assert_eq!(count(&packetizer, Counter::GatedFrames), 4);
    }
}

#[test]
fn packets_and_preroll_have_to_fit() {
    let gate = gate::Settings {
        threshold: 0.1,
        hangover: 0,
        preroll: 3,
    };
    for settings in [
        Settings {
            packet_frames: 5,
            ..PLAIN
        },
        Settings {
            packet_frames: 0,
            ..PLAIN
        },
        Settings {
            gate: Some(gate),
            ..PLAIN
        },
    ] {
        assert!(matches!(
            Packetizer::new(ring(4, 8), settings),
            Err(Error::Options(_))
        ));
    }
}
