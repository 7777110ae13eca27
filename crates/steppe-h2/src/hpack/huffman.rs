//! The Huffman code of string literals (RFC 7541 §5.2 and appendix B).
//!
//! The code is canonical: among codes of a length, and from one length to the next, they count up in the order of the
//! symbols. So the lengths are all of the appendix that stands here, and the compiler works out the codes, which
//! appendix C and other implementations check in tests.
//!
//! Reading shifts bytes into 64 bits and looks up the ten first: what field lines are made of has codes of five to
//! eight bits, so one table of 2 KiB answers nearly always. Rejected: a machine that takes a byte a step, whose tables
//! have 64 Ki entries and more, and push what the connection works with out of the cache.

use super::error::DecodeError;

/// RFC 7541 appendix B: bits of the code of each byte, and of EOS.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const SYMBOLS: usize = LENGTHS.len();
const BITS_MIN: usize = 5;
const BITS_MAX: u32 = 30;
/// Codes up to this length are looked up at once.
const SHORT_BITS: u32 = 10;

const CODE: Code = Code::canonical();
static ENCODE: [(u32, u8); 256] = CODE.to_encode();
static SHORT: [Short; 1 << SHORT_BITS] = CODE.short();
static LONG: Code = CODE;

/// The code, worked out from its lengths.
struct Code {
    /// Code of each symbol, in the lowest bits.
    codes: [u32; SYMBOLS],
    /// Symbols in the order of their codes. EOS, which is no byte, is the one behind the last.
    sorted: [u8; 256],
    /// By length: the first code that is longer, its first bit the highest of [`BITS_MAX`].
    ends: [u32; BITS_MAX as usize + 1],
    /// By length: a code less this is its place in `sorted`.
    offsets: [u32; BITS_MAX as usize + 1],
}

/// Symbol that ten bits begin with. No bits: its code is longer than ten.
#[derive(Clone, Copy)]
struct Short {
    symbol: u8,
    bits: u8,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "counts to 256 at most, when compiled"
)]
impl Code {
    const fn canonical() -> Self {
        let mut all = Self {
            codes: [0; SYMBOLS],
            sorted: [0; 256],
            ends: [0; BITS_MAX as usize + 1],
            offsets: [0; BITS_MAX as usize + 1],
        };
        let (mut code, mut place, mut bits) = (0, 0, 1);
        while bits <= BITS_MAX {
            code <<= 1;
            all.offsets[bits as usize] = code - place;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as u32 == bits {
                    all.codes[symbol] = code;
                    if symbol < 256 {
                        all.sorted[place as usize] = symbol as u8;
                    }
                    code += 1;
                    place += 1;
                }
                symbol += 1;
            }
            all.ends[bits as usize] = code << (BITS_MAX - bits);
            bits += 1;
        }
        assert!(
            code == 1 << BITS_MAX,
            "every sequence of bits begins with a code"
        );
        assert!(all.codes[256] == code - 1, "EOS is the last one");
        all
    }

    const fn to_encode(&self) -> [(u32, u8); 256] {
        let mut table = [(0, 0); 256];
        let mut symbol = 0;
        while symbol < 256 {
            table[symbol] = (self.codes[symbol], LENGTHS[symbol]);
            symbol += 1;
        }
        table
    }

    const fn short(&self) -> [Short; 1 << SHORT_BITS] {
        let mut table = [Short { symbol: 0, bits: 0 }; 1 << SHORT_BITS];
        let mut symbol = 0;
        while symbol < 256 {
            let bits = LENGTHS[symbol];
            let mut rest = 0;
            while bits as u32 <= SHORT_BITS && rest < 1 << (SHORT_BITS - bits as u32) {
                let code = self.codes[symbol] << (SHORT_BITS - bits as u32);
                let symbol = symbol as u8;
                table[(code | rest) as usize] = Short { symbol, bits };
                rest += 1;
            }
            symbol += 1;
        }
        table
    }

    /// The place in `sorted` of the symbol that 30 bits begin with, and its length.
    fn find(&self, window: u32) -> (usize, u32) {
        let mut bits = SHORT_BITS + 1;
        // The code is complete: the end of the last length is above all windows.
        while window >= self.ends[bits as usize] {
            bits += 1;
        }
        let code = window >> (BITS_MAX - bits);
        ((code - self.offsets[bits as usize]) as usize, bits)
    }
}

