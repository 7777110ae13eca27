//! Two devices in virtual time, each with a clock of its own, that hear the same clicks or the same tone.

use std::f64::consts::TAU;

use super::*;

const RATE: u32 = 8_000;
const PACKET: u64 = 80;

/// A device that samples a click at the start of every second of its clock.
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

/// Numbers of the frames at which clicks begin.
fn clicks(samples: &[f32]) -> Vec<usize> {
    let rises = samples.windows(2).enumerate();
    let rises = rises.filter(|(_, pair)| pair[0] < 0.5 && pair[1] >= 0.5);
    rises.map(|(index, _)| index + 1).collect()
}

fn aligner() -> Aligner {
    Aligner::new(RATE, [1, 1], u32::try_from(PACKET).unwrap()).unwrap()
}

struct Run {
    first: Vec<f32>,
    second: Vec<f32>,
    filled: u64,
}

/// Captures for `seconds` of virtual time. `lost` returns the source whose packets are lost in a step.
fn run(seconds: u64, mut devices: [Device; 2], lost: impl Fn(u64) -> Option<usize>) -> Run {
    let mut aligner = aligner();
    let mut run = Run {
        first: Vec::new(),
        second: Vec::new(),
        filled: 0,
    };
    for step in 0..seconds * u64::from(RATE) / PACKET {
        let (samples, time) = devices[0].packet();
        if lost(step) == Some(0) {
            aligner.hurry();
            pull(&mut aligner, &mut run);
            aligner.lose_first(PACKET);
        } else {
            aligner.push_first(&samples, Time::of_device(time));
        }
        // The second's packets come at times of its own clock.
        while devices[1].time(devices[1].next + PACKET) <= devices[0].time(devices[0].next) {
            let (samples, time) = devices[1].packet();
            if lost(step) == Some(1) {
                aligner.lose_second(PACKET);
            } else {
                aligner
                    .push_second(&samples, Time::of_device(time))
                    .unwrap();
            }
        }
        pull(&mut aligner, &mut run);
    }
    run.filled = aligner.take_filled();
    run
}

fn pull(aligner: &mut Aligner, run: &mut Run) {
    aligner
        .pull(|aligned| {
            run.first.extend(aligned.first);
            run.second.extend(aligned.second);
            Ok(())
        })
        .unwrap();
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
    let run = run(600, devices, |_| None);
    // Without control they would be 480 frames apart at the end. A packet has 80.
    assert!(worst(&run, 0) <= 1, "{} frames apart", worst(&run, 0));
    // The second began 37 ms later, part of which is the start of the filter.
    assert!(
        (296 - 64..=296).contains(&run.filled),
        "{} frames",
        run.filled
    );
}

#[test]
fn a_second_that_began_first_or_runs_slow_is_aligned_too() {
    let devices = [Device::new(80.0, 5.5e9), Device::new(-120.0, 5e9)];
    let run = run(60, devices, |_| None);
    assert!(worst(&run, 0) <= 1, "{} frames apart", worst(&run, 0));
    assert_eq!(run.filled, 0);
}

#[test]
fn what_the_second_lost_is_silence_in_its_place() {
    let devices = [Device::new(0.0, 5e9), Device::new(0.0, 5e9)];
    // Half a second from 10.2 s on, between two clicks.
    let run = run(20, devices, |step| {
        (1_020..1_070).contains(&step).then_some(1)
    });
    assert!(worst(&run, 0) <= 1, "{} frames apart", worst(&run, 0));
    assert!(run.filled.abs_diff(4_000) <= 200, "{} frames", run.filled);
}

#[test]
fn what_the_second_has_beside_what_the_first_lost_goes_with_nothing() {
    let devices = [Device::new(0.0, 5e9), Device::new(0.0, 5e9)];
    // Half a second that ends 0.3 s before a click.
    let run = run(20, devices, |step| {
        (1_020..1_070).contains(&step).then_some(0)
    });
    // Both have all frames, but for those still in the filter and in a packet.
    let short = (20 * 8_000 - 4_000) - run.first.len();
    assert!(short < 400, "{short} frames");
    assert!(worst(&run, 0) <= 1, "{} frames apart", worst(&run, 0));
    // Silence stands for frames that the second had not delivered when the loss was noted.
    assert!(run.filled <= 400, "{} frames", run.filled);
}

