//! µ-law companding, ITU-T G.711: 14 bits of a sample in 8.

const BIAS: i32 = 0x84;
const CLIP: i32 = 32_635;

/// The code of a sample of 16 bits, as on the wire (bits inverted).
#[must_use]
pub fn encode(sample: i16) -> u8 {
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = i32::from(sample).abs().min(CLIP) + BIAS;
    // The segment: where the leading bit stands, from bit 7 up.
    let segment = magnitude.ilog2() - 7;
    let mantissa = magnitude >> (segment + 3) & 0x0f;
    let code = sign | segment << 4 | mantissa.unsigned_abs();
    !u8::try_from(code).expect("a sign, three bits of segment and four of mantissa")
}

/// The sample of a code, 1 at the full scale of 16 bits.
#[must_use]
pub fn decode(code: u8) -> f32 {
    f32::from(decode_s16(code)) / 32_768.0
}

/// The sample of 16 bits of a code.
#[must_use]
pub fn decode_s16(code: u8) -> i16 {
    let code = !code;
    let segment = code >> 4 & 0x07;
    let magnitude = (((i16::from(code & 0x0f) << 3) + 0x84) << segment) - 0x84;
    if code & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of ITU-T G.711, table 2a/2b, and of its reference code (G.191).
    #[test]
    fn codes_are_those_of_the_recommendation() {
        for (sample, code) in [
            (0, 0xff),
            (32_767, 0x80),
            (-32_768, 0x00),
            (1_000, 0xce),
            (-1_000, 0x4e),
            (8, 0xfe),
        ] {
            assert_eq!(encode(sample), code, "{sample}");
        }
        assert_eq!((decode_s16(0x80), decode_s16(0x00)), (32_124, -32_124));
        assert_eq!((decode_s16(0xff), decode_s16(0x7f)), (0, 0));
    }

    #[test]
    fn each_code_decodes_to_a_sample_that_encodes_to_it() {
        for code in 0..=255_u8 {
            let expected = if code == 0x7f { 0xff } else { code };
            assert_eq!(encode(decode_s16(code)), expected, "{code:#x}");
        }
    }
}