/// Reads a string literal that comes in fragments.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Huffman {
    /// Bits that came, from the highest on; zeros behind them.
    window: u64,
    /// Bits in the window, 63 at most.
    bits: u32,
}

impl Huffman {
    /// The most symbols that can begin in the window and in so many bytes behind it.
    pub(super) fn symbols_max(&self, bytes: usize) -> usize {
        (self.bits as usize + 8 * bytes) / BITS_MIN
    }

    /// Takes bytes until the window is full.
    pub(super) fn fill(&mut self, input: &mut &[u8]) {
        if let Some(chunk) = input.first_chunk::<8>() {
            let taken = (63 - self.bits) / 8;
            self.window |= u64::from_be_bytes(*chunk) >> self.bits;
            self.bits += 8 * taken;
            self.window &= !(u64::MAX >> self.bits);
            *input = &input[taken as usize..];
            return;
        }
        while self.bits <= 55
            && let Some((byte, rest)) = input.split_first()
        {
            self.window |= u64::from(*byte) << (56 - self.bits);
            self.bits += 8;
            *input = rest;
        }
    }

    /// The window has all bits of a symbol.
    pub(super) fn has_symbol(&self) -> bool {
        self.find().1 <= self.bits
    }

    /// The symbol that the window begins with, EOS being none, and its bits.
    fn find(&self) -> (Option<u8>, u32) {
        let short = self.find_short();
        if short.bits > 0 {
            return (Some(short.symbol), u32::from(short.bits));
        }
        let (place, bits) = LONG.find(highest(self.window, BITS_MAX));
        (LONG.sorted.get(place).copied(), bits)
    }

    fn find_short(&self) -> Short {
        SHORT[highest(self.window, SHORT_BITS) as usize]
    }

    fn shift(&mut self, bits: u32) {
        self.window <<= bits;
        self.bits -= bits;
    }

    /// Reads symbols until there are no more, or `out` is full: bytes of `out` that it filled.
    ///
    /// # Errors
    /// [`DecodeError::EndOfString`]
    pub(super) fn read(&mut self, input: &mut &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
        let mut read = 0;
        while read < out.len() {
            self.fill(input);
            let (symbol, bits) = self.find();
            if bits > self.bits {
                break;
            }
            self.shift(bits);
            out[read] = symbol.ok_or(DecodeError::EndOfString)?;
            read += 1;
            read += self.read_short(&mut out[read..]);
        }
        Ok(read)
    }

    /// Reads symbols with short codes while the window has them for sure.
    fn read_short(&mut self, out: &mut [u8]) -> usize {
        let mut read = 0;
        for slot in out {
            let short = self.find_short();
            if self.bits < SHORT_BITS || short.bits == 0 {
                break;
            }
            *slot = short.symbol;
            self.shift(u32::from(short.bits));
            read += 1;
        }
        read
    }

    /// RFC 7541 §5.2: behind the last symbol are fewer than eight bits, the first ones of EOS.
    ///
    /// # Errors
    /// [`DecodeError::Padding`]
    pub(super) fn end(self) -> Result<(), DecodeError> {
        let padding = !(u64::MAX >> self.bits);
        if self.bits < 8 && self.window == padding {
            return Ok(());
        }
        Err(DecodeError::Padding)
    }
}

/// The first bits of a window, as the lowest ones.
#[expect(clippy::cast_possible_truncation, reason = "30 bits at most")]
fn highest(window: u64, bits: u32) -> u32 {
    (window >> (64 - bits)) as u32
}

/// Bytes of a string literal in this code.
pub(super) fn encoded_bytes(string: &[u8]) -> usize {
    let bits = string.iter().map(|byte| bits_of(*byte));
    bits.sum::<usize>().div_ceil(8)
}

fn bits_of(byte: u8) -> usize {
    usize::from(LENGTHS[usize::from(byte)])
}

