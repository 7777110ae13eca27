//! Integers with a prefix (RFC 7541 §5.1).

use super::error::DecodeError;
use super::out::Out;

/// The largest integer that is read. No index, length or size that makes sense comes near it.
pub(super) const MAX: u32 = (1 << 31) - 1;

/// Bytes behind the prefix, at most: five have the 31 bits of [`MAX`]. More could only be padding with zeros.
const CONTINUATION_BYTES_MAX: u8 = 5;

/// An integer whose last byte has not come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Integer {
    value: u64,
    bytes: u8,
}

impl Integer {
    /// Reads the byte with the prefix: the value where that is all of it.
    pub(super) fn begin(&mut self, byte: u8, prefix: Prefix) -> Option<u32> {
        let low = byte & prefix.mask();
        *self = Self {
            value: u64::from(low),
            bytes: 0,
        };
        (low < prefix.mask()).then_some(u32::from(low))
    }

    /// Reads a byte behind the prefix: the value where it is the last one.
    ///
    /// # Errors
    /// [`DecodeError::Integer`]
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<u32>, DecodeError> {
        let bits = u64::from(byte & 0x7f);
        // Five groups of seven bits and a prefix stay far below 64 bits.
        self.value += bits << (7 * self.bytes);
        self.bytes += 1;
        let is_last = byte & 0x80 == 0;
        let is_too_long = !is_last && self.bytes == CONTINUATION_BYTES_MAX;
        match u32::try_from(self.value) {
            Ok(value) if value <= MAX && !is_too_long => Ok(is_last.then_some(value)),
            _ => Err(DecodeError::Integer(MAX)),
        }
    }
}

/// The byte that an integer begins in: bits of a pattern, and behind them the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    pattern: u8,
    bits: u8,
}

impl Prefix {
    /// RFC 7541 §6.1 to §6.3.
    pub(super) const INDEXED: Self = Self::of(0x80, 7);
    pub(super) const INCREMENTAL: Self = Self::of(0x40, 6);
    pub(super) const SIZE_UPDATE: Self = Self::of(0x20, 5);
    pub(super) const NEVER: Self = Self::of(0x10, 4);
    pub(super) const WITHOUT: Self = Self::of(0, 4);
    /// RFC 7541 §5.2: length of a string literal.
    pub(super) const HUFFMAN: Self = Self::of(0x80, 7);
    pub(super) const RAW: Self = Self::of(0, 7);

    const fn of(pattern: u8, bits: u8) -> Self {
        Self { pattern, bits }
    }

    /// The largest prefix, which says that more bytes follow.
    const fn mask(self) -> u8 {
        u8::MAX >> (8 - self.bits)
    }

    /// Writes an integer.
    pub(super) fn write(self, value: usize, out: &mut Out<'_>) {
        let mask = self.mask();
        if let Ok(small) = u8::try_from(value)
            && small < mask
        {
            return out.push(self.pattern | small);
        }
        out.push(self.pattern | mask);
        let mut rest = value - usize::from(mask);
        while rest > 0x7f {
            out.push(low_bits(rest) | 0x80);
            rest >>= 7;
        }
        out.push(low_bits(rest));
    }
}

/// The most bytes that an integer up to `value` is written in, whatever its prefix.
pub(super) const fn bytes_max(value: usize) -> usize {
    let bits = usize::BITS - value.leading_zeros();
    1 + bits.div_ceil(7) as usize
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the mask leaves seven bits"
)]
fn low_bits(value: usize) -> u8 {
    (value & 0x7f) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], bits: u8) -> Result<Option<u32>, DecodeError> {
        let mut integer = Integer::default();
        if let Some(value) = integer.begin(bytes[0], Prefix::of(0, bits)) {
            assert_eq!(bytes.len(), 1);
            return Ok(Some(value));
        }
        for (at, byte) in bytes.iter().enumerate().skip(1) {
            if let Some(value) = integer.push(*byte)? {
                assert_eq!(at + 1, bytes.len());
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn written(value: u32, bits: u8) -> Vec<u8> {
        let value = value as usize;
        let mut buffer = vec![0; bytes_max(value)];
        let mut out = Out::new(&mut buffer);
        Prefix::of(0, bits).write(value, &mut out);
        out.written().to_vec()
    }

    /// RFC 7541 appendix C.1.
    #[test]
    fn examples_of_the_rfc() {
        for (value, bits, bytes) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 0b1001_1010, 0b1010]),
            (42, 8, &[0b10_1010]),
        ] {
            assert_eq!(written(value, bits), bytes);
            assert_eq!(read(bytes, bits), Ok(Some(value)));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let around = (0..31).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in around.chain([30, 31, 32, 126, 127, 128, 254, 255, 256, MAX]) {
            for bits in 4..=8 {
                assert_eq!(read(&written(value, bits), bits), Ok(Some(value)), "{bits}");
            }
        }
    }

    #[test]
    fn an_integer_has_a_limit() {
        let error = Err(DecodeError::Integer(MAX));
        let most = [0x7f, 0x80, 0xff, 0xff, 0xff, 0x07];
        assert_eq!(read(&most, 7), Ok(Some(MAX)));
        assert_eq!(read(&[0x7f, 0x81, 0xff, 0xff, 0xff, 0x07], 7), error);
        assert_eq!(read(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f], 7), error);
        // Zeros above the value: as short as any value needs, and no longer.
        assert_eq!(
            read(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x00], 7),
            Ok(Some(127))
        );
        assert_eq!(read(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80], 7), error);
    }

    #[test]
    fn an_integer_waits_for_its_last_byte() {
        assert_eq!(read(&[0x1f, 0x9a], 5), Ok(None));
    }
}
