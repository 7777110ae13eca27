//! Silence for a loopback that delivers nothing while nothing plays.
//!
//! WASAPI gives no packets then. A capture's time has to go on, so silence is put in: frames missing
//! before a packet by its time, and overdue frames while none comes. Pure: times go in, numbers of frames
//! come out.

use crate::format::Format;
use crate::limits::{IDLE_AFTER_NS, IDLE_MARGIN_NS};

/// The position of a loopback in time; see the module.
#[derive(Debug)]
pub struct Idle {
    format: Format,
    /// Capture time of the frame after the last one, in ns.
    end_ns: Option<u64>,
}

impl Idle {
    /// A loopback without frames yet.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            format,
            end_ns: None,
        }
    }

    /// Capture time of the next frame, in ns.
    #[must_use]
    pub fn end_ns(&self) -> Option<u64> {
        self.end_ns
    }

    /// Frames of silence that are overdue, as no packet has come.
    pub fn overdue(&mut self, now_ns: u64) -> u64 {
        let end_ns = *self.end_ns.get_or_insert(now_ns);
        let late = now_ns.saturating_sub(end_ns);
        if late < IDLE_AFTER_NS {
            return 0;
        }
        self.pass(late - IDLE_MARGIN_NS)
    }

    /// Frames of silence before a packet of this time; a gap below the margin is jitter.
    pub fn before(&mut self, time_ns: u64) -> u64 {
        let end_ns = *self.end_ns.get_or_insert(time_ns);
        let missing = time_ns.saturating_sub(end_ns);
        if missing < IDLE_MARGIN_NS {
            return 0;
        }
        self.pass(missing)
    }

    fn pass(&mut self, ns: u64) -> u64 {
        let frames = self.format.frames_in(ns);
        self.captured(frames);
        frames
    }

    /// Takes note of captured frames.
    pub fn captured(&mut self, frames: u64) {
        if let Some(end_ns) = &mut self.end_ns {
            *end_ns += self.format.duration_ns(frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Sample;

    const MS: u64 = 1_000_000;

    fn idle() -> Idle {
        Idle::new(Format {
            rate: 48_000,
            channels: 2,
            sample: Sample::F32,
        })
    }

    #[test]
    fn time_goes_on_while_nothing_plays() {
        let mut idle = idle();
        assert_eq!(idle.before(1_000 * MS), 0);
        idle.captured(480);
        let mut frames = 480;
        for now_ms in (1_010..3_010).step_by(10) {
            frames += idle.overdue(now_ms * MS);
        }
        // Two seconds, less the margin for frames that may still come.
        assert!(
            (480 + 96_000 - 48 * 100..=480 + 96_000).contains(&frames),
            "{frames}"
        );
        // A packet at 3.1 s is placed at its time.
        frames += idle.before(3_100 * MS);
        assert!(frames.abs_diff(480 * 210) <= 1, "{frames}");
        let end_ns = idle.end_ns().unwrap();
        assert!(end_ns.abs_diff(3_100 * MS) <= MS, "{end_ns}");
    }

    #[test]
    fn jitter_is_no_silence() {
        let mut idle = idle();
        for (packet, jitter_ms) in [(0, 0), (1, 5), (2, 0), (3, 7)] {
            assert_eq!(idle.before((1_000 + packet * 10 + jitter_ms) * MS), 0);
            idle.captured(480);
        }
        assert_eq!(idle.overdue(1_060 * MS), 0);
    }
}