/// Writes a string literal in this code, with its padding.
///
/// # Panics
/// Unless `out` has [`encoded_bytes`].
pub(super) fn encode(string: &[u8], out: &mut [u8]) {
    let (mut window, mut bits, mut at) = (0u64, 0, 0);
    for byte in string {
        let (code, length) = ENCODE[usize::from(*byte)];
        window = window << length | u64::from(code);
        bits += u32::from(length);
        if bits >= 32 {
            bits -= 32;
            let word = lowest_word(window >> bits);
            out[at..at + 4].copy_from_slice(&word.to_be_bytes());
            at += 4;
        }
    }
    // The rest, from the highest bit on, and the ones of EOS behind it.
    let rest = lowest_word(window << (32 - bits)) | lowest_word(u64::from(u32::MAX) >> bits);
    let rest = rest.to_be_bytes();
    out[at..].copy_from_slice(&rest[..bits.div_ceil(8) as usize]);
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the lowest 32 bits are meant"
)]
fn lowest_word(window: u64) -> u32 {
    window as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(string: &[u8]) -> Vec<u8> {
        let mut out = vec![0; encoded_bytes(string)];
        encode(string, &mut out);
        out
    }

    /// Decodes bytes that come in pieces into room of pieces.
    fn decoded(bytes: &[u8], piece: usize, room: usize) -> Result<Vec<u8>, DecodeError> {
        let mut huffman = Huffman::default();
        let mut string = Vec::new();
        for mut input in bytes.chunks(piece) {
            loop {
                huffman.fill(&mut input);
                let symbols = huffman.symbols_max(input.len());
                if !huffman.has_symbol() {
                    break;
                }
                let mut out = vec![0; room.min(symbols)];
                let read = huffman.read(&mut input, &mut out)?;
                assert!(read > 0, "there was a symbol");
                string.extend(&out[..read]);
            }
            assert_eq!(input, []);
        }
        huffman.end().map(|()| string)
    }

    /// Rows of RFC 7541 appendix B, from every length of codes.
    #[test]
    fn codes_are_those_of_the_rfc() {
        for (symbol, code, bits) in [
            (usize::from(b'0'), 0x0, 5),
            (usize::from(b't'), 0x9, 5),
            (usize::from(b' '), 0x14, 6),
            (usize::from(b'/'), 0x18, 6),
            (usize::from(b':'), 0x5c, 7),
            (usize::from(b'X'), 0xfc, 8),
            (usize::from(b'!'), 0x3f8, 10),
            (usize::from(b'|'), 0x7fc, 11),
            (usize::from(b'#'), 0xffa, 12),
            (0, 0x1ff8, 13),
            (usize::from(b'^'), 0x3ffc, 14),
            (usize::from(b'{'), 0x7ffe, 15),
            (208, 0x7fff2, 19),
            (128, 0xfffe6, 20),
            (153, 0x1fffdc, 21),
            (129, 0x3fffd2, 22),
            (1, 0x7fffd8, 23),
            (9, 0xffffea, 24),
            (199, 0x1ffffec, 25),
            (192, 0x3ffffe0, 26),
            (203, 0x7ffffde, 27),
            (249, 0xffffffe, 28),
            (10, 0x3ffffffc, 30),
            (256, 0x3fffffff, 30),
        ] {
            assert_eq!(
                (CODE.codes[symbol], LENGTHS[symbol]),
                (code, bits),
                "{symbol}"
            );
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let all: Vec<u8> = (0..=255).collect();
        let mut strings: Vec<Vec<u8>> = all.iter().map(|byte| vec![*byte]).collect();
        for start in 0..64 {
            strings.push(all[start..].to_vec());
            strings.push(all[start..].iter().rev().copied().collect());
        }
        // Runs of the shortest codes and of the longest.
        for count in 0..70 {
            strings.push(vec![b'0'; count]);
            strings.push(vec![10; count]);
            strings.push(b"0\n&X".repeat(count));
        }
        for string in strings {
            let bytes = encoded(&string);
            for (piece, room) in [(1000, 1000), (1, 1), (3, 1000), (1000, 2), (8, 7)] {
                assert_eq!(decoded(&bytes, piece, room).as_ref(), Ok(&string));
            }
        }
    }

    /// Every string of two bytes, in one piece and in two.
    #[test]
    fn pieces_decode_as_the_whole() {
        for bytes in 0..=u16::MAX {
            let bytes = bytes.to_be_bytes();
            let whole = decoded(&bytes, 2, 16);
            assert_eq!(decoded(&bytes, 1, 1), whole);
            // What decodes has one code, but for its padding.
            if let Ok(string) = whole {
                assert_eq!(encoded(&string), bytes);
            }
        }
    }
}
