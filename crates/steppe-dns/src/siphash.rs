//! SipHash: a keyed hash for which peers can't find collisions. Spec: Aumasson and Bernstein, "SipHash: a
//! fast short-input PRF".

/// A key. Without it, hashes can't be predicted.
#[derive(Clone, Copy)]
pub struct SipKey(pub [u64; 2]);

/// SipHash with `C` rounds for each word and `D` at the end, over a stream of bytes.
#[derive(Clone, Copy)]
pub struct SipHash<const C: usize, const D: usize> {
    state: [u64; 4],
    /// Bytes after the last whole word, the first lowest.
    tail: u64,
    bytes: u64,
}

/// SipHash-1-3, for tables.
pub type SipHash13 = SipHash<1, 3>;

/// SipHash-2-4, which RFC 9018 §4.4 requires for cookies.
pub type SipHash24 = SipHash<2, 4>;

impl SipKey {
    /// A key from sixteen bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        let [low, high] = [both, both >> 64].map(|half| half & u128::from(u64::MAX));
        Self([low, high].map(|half| u64::try_from(half).unwrap_or_default()))
    }
}

impl std::fmt::Debug for SipKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SipKey(secret)")
    }
}

impl<const C: usize, const D: usize> SipHash<C, D> {
    /// The state before any bytes.
    #[must_use]
    pub fn new(key: &SipKey) -> Self {
        let [k0, k1] = key.0;
        Self {
            state: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
            tail: 0,
            bytes: 0,
        }
    }

    /// The hash of these bytes.
    #[must_use]
    pub fn of(key: &SipKey, bytes: &[u8]) -> u64 {
        let mut hash = Self::new(key);
        hash.write(bytes);
        hash.finish()
    }

    /// Adds bytes.
    pub fn write(&mut self, mut bytes: &[u8]) {
        if self.bytes.is_multiple_of(8) {
            while let Some((word, rest)) = bytes.split_first_chunk::<8>() {
                self.word(u64::from_le_bytes(*word));
                self.bytes += 8;
                bytes = rest;
            }
        }
        bytes.iter().for_each(|&byte| self.write_byte(byte));
    }

    /// Adds a byte.
    pub fn write_byte(&mut self, byte: u8) {
        self.tail |= u64::from(byte) << (8 * (self.bytes % 8));
        self.bytes += 1;
        if self.bytes.is_multiple_of(8) {
            self.word(self.tail);
            self.tail = 0;
        }
    }

    /// The hash of the bytes so far; more may follow.
    #[must_use]
    pub fn finish(&self) -> u64 {
        let mut hash = *self;
        hash.word(self.tail | self.bytes << 56);
        hash.state[2] ^= 0xff;
        (0..D).for_each(|_| hash.round());
        hash.state.iter().fold(0, |all, word| all ^ word)
    }

    fn word(&mut self, word: u64) {
        self.state[3] ^= word;
        (0..C).for_each(|_| self.round());
        self.state[0] ^= word;
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.state;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.state = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SipKey {
        SipKey::from_bytes(std::array::from_fn(|index| u8::try_from(index).unwrap()))
    }

    #[test]
    fn the_vectors_of_the_authors_come_out() {
        // The paper's appendix A, and the first three of the reference implementation.
        let input: Vec<u8> = (0..15).collect();
        for (len, expected) in [
            (0, 0x726f_db47_dd0e_0e31_u64),
            (1, 0x74f8_39c5_93dc_67fd),
            (2, 0x0d6c_8009_d9a9_4f5a),
            (15, 0xa129_ca61_49be_45e5),
        ] {
            assert_eq!(
                SipHash24::of(&key(), &input[..len]),
                expected,
                "{len} bytes"
            );
        }
    }

    #[test]
    fn bytes_may_come_in_pieces() {
        let input: Vec<u8> = (0..64).collect();
        for cut in 0..64 {
            let mut hash = SipHash13::new(&key());
            hash.write(&input[..cut]);
            hash.write(&input[cut..]);
            assert_eq!(hash.finish(), SipHash13::of(&key(), &input));
        }
    }
}
