//! Epochs and samples of made runs: figures that wander and jump by pages as those of a process do.

use steppe_lab::record::{Epoch, Sample};

pub const KIB: u64 = 1024;
pub const MIB: u64 = 1024 * KIB;

/// Generator of noise, xorshift64*: the same sequence everywhere.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A random share from 0 to 1.
    pub fn share(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits =
            u32::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32).expect("32 bits");
        f64::from(bits) / f64::from(u32::MAX)
    }

    /// An about normal number, of deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

/// The course of a made run's memory.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    pub start_bytes: u64,
    pub growth_bytes: f64,
    pub noise_bytes: f64,
    pub warmup: u32,
    pub epochs: u32,
    pub runs: u32,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made figures"
)]
pub fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

#[allow(clippy::cast_precision_loss, reason = "made figures")]
pub fn float(value: u64) -> f64 {
    value as f64
}

pub fn pages(bytes: f64) -> u64 {
    whole(bytes) / 4096 * 4096
}

/// The epochs and samples of a soak of one variant.
pub fn soak_rows(variant: &str, course: Course, noise: &mut Noise) -> (Vec<Epoch>, Vec<Sample>) {
    let (mut epochs, mut samples) = (Vec::new(), Vec::new());
    for run in 0..course.runs {
        let mut drift = 0.0;
        for epoch in 0..course.epochs {
            drift = 0.8 * drift + 0.6 * noise.normal() * course.noise_bytes;
            let warm = float(course.start_bytes) * 0.25 * (-f64::from(epoch) / 3.0).exp();
            let base = float(course.start_bytes) - warm + course.growth_bytes * f64::from(epoch);
            let made = soak_epoch(variant, run, epoch, base + drift, course, noise);
            for step in 0..10 {
                let under_load = base + drift + float(6 * MIB) * (0.6 + 0.4 * noise.share());
                let quiet = step == 9;
                samples.push(Sample {
                    variant: variant.to_owned(),
                    run,
                    at_ms: u64::from(epoch) * 5000 + step * 500 + 400,
                    rss_bytes: Some(pages(if quiet { base } else { under_load })),
                    ..Sample::default()
                });
            }
            epochs.push(made);
        }
    }
    (epochs, samples)
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub fn soak_epoch(
    variant: &str,
    run: u32,
    epoch: u32,
    bytes: f64,
    course: Course,
    noise: &mut Noise,
) -> Epoch {
    let is_first = epoch == 0;
    let operations = whole(23_700.0 + 40.0 * noise.normal() - if is_first { 900.0 } else { 0.0 });
    let p50 = 310.0 * (1.0 + 0.02 * noise.normal());
    Epoch {
        variant: variant.to_owned(),
        run,
        epoch,
        warmup: epoch < course.warmup,
        start_ms: u64::from(epoch) * 5000 + 400,
        load_ms: 4750,
        operations: Some(operations),
        errors: Some(0),
        intended: Some(23_750),
        p50_us: Some(p50),
        p90_us: Some(p50 * 1.9),
        p99_us: Some(p50 * (7.0 + 1.5 * noise.share())),
        p999_us: Some(p50 * (18.0 + 14.0 * noise.share())),
        max_us: Some(p50 * 60.0),
        rss_bytes: Some(pages(bytes + float(7 * MIB))),
        anonymous_bytes: Some(pages(bytes)),
        hwm_bytes: Some(pages(bytes + float(13 * MIB) + float(MIB) * noise.share())),
        live_bytes: Some(whole(
            float(course.start_bytes) * 0.55 + float(40 * KIB) * noise.share(),
        )),
        cpu_us: Some(whole(float(operations) * (38.0 + 0.6 * noise.normal()))),
        syscalls: Some(whole(float(operations) * (4.1 + 0.01 * noise.normal()))),
        threads: Some(9),
        processes: Some(1),
        open_files: Some(82 + u64::from(epoch % 3)),
        established_max: Some(64),
        close_wait_max: Some(0),
        ..Epoch::default()
    }
}

/// Memory before the first cycle.
pub fn start_epoch(variant: &str, rss_bytes: u64) -> Epoch {
    Epoch {
        variant: variant.to_owned(),
        warmup: true,
        rss_bytes: Some(rss_bytes),
        anonymous_bytes: Some(rss_bytes - 9 * MIB),
        ..Epoch::default()
    }
}

pub fn cycle_epoch(variant: &str, cycle: u32, rss_bytes: u64) -> Epoch {
    Epoch {
        variant: variant.to_owned(),
        epoch: cycle,
        start_ms: 1000 + u64::from(cycle) * 20_000,
        load_ms: 17_000,
        operations: Some(1000),
        p50_us: Some(1_540_000.0),
        p90_us: Some(1_900_000.0),
        p99_us: Some(2_310_000.0),
        rss_bytes: Some(rss_bytes),
        anonymous_bytes: Some(rss_bytes - 9 * MIB),
        hwm_bytes: Some(rss_bytes + 310 * MIB),
        cpu_us: Some(23_000_000),
        threads: Some(37),
        ..Epoch::default()
    }
}