#[test]
fn a_first_source_that_stands_still_lets_nothing_grow() {
    let mut aligner = aligner();
    let mut devices = [Device::new(0.0, 5e9), Device::new(0.0, 5e9)];
    let room = aligner.second.ready.capacity();
    for step in 0..6_000 {
        // The first delivers for a second of the minute.
        if step < 100 {
            let (samples, time) = devices[0].packet();
            aligner.push_first(&samples, Time::of_device(time));
        }
        let (samples, time) = devices[1].packet();
        aligner
            .push_second(&samples, Time::of_device(time))
            .unwrap();
        aligner.pull(|_| Ok(())).unwrap();
    }
    // A second of frames and a packet.
    let waiting = aligner.second.ready_frames();
    assert!((8_000..=8_080).contains(&waiting), "{waiting} frames");
    assert_eq!(aligner.second.ready.capacity(), room);
}

/// `true` for each frame that goes out with an estimated time, where the first twenty packets of the source `estimated`
/// have estimated times.
fn marks(estimated: usize) -> Vec<bool> {
    let mut aligner = aligner();
    let mut devices = [Device::new(0.0, 5e9), Device::new(0.0, 5e9)];
    let mut marks = Vec::new();
    for step in 0..100 {
        let [first, second] = [0, 1].map(|index| {
            let (samples, ns) = devices[index].packet();
            let is_estimated = index == estimated && step < 20;
            (samples, Time { ns, is_estimated })
        });
        aligner.push_first(&first.0, first.1);
        aligner.push_second(&second.0, second.1).unwrap();
        let mark = |aligned: Aligned<'_>| {
            marks.extend(aligned.first.iter().map(|_| aligned.time.is_estimated));
            Ok(())
        };
        aligner.pull(mark).unwrap();
    }
    marks
}

#[test]
fn times_are_estimated_while_either_source_has_them_so() {
    for source in [0, 1] {
        let marks = marks(source);
        assert!(marks.is_sorted_by(|one, other| one >= other), "once");
        let count = marks.iter().filter(|&&is_estimated| is_estimated).count();
        // Frames that go out together are marked like the first of them.
        assert!((1_600..1_700).contains(&count), "{source}: {count} frames");
        assert!(marks.len() > 7_000);
    }
}

/// The tone that both devices hear, in Hz: its period makes errors of up to 5 ms unambiguous.
const TONE: f64 = 100.0;
/// Frames of a period of the tone.
const PERIOD: usize = 80;

/// Errors of a packet's reported time: random jitter of `jitter` ns, and from `shifted` s on `shift` ns besides.
#[derive(Clone, Copy, Default)]
struct Telling {
    jitter: f64,
    shifted: f64,
    shift: f64,
}

/// Offset of the second source against the first in frames, for each quarter of a period, of two devices that hear the
/// tone for `seconds`.
fn errors(seconds: u64, mut devices: [Device; 2], telling: Telling) -> Vec<f64> {
    let mut aligner = aligner();
    let mut run = Run {
        first: Vec::new(),
        second: Vec::new(),
        filled: 0,
    };
    let mut chance = Chance(1);
    let mut next = |device: &mut Device| {
        let (start, frames) = (device.next, device.next..device.next + PACKET);
        device.next += PACKET;
        #[expect(clippy::cast_possible_truncation, reason = "a sample")]
        let tone = |frame| (TAU * TONE * device.time(frame) / 1e9).sin() as f32;
        let samples: Vec<f32> = frames.map(tone).collect();
        (samples, device.time(start) + telling.jitter * chance.next())
    };
    while devices[0].next < seconds * u64::from(RATE) {
        let (samples, ns) = next(&mut devices[0]);
        aligner.push_first(&samples, told(ns));
        while devices[1].time(devices[1].next + PACKET) <= devices[0].time(devices[0].next) {
            let (samples, ns) = next(&mut devices[1]);
            let is_shifted = telling.shifted > 0.0 && ns > 5e9 + telling.shifted * 1e9;
            let shift = if is_shifted { telling.shift } else { 0.0 };
            aligner.push_second(&samples, told(ns + shift)).unwrap();
        }
        pull(&mut aligner, &mut run);
    }
    let starts = (0..run.first.len() - PERIOD).step_by(PERIOD / 4);
    starts
        .map(|at| {
            let [first, second] =
                [&run.first, &run.second].map(|track| phase(&track[at..at + PERIOD]));
            let turns = ((first - second) / TAU + 0.5).rem_euclid(1.0) - 0.5;
            turns * f64::from(RATE) / TONE
        })
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time"
)]
fn told(ns: f64) -> Time {
    Time::of_device(ns as u64)
}

