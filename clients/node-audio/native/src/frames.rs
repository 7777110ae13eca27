//! Frames that are on their way into slots: how many there are, and how each is written.
//!
//! A packet takes what fits, so frames are written from anywhere and straight to where they stay.

use crate::format::Format;

/// Some frames in a row, in the format of packets once they are written.
pub trait Frames {
    /// How many there are.
    fn count(&self) -> u64;

    /// Writes whole frames from the one of this number on, as many as the target takes.
    fn write(&self, first: u64, target: &mut [u8]);

    /// Whether writing them reads samples: what counts as a copy.
    fn is_copied(&self) -> bool {
        true
    }
}

/// What a device gave: samples, or the word that they are zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Data<'a> {
    /// Whole frames.
    Bytes(&'a [u8]),
    /// So many frames of silence.
    Silence(u64),
}

impl<'a> Data<'a> {
    /// Whole frames of it.
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

/// So many bytes of frames from the one of this number on.
#[must_use]
pub fn span(bytes: &[u8], first: u64, len: usize, format: Format) -> &[u8] {
    let start = usize::try_from(first).unwrap_or(usize::MAX) * format.frame_bytes() as usize;
    &bytes[start..start + len]
}
