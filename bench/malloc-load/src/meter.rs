//! The meter of a case: time and memory recorded while the case runs, and printed at its end.
//!
//! Invariant: recording allocates nothing; only printing does, after the last mark.

use std::thread;
use std::time::{Duration, Instant};

use crate::{status, sys};

/// Clocks and marks of one run of a case.
#[derive(Debug)]
pub struct Meter {
    /// Idle time before an allocator's idle memory is read; zero leaves that mark out.
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

/// Upper bound of the marks that a case sets.
const MARKS_MAX: usize = 8;

impl Meter {
    /// A meter with nothing recorded.
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

    /// Counts operations done outside of the timed part.
    pub const fn untimed(&mut self, operations: u64) {
        self.untimed += operations;
    }

    /// Starts the timed part.
    pub fn start(&mut self) {
        self.started = Some((Instant::now(), sys::cpu_time()));
    }

    /// Ends the timed part, or one of several, after so many operations.
    pub fn stop(&mut self, operations: u64) {
        let (instant, cpu) = self.started.take().expect("a part ends that has begun");
        self.cpu += sys::cpu_time().saturating_sub(cpu);
        self.wall += instant.elapsed();
        self.operations += operations;
    }

    /// Records the anonymous resident memory of this moment.
    pub fn mark(&mut self, name: &'static str) {
        self.marks[self.mark_count] = (name, status::read().anonymous_kib);
        self.mark_count += 1;
    }

    /// Sleeps for the pause, then records the anonymous resident memory.
    pub fn mark_after_pause(&mut self, name: &'static str) {
        if !self.pause.is_zero() {
            thread::sleep(self.pause);
            self.mark(name);
        }
    }

    /// Records the bytes that the case had requested and not freed at its steady state.
    pub const fn live_bytes(&mut self, bytes: u64) {
        self.live_bytes = bytes;
    }

    /// Prints one figure a line: its name, the name of a mark, and a whole number.
    pub fn tell(&self) {
        println!("operations {}", self.operations);
        println!("untimed_operations {}", self.untimed);
        println!("cpu_us {}", self.cpu.as_micros());
        println!("wall_us {}", self.wall.as_micros());
        if self.live_bytes > 0 {
            println!("live_bytes {}", self.live_bytes);
        }
        // Printing allocates, but too little to raise the peak, which is read before its line is printed.
        // VmHWM of the kernel may lag behind a mark.
        let marks = &self.marks[..self.mark_count];
        let seen_kib = marks.iter().map(|(_, kib)| *kib).max().unwrap_or(0);
        let own_kib = status::read().peak_kib.max(seen_kib);
        println!("peak_kib {}", own_kib.max(sys::children_peak_kib()));
        for (name, kib) in marks {
            println!("mark_kib {name} {kib}");
        }
    }
}
