//! One sample, between its formats and a float of full scale ±1.

use super::mulaw;
use crate::format::Sample;

/// The sample in these bytes.
#[must_use]
pub fn decode(sample: Sample, bytes: &[u8]) -> f32 {
    match (sample, bytes) {
        (Sample::S16, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
        (Sample::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (Sample::Mulaw, &[code]) => mulaw::decode(code),
        _ => 0.0,
    }
}

/// Writes a sample into these bytes, rounded to the nearest and clipped at full scale.
pub fn encode(sample: Sample, value: f32, bytes: &mut [u8]) {
    match sample {
        Sample::S16 => bytes.copy_from_slice(&s16(value).to_le_bytes()),
        Sample::F32 => bytes.copy_from_slice(&value.to_le_bytes()),
        Sample::Mulaw => bytes.fill(mulaw::encode(s16(value))),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, as it should")]
fn s16(value: f32) -> i16 {
    (value * 32_768.0).round() as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_s16_comes_back_and_what_is_louder_is_clipped() {
        let mut bytes = [0; 2];
        for value in i16::MIN..=i16::MAX {
            encode(
                Sample::S16,
                decode(Sample::S16, &value.to_le_bytes()),
                &mut bytes,
            );
            assert_eq!(i16::from_le_bytes(bytes), value);
        }
        for (loud, clipped) in [(1.5, i16::MAX), (-1.5, i16::MIN), (f32::NAN, 0)] {
            encode(Sample::S16, loud, &mut bytes);
            assert_eq!(i16::from_le_bytes(bytes), clipped);
        }
    }
}
