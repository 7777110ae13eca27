//! Suspicion that silence is a denied permission.
//!
//! macOS delivers zeros to a program without permission to capture. A microphone never gives zeros for
//! long, and a tap gives them only while nothing plays: so it is a suspicion, reported once.

use crate::format::Format;
use crate::limits::SUSPICIOUS_SILENCE_NS;

/// Watches for zeros from the start; see the module.
#[derive(Debug)]
pub struct Suspicion {
    /// Zero frames left until the suspicion is reported; none once a sample was heard or it was reported.
    left: Option<u64>,
}

impl Suspicion {
    /// A stream without samples yet.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            left: Some(format.frames_in(SUSPICIOUS_SILENCE_NS)),
        }
    }

    /// Takes note of samples; `true` if the suspicion is to be reported now.
    pub fn is_raised_by(&mut self, samples: &[f32], frames: u64) -> bool {
        let Some(left) = self.left else { return false };
        if samples.iter().any(|&sample| sample != 0.0) {
            self.left = None;
            return false;
        }
        let left = left.saturating_sub(frames);
        self.left = (left > 0).then_some(left);
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Sample;

    const FORMAT: Format = Format {
        rate: 48_000,
        channels: 1,
        sample: Sample::F32,
    };

    fn told(chunks: &[&[f32]]) -> usize {
        let mut suspicion = Suspicion::new(FORMAT);
        let raised = chunks
            .iter()
            .filter(|samples| suspicion.is_raised_by(samples, samples.len() as u64));
        raised.count()
    }

    #[test]
    fn zeros_from_the_start_are_told_once() {
        let zeros: &[f32] = &[0.0; 48_000];
        assert_eq!(told(&[zeros; 10]), 1);
        assert_eq!(told(&[zeros]), 0);
        assert_eq!(told(&[zeros, &[0.1], zeros, zeros, zeros, zeros]), 0);
    }
}
