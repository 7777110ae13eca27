//! Padding against attacks by the length of compressed content (BREACH).
//!
//! Its length follows from a keyed hash of the content: a client that asks for the same again sees the same length
//! again, so the mean of many tells no more than one. ADR 0028 has the reasons and the figures.
//!
//! Invariant: what pads is skipped by every decoder, and its length can be any number of bytes from
//! [`bytes_min`] on.

use aws_lc_rs::hmac;
use steppe_mem::Buffer;

use crate::config::Coding;
use crate::limits::{PADDING_WIDTH_BYTES_MAX, PADDING_WIDTH_BYTES_MIN};

/// Compressed content has this many times the bytes of half the padding's range: on average it takes about 3 %.
const WIDTH_SHARE: usize = 32;

/// The content of one response, as far as it went by.
pub(super) struct Padding {
    coding: Coding,
    content: hmac::Context,
}

impl std::fmt::Debug for Padding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Padding").finish_non_exhaustive()
    }
}

impl Padding {
    pub(super) fn new(coding: Coding, key: &hmac::Key) -> Self {
        Self {
            coding,
            content: hmac::Context::with_key(key),
        }
    }

    /// Some of the content goes by.
    pub(super) fn see(&mut self, content: &[u8]) {
        self.content.update(content);
    }

    /// The length of the padding behind content that became `compressed` bytes.
    ///
    /// The sum of two numbers, each uniform over its range: an attacker who varies the content and
    /// averages has
    /// to average far more than with one number, whose least value shows soon.
    pub(super) fn bytes(self, compressed: u64) -> usize {
        let width = width(usize::try_from(compressed).unwrap_or(usize::MAX));
        let tag = self.content.sign();
        let number = |at: usize| {
            let bytes = tag.as_ref()[at..at + 8].try_into().expect("eight bytes");
            let scaled = u128::from(u64::from_le_bytes(bytes)) * (width as u128 + 1);
            usize::try_from(scaled >> 64).expect("at most the width")
        };
        bytes_min(self.coding) + number(0) + number(8)
    }

    /// The longest padding behind content that becomes `compressed` bytes or fewer.
    pub(super) fn bytes_max(&self, compressed: usize) -> usize {
        bytes_min(self.coding) + 2 * width(compressed)
    }

    /// Pads gzip that was made all at once. Its blocks begin at a byte behind its head, and only there do they for
    /// certain.
    ///
    /// # Panics
    /// Where it is none, or has no room for [`Padding::bytes_max`].
    pub(super) fn insert(self, gzip: &mut Buffer) {
        /// RFC 1952 §2.3, without a field that is optional.
        const HEAD_BYTES: usize = 10;
        let compressed = gzip.len();
        let bytes = self.bytes(compressed as u64);
        gzip.advance(bytes);
        let filled = gzip.filled_mut();
        filled.copy_within(HEAD_BYTES..compressed, HEAD_BYTES + bytes);
        fill_gzip(&mut filled[HEAD_BYTES..HEAD_BYTES + bytes]);
    }

    /// True when it stands before the encoder's last bytes, behind a flush; else after them.
    pub(super) fn is_within(coding: Coding) -> bool {
        coding != Coding::Zstd
    }
}

/// Half of the range of what follows `compressed` bytes.
fn width(compressed: usize) -> usize {
    (compressed / WIDTH_SHARE).clamp(PADDING_WIDTH_BYTES_MIN, PADDING_WIDTH_BYTES_MAX)
}

/// Shorter than this is no padding of a format.
fn bytes_min(coding: Coding) -> usize {
    match coding {
        Coding::Gzip => 10,
        Coding::Zstd => 8,
        Coding::Br => 0,
    }
}

/// Fills `room` with what decoders skip. Its length is one of [`Padding::bytes`].
pub(super) fn fill(coding: Coding, room: &mut [u8]) {
    match coding {
        Coding::Gzip => fill_gzip(room),
        Coding::Zstd => fill_zstd(room),
        // RFC 7932 §9.2: a meta-block of metadata without any, and bits up to the next byte.
        Coding::Br => room.fill(0x06),
    }
}

/// Empty blocks of deflate (RFC 1951 §3.2.4): five bytes each where they are stored, which begin and end at a
/// byte; six or seven with one or two blocks of fixed codes before it, of ten bits each.
fn fill_gzip(mut room: &mut [u8]) {
    const FIVE: &[u8] = &[0, 0, 0, 0xff, 0xff];
    const SIX: &[u8] = &[0x02, 0, 0, 0, 0xff, 0xff];
    const SEVEN: &[u8] = &[0x02, 0x08, 0, 0, 0, 0xff, 0xff];
    let odd: &[&[u8]] = match room.len() % FIVE.len() {
        0 => &[],
        1 => &[SIX],
        2 => &[SEVEN],
        3 => &[SIX, SEVEN],
        _ => &[SEVEN, SEVEN],
    };
    for block in odd {
        let (first, rest) = room.split_at_mut(block.len());
        first.copy_from_slice(block);
        room = rest;
    }
    room.chunks_exact_mut(FIVE.len())
        .for_each(|block| block.copy_from_slice(FIVE));
}

/// RFC 8878 §3.1.2: a skippable frame.
fn fill_zstd(room: &mut [u8]) {
    let (head, content) = room.split_at_mut(8);
    head[..4].copy_from_slice(&0x184D_2A50_u32.to_le_bytes());
    let bytes = u32::try_from(content.len()).expect("padding is short");
    head[4..].copy_from_slice(&bytes.to_le_bytes());
    content.fill(0);
}

#[cfg(test)]
mod tests;
