//! Conversion from a device's format to that of packets.
//!
//! Without resampling a frame goes from the device's buffer straight into the slot, its samples mixed and
//! encoded on the way: one copy. With it there are three: decoded and mixed, resampled, encoded.

pub mod mix;
pub mod mulaw;
pub mod resample;
pub mod sample;
pub mod sinc;

use crate::channel_map::StreamFormat;
use crate::error::{Error, Result};
use crate::format::{Format, Sample};
use mix::Matrix;
use resample::Resampler;

/// Policy on the conversion of a device's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Convert where the formats differ.
    Allow,
    /// Refuse a device with another format than that of packets.
    Refuse,
}

/// Conversion of a device's frames to those of packets.
pub enum Conversion {
    /// The formats are the same.
    None,
    /// Channels are mixed, samples encoded.
    Mix(Matrix),
    /// Frames are resampled too.
    Resample(Box<Resampler>),
}

impl Conversion {
    /// The conversion from one format to another.
    ///
    /// # Errors
    /// [`Error::Format`]: the policy refuses the conversion.
    pub fn new(from: StreamFormat, to: StreamFormat, policy: Policy) -> Result<Self> {
        let is_same_rate = from.format.rate == to.format.rate;
        let matrix = Matrix::new(from, to);
        if from.format == to.format && matrix.is_identity() {
            return Ok(Self::None);
        }
        if policy == Policy::Refuse {
            return Err(Error::Format(format!(
                "the device provides {from}, the capture requires {to}; set `format` to the device's \
                 format and channel map, or `convert` to 'allow'"
            )));
        }
        if is_same_rate {
            return Ok(Self::Mix(matrix));
        }
        Ok(Self::Resample(Box::new(Resampler::new(from, to)?)))
    }

    /// Delay of the sound by the conversion, in frames of packets.
    #[must_use]
    pub fn delay_frames(&self) -> f64 {
        match self {
            Self::None | Self::Mix(_) => 0.0,
            Self::Resample(resampler) => resampler.delay_frames(),
        }
    }
}

/// The same format with samples as floats.
#[must_use]
pub fn in_floats(format: Format) -> Format {
    Format {
        sample: Sample::F32,
        ..format
    }
}
