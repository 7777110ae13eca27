//! The voice-activity gate: packets pass while there is energy, and for a while after.
//!
//! The gate looks at energy alone, and knows no speech: loud packets pass. A packet that does not
//! pass is kept for the pre-roll, so that the faint onset of a word passes with it.

/// Threshold and times of a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Root mean square at which it opens, 1 at full scale.
    pub threshold: f32,
    /// Packets that pass after the last loud one.
    pub hangover: u32,
    /// Packets before the first loud one that pass too.
    pub preroll: u32,
}

/// The gate's verdict on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The packet passes, after those of the pre-roll: the gate opened.
    Opens,
    /// The packet passes.
    Passes,
    /// The packet is kept for the pre-roll.
    Kept,
}

/// The state of the gate: open for `left` more packets, closed at 0.
#[derive(Debug)]
pub struct Gate {
    settings: Settings,
    left: u32,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, left: 0 }
    }

    /// Packets of the pre-roll.
    #[must_use]
    pub fn preroll(&self) -> u32 {
        self.settings.preroll
    }

    /// The verdict on the next packet, by its root mean square.
    pub fn judge(&mut self, rms: f32) -> Verdict {
        let was_open = self.left > 0;
        if rms >= self.settings.threshold {
            self.left = self.settings.hangover + 1;
            return if was_open {
                Verdict::Passes
            } else {
                Verdict::Opens
            };
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            Verdict::Passes
        } else {
            Verdict::Kept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Kept, Opens, Passes};

    fn verdicts(hangover: u32, levels: &[f32]) -> Vec<Verdict> {
        let mut gate = Gate::new(Settings {
            threshold: 0.1,
            hangover,
            preroll: 1,
        });
        levels.iter().map(|&rms| gate.judge(rms)).collect()
    }

    #[test]
    fn it_stays_open_for_the_hangover() {
        let levels = [0.0, 0.2, 0.0, 0.0, 0.0, 0.3];
        assert_eq!(
            verdicts(2, &levels),
            [Kept, Opens, Passes, Passes, Kept, Opens]
        );
    }

    #[test]
    fn a_loud_packet_begins_the_hangover_anew() {
        assert_eq!(
            verdicts(1, &[0.1, 0.0, 0.1, 0.0, 0.0]),
            [Opens, Passes, Passes, Passes, Kept]
        );
        assert_eq!(verdicts(0, &[0.1, 0.0]), [Opens, Kept]);
    }
}
