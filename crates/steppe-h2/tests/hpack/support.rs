//! Short cuts of the tests.

use steppe_h2::hpack::{DecodeError, Decoder, Encoder, FieldLine, Indexing, Out};

use crate::sink::{Pair, Sink};

/// Bytes of hex digits, with spaces anywhere.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits = text.replace(' ', "");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Decodes a whole block.
pub fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(Pair, Indexing)>, DecodeError> {
    let mut sink = Sink::new();
    decoder.decode(block, &mut sink)?;
    decoder.end()?;
    Ok(sink.lines)
}

/// Encodes a whole block.
pub fn encode(encoder: &mut Encoder, lines: &[FieldLine<'_>]) -> Vec<u8> {
    let mut block = vec![0; 1 << 20];
    let mut out = Out::new(&mut block);
    encoder.begin(&mut out).expect("room");
    for line in lines {
        let before = out.left();
        encoder.field(line, &mut out).expect("room");
        let bound = Encoder::field_bytes_max(line.name.len(), line.value.len());
        assert!(before - out.left() <= bound, "{line:?} is above its bound");
    }
    out.written().to_vec()
}

pub fn line<'a>(name: &'a str, value: &'a str) -> FieldLine<'a> {
    FieldLine {
        name: name.as_bytes(),
        value: value.as_bytes(),
        indexing: Indexing::Without,
    }
}
