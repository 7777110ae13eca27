//! Sample formats, and formats of streams.

use crate::error::{Error, Result};
use crate::limits::{CHANNELS_MAX, RATE_MAX, RATE_MIN};

/// Encoding of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// Signed 16-bit integer, little-endian.
    S16,
    /// IEEE 754 single, little-endian, full scale at ±1.
    F32,
    /// µ-law, ITU-T G.711, with its bits inverted as on the wire.
    Mulaw,
}

impl Sample {
    /// Bytes of a sample.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::S16 => 2,
            Self::F32 => 4,
            Self::Mulaw => 1,
        }
    }

    /// Number of the format in the control block: the layout's `SAMPLE`.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::S16 => 1,
            Self::F32 => 2,
            Self::Mulaw => 3,
        }
    }

    /// The byte of silence.
    #[must_use]
    pub fn silence(self) -> u8 {
        match self {
            Self::S16 | Self::F32 => 0,
            Self::Mulaw => 0xff,
        }
    }

    /// Parses the name in options.
    ///
    /// # Errors
    /// [`Error::Options`] for any other word.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "s16" => Ok(Self::S16),
            "f32" => Ok(Self::F32),
            "mulaw" => Ok(Self::Mulaw),
            _ => Err(Error::Options(format!(
                "format.sample is '{word}'; expected 's16', 'f32' or 'mulaw'"
            ))),
        }
    }

    /// The name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::S16 => "s16",
            Self::F32 => "f32",
            Self::Mulaw => "mulaw",
        }
    }
}

/// Format of a stream of interleaved frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Frames a second, in Hz.
    pub rate: u32,
    /// Samples of a frame.
    pub channels: u32,
    /// Encoding of each sample.
    pub sample: Sample,
}

impl Format {
    /// A format within the limits.
    ///
    /// # Errors
    /// [`Error::Options`] names the value outside of them.
    pub fn checked(rate: u32, channels: u32, sample: Sample) -> Result<Self> {
        if !(RATE_MIN..=RATE_MAX).contains(&rate) {
            return Err(Error::Options(format!(
                "format.sampleRate is {rate} Hz; expected {RATE_MIN} to {RATE_MAX}"
            )));
        }
        if !(1..=CHANNELS_MAX).contains(&channels) {
            return Err(Error::Options(format!(
                "format.channels is {channels}; expected 1 to {CHANNELS_MAX}"
            )));
        }
        Ok(Self {
            rate,
            channels,
            sample,
        })
    }

    /// Bytes of a frame.
    #[must_use]
    pub fn frame_bytes(self) -> u32 {
        self.channels * self.sample.bytes()
    }

    /// Length of a number of frames, in ns.
    #[must_use]
    pub fn duration_ns(self, frames: u64) -> u64 {
        scaled(frames, 1_000_000_000, self.rate.into())
    }

    /// Number of whole frames in a length of time in ns.
    #[must_use]
    pub fn frames_in(self, ns: u64) -> u64 {
        scaled(ns, self.rate.into(), 1_000_000_000)
    }
}

/// A value times a ratio, rounded down.
fn scaled(much: u64, by: u64, over: u64) -> u64 {
    // The product of a packet's values fits into 64 bits, whose division is an instruction; that of
    // 128 bits is a function.
    if let Some(product) = much.checked_mul(by) {
        return product / over;
    }
    let wide = u128::from(much) * u128::from(by) / u128::from(over);
    u64::try_from(wide).unwrap_or(u64::MAX)
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rate, channels) = (self.rate, self.channels);
        write!(f, "{rate} Hz, {channels} channels, {}", self.sample.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_limits() {
        assert!(Format::checked(48_000, 2, Sample::S16).is_ok());
        for (rate, channels) in [(3_999, 2), (384_001, 2), (48_000, 0), (48_000, 33)] {
            let error = Format::checked(rate, channels, Sample::F32).unwrap_err();
            assert_eq!(error.code(), "ERR_INVALID_OPTION", "{rate} {channels}");
        }
    }

    #[test]
    fn durations_and_frames_are_exact() {
        let format = Format::checked(44_100, 2, Sample::S16).unwrap();
        assert_eq!(format.frame_bytes(), 4);
        assert_eq!(format.duration_ns(44_100), 1_000_000_000);
        assert_eq!(format.frames_in(10_000_000), 441);
        // A year of frames does not overflow.
        assert_eq!(
            format.duration_ns(44_100 * 31_536_000),
            31_536_000_000_000_000
        );
        // The largest number whose product fits into 64 bits, and the next one.
        for frames in [u64::MAX / 1_000_000_000, u64::MAX / 1_000_000_000 + 1] {
            let exact = u128::from(frames) * 1_000_000_000 / 44_100;
            assert_eq!(u128::from(format.duration_ns(frames)), exact, "{frames}");
        }
    }
}
