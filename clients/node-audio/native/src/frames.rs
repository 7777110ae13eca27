//! Frames on their way into slots: their number, and how each is written.
//!
//! A packet takes as many frames as fit, so frames are written from any index and straight to their
//! place.

use crate::format::Format;

/// Consecutive frames, in the format of packets once they are written.
pub trait Frames {
    /// The number of frames.
    fn count(&self) -> u64;

    /// Writes whole frames from index `first` on, as many as fit into the target.
    fn write(&self, first: u64, target: &mut [u8]);

    /// True if writing reads samples, which counts as a copy.
    fn is_copied(&self) -> bool {
        true
    }
}

/// Frames of a device: samples, or a number of silent frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Data<'a> {
    /// Whole frames.
    Bytes(&'a [u8]),
    /// A number of frames of silence.
    Silence(u64),
}

impl<'a> Data<'a> {
    /// The number of whole frames.
    #[must_use]
    pub fn count(self, format: Format) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64 / u64::from(format.frame_bytes()),
            Self::Silence(frames) => frames,
        }
    }

    /// The frames as they are.
    #[must_use]
    pub fn plain(self, format: Format) -> Plain<'a> {
        Plain { data: self, format }
    }
}

/// Frames that are in the format of packets.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a> {
    data: Data<'a>,
    format: Format,
}

impl Frames for Plain<'_> {
    fn count(&self) -> u64 {
        self.data.count(self.format)
    }

    fn write(&self, first: u64, target: &mut [u8]) {
        match self.data {
            Data::Bytes(bytes) => {
                target.copy_from_slice(span(bytes, first, target.len(), self.format))
            }
            Data::Silence(_) => target.fill(self.format.sample.silence()),
        }
    }

    fn is_copied(&self) -> bool {
        matches!(self.data, Data::Bytes(_))
    }
}

/// The bytes of frames from index `first` on, `len` of them.
#[must_use]
pub fn span(bytes: &[u8], first: u64, len: usize, format: Format) -> &[u8] {
    let start = usize::try_from(first).unwrap_or(usize::MAX) * format.frame_bytes() as usize;
    &bytes[start..start + len]
}
