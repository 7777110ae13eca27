//! What a case notes while it runs, and tells when it is over.
//!
//! Invariant: noting allocates nothing; only telling does, after the last mark.

use std::thread;
use std::time::{Duration, Instant};

use crate::{status, sys};

/// Clocks and marks of one run of a case.
#[derive(Debug)]
pub struct Meter {
    /// How long an allocator is left alone before its idle memory is read; zero leaves that out.
    pause: Duration,
    started: Option<(Instant, Duration)>,
    operations: u64,
    untimed: u64,
    wall: Duration,
    cpu: Duration,
    live_bytes: u64,
    marks: [(&'static str, u64); MARKS_MAX],
    mark_count: usize,
}

/// No case sets more.
const MARKS_MAX: usize = 8;

impl Meter {
    /// Nothing noted yet.
    pub const fn new(pause: Duration) -> Self {
        Self {
            pause,
            started: None,
            operations: 0,
            untimed: 0,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            live_bytes: 0,
            marks: [("", 0); MARKS_MAX],
            mark_count: 0,
        }
    }

    /// So many operations are done outside of the timed part.
    pub const fn untimed(&mut self, operations: u64) {
        self.untimed += operations;
    }

    /// The timed part begins.
    pub fn start(&mut self) {
        self.started = Some((Instant::now(), sys::cpu_time()));
    }

    /// The timed part, or one of several, ends after so many operations.
    pub fn stop(&mut self, operations: u64) {
        let (instant, cpu) = self.started.take().expect("a part ends that has begun");
        self.cpu += sys::cpu_time().saturating_sub(cpu);
        self.wall += instant.elapsed();
        self.operations += operations;
    }

    /// Notes what is resident at this point.
    pub fn mark(&mut self, name: &'static str) {
        self.marks[self.mark_count] = (name, status::read().anonymous_kib);
        self.mark_count += 1;
    }

    /// Leaves the allocator alone for a while, and notes what is resident then.
    pub fn mark_after_pause(&mut self, name: &'static str) {
        if !self.pause.is_zero() {
            thread::sleep(self.pause);
            self.mark(name);
        }
    }

    /// Notes how much the case held at its steady state, as it asked for it.
    pub const fn live_bytes(&mut self, bytes: u64) {
        self.live_bytes = bytes;
    }

    /// Prints a line a figure: its name, and a whole number or two.
    pub fn tell(&self) {
        println!("operations {}", self.operations);
        println!("untimed_operations {}", self.untimed);
        println!("cpu_us {}", self.cpu.as_micros());
        println!("wall_us {}", self.wall.as_micros());
        if self.live_bytes > 0 {
            println!("live_bytes {}", self.live_bytes);
        }
        // Telling allocates: the peak is read before it is told, and a buffer does not raise it.
        // The kernel's own highest mark may lag behind what a point saw.
        let marks = &self.marks[..self.mark_count];
        let seen_kib = marks.iter().map(|(_, kib)| *kib).max().unwrap_or(0);
        let own_kib = status::read().peak_kib.max(seen_kib);
        println!("peak_kib {}", own_kib.max(sys::children_peak_kib()));
        for (name, kib) in marks {
            println!("mark_kib {name} {kib}");
        }
    }
}