/// Random numbers of -0.5 to 0.5, the same each time (the generator of Numerical Recipes).
struct Chance(u32);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(self.0) / 4_294_967_296.0 - 0.5
    }
}

/// Phase of the tone in one of its periods, in radians.
fn phase(samples: &[f32]) -> f64 {
    let (mut sine, mut cosine) = (0.0, 0.0);
    for (index, &sample) in samples.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a period")]
        let (sin, cos) = (TAU * index as f64 / PERIOD as f64).sin_cos();
        sine += f64::from(sample) * sin;
        cosine += f64::from(sample) * cos;
    }
    cosine.atan2(sine)
}

/// The largest absolute value.
fn largest(errors: impl IntoIterator<Item = f64>) -> f64 {
    errors.into_iter().map(f64::abs).fold(0.0, f64::max)
}

/// Changes from each error to the next.
fn steps(errors: &[f64]) -> impl Iterator<Item = f64> {
    errors.windows(2).map(|pair| pair[1] - pair[0])
}

/// Frames of 0.1 ms.
const TENTH_MS: f64 = RATE as f64 / 1e4;
/// Errors of a second.
const SECOND: usize = RATE as usize * 4 / PERIOD;

#[test]
fn drift_is_followed_by_fractions_of_a_frame() {
    for ppm in [200.0, -200.0] {
        for jitter in [0.0, 1e6] {
            let devices = [Device::new(0.0, 5e9), Device::new(ppm, 5.02e9)];
            let telling = Telling {
                jitter,
                ..Telling::default()
            };
            // Without the first two seconds, in which the second begins and is placed.
            let errors = &errors(60, devices, telling)[2 * SECOND..];
            let step = largest(steps(errors));
            assert!(
                step < 0.1,
                "{ppm} ppm, jitter {jitter}: {step} frames at once"
            );
            let error = largest(errors[20 * SECOND..].iter().copied());
            assert!(
                error < TENTH_MS,
                "{ppm} ppm, jitter {jitter}: {error} frames apart"
            );
        }
    }
}

#[test]
fn a_time_that_is_corrected_moves_the_second_without_a_step() {
    let devices = [Device::new(0.0, 5e9), Device::new(50.0, 5.02e9)];
    let telling = Telling {
        jitter: 2e5,
        shifted: 20.0,
        shift: 2e6,
    };
    let errors = &errors(60, devices, telling)[2 * SECOND..];
    let step = largest(steps(errors));
    assert!(step < 0.2, "{step} frames at once");
    // The second is placed by its reported times: 2 ms, which is 16 frames, from its true place.
    let apart = errors[40 * SECOND..].iter().map(|error| error - 16.0);
    let error = largest(apart);
    assert!(error < TENTH_MS, "{error} frames apart");
}

#[test]
fn a_second_that_stalled_is_beside_the_first_again_at_once() {
    let mut aligner = aligner();
    let mut devices = [Device::new(0.0, 5e9), Device::new(0.0, 5e9)];
    let mut run = Run {
        first: Vec::new(),
        second: Vec::new(),
        filled: 0,
    };
    let mut late = Vec::new();
    for step in 0..2_000 {
        let (samples, time) = devices[0].packet();
        aligner.push_first(&samples, Time::of_device(time));
        late.push(devices[1].packet());
        // Packets of 0.52 s arrive all at once: 20 ms more than the first waits for.
        if !(1_020..1_072).contains(&step) {
            for (samples, time) in late.drain(..) {
                let time = Time::of_device(time);
                aligner.push_second(&samples, time).unwrap();
            }
        }
        pull(&mut aligner, &mut run);
    }
    assert!(worst(&run, 0) <= 1, "{} frames apart", worst(&run, 0));
    assert!((80..=400).contains(&aligner.take_filled()));
}
