//! Two devices in virtual time, each with a clock of its own, that hear the same clicks.

use super::*;

const RATE: u32 = 8_000;
const PACKET: u64 = 80;

/// A device that samples a click at the start of every second, as its clock has it.
struct Device {
    frame_ns: f64,
    start_ns: f64,
    next: u64,
}

impl Device {
    fn new(ppm: f64, start_ns: f64) -> Self {
        Self {
            frame_ns: 1e9 / (f64::from(RATE) * (1.0 + ppm / 1e6)),
            start_ns,
            next: 0,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "exact")]
    fn time(&self, frame: u64) -> f64 {
        self.start_ns + frame as f64 * self.frame_ns
    }

    /// The next packet and its time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time"
    )]
    fn packet(&mut self) -> (Vec<f32>, u64) {
        let frames = self.next..self.next + PACKET;
        let time = self.time(self.next) as u64;
        self.next += PACKET;
        let click = |frame| {
            let into_second = self.time(frame) % 1e9;
            if into_second < 1e6 { 1.0 } else { 0.0 }
        };
        (frames.map(click).collect(), time)
    }
}

/// Where clicks begin, as numbers of frames.
fn clicks(samples: &[f32]) -> Vec<usize> {
    let rises = samples.windows(2).enumerate();
    let rises = rises.filter(|(_, pair)| pair[0] < 0.5 && pair[1] >= 0.5);
    rises.map(|(index, _)| index + 1).collect()
}

struct Run {
    first: Vec<f32>,
    second: Vec<f32>,
    filled: u64,
}

/// Captures for so many seconds of virtual time; `each` may lose a packet of the second.
fn run(seconds: u64, mut devices: [Device; 2], is_lost: impl Fn(u64) -> bool) -> Run {
    let mut aligner = Aligner::new(RATE, 1, 1).unwrap();
    let mut run = Run {
        first: Vec::new(),
        second: Vec::new(),
        filled: 0,
    };
    for step in 0..seconds * u64::from(RATE) / PACKET {
        let (samples, time) = devices[0].packet();
        aligner.push_first(&samples, time);
        // The second's packets come as its clock has them.
        while devices[1].time(devices[1].next + PACKET) <= devices[0].time(devices[0].next) {
            let (samples, time) = devices[1].packet();
            if is_lost(step) {
                aligner.lose_second(PACKET);
            } else {
                aligner.push_second(&samples, time).unwrap();
            }
        }
        aligner
            .pull(|aligned| {
                run.first.extend(aligned.first);
                run.second.extend(aligned.second);
                Ok(())
            })
            .unwrap();
    }
    run.filled = aligner.take_filled();
    run
}

/// The largest distance of a click in the second from that in the first, in frames; after `from`.
fn worst(run: &Run, from: usize) -> usize {
    assert_eq!(run.first.len(), run.second.len());
    let theirs = clicks(&run.second);
    let ours = clicks(&run.first);
    let ours = ours
        .iter()
        .filter(|&&at| at >= from && at + 800 < run.first.len());
    let distances: Vec<usize> = ours
        .map(|&at| {
            theirs
                .iter()
                .map(|&other| other.abs_diff(at))
                .min()
                .unwrap_or(usize::MAX)
        })
        .collect();
    assert!(distances.len() > 5, "there are clicks");
    distances.into_iter().max().unwrap_or(usize::MAX)
}

#[test]
fn two_devices_100_ppm_apart_stay_aligned_for_ten_minutes() {
    let devices = [Device::new(0.0, 5e9), Device::new(100.0, 5.037e9)];
    let run = run(600, devices, |_| false);
    // Left alone they would be 480 frames apart at the end. A packet has 80.
    assert!(worst(&run, 0) <= 8, "{} frames apart", worst(&run, 0));
    // The second began 37 ms later, of which the filter's start makes some.
    assert!(
        (296 - 64..=296).contains(&run.filled),
        "{} frames",
        run.filled
    );
}

#[test]
fn a_second_that_began_first_or_runs_slow_is_aligned_too() {
    let devices = [Device::new(80.0, 5.5e9), Device::new(-120.0, 5e9)];
    let run = run(60, devices, |_| false);
    assert!(worst(&run, 0) <= 8, "{} frames apart", worst(&run, 0));
    assert_eq!(run.filled, 0);
}

#[test]
fn what_the_second_lost_is_silence_in_its_place() {
    let devices = [Device::new(0.0, 5e9), Device::new(0.0, 5e9)];
    // Half a second, from 10.2 s on: between two clicks.
    let run = run(20, devices, |step| (1_020..1_070).contains(&step));
    assert!(worst(&run, 0) <= 8, "{} frames apart", worst(&run, 0));
    assert!(run.filled.abs_diff(4_000) <= 200, "{} frames", run.filled);
}
