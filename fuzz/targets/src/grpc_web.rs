//! gRPC-Web, both ways: the same however the input is cut, as a plain decoder has it, and bounded.
//!
//! The first byte is the size of the pieces, the second the room of the output.

use steppe_http::grpc::web::{TextDecoder, TextEncoder, trailers_bytes, write_trailers};

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let Some((&[piece_bytes, room], bytes)) = input.split_first_chunk() else {
        return;
    };
    let piece_bytes = usize::from(piece_bytes).max(1);
    let text = decode(bytes, bytes.len().max(1));
    assert_eq!(text, decode(bytes, piece_bytes));
    assert_eq!(text, plain(bytes));
    let room = TextEncoder::ROOM_MIN + usize::from(room);
    let encoded = encode(bytes, bytes.len().max(1), 1 << 16);
    assert_eq!(encoded, encode(bytes, piece_bytes, room));
    assert!(encoded.len() <= 2 * bytes.len() + 4);
    assert_eq!(decode(&encoded, piece_bytes).as_deref(), Some(bytes));
    as_trailers(bytes);
}

/// `None`: it is no text of gRPC-Web.
fn decode(text: &[u8], piece_bytes: usize) -> Option<Vec<u8>> {
    let (mut decoder, mut content) = (TextDecoder::default(), Vec::new());
    for piece in text.chunks(piece_bytes) {
        let mut out = vec![0; TextDecoder::decoded_bytes_max(piece.len())];
        let written = decoder.decode(piece, &mut out).ok()?;
        content.extend_from_slice(&out[..written]);
    }
    decoder.finish().ok()?;
    Some(content)
}

fn encode(content: &[u8], piece_bytes: usize, room: usize) -> Vec<u8> {
    let (mut encoder, mut text, mut out) = (TextEncoder::default(), Vec::new(), vec![0; room]);
    for mut piece in content.chunks(piece_bytes) {
        while !piece.is_empty() {
            let encoded = encoder.encode(piece, &mut out);
            assert!(encoded.read > 0, "it goes on");
            text.extend_from_slice(&out[..encoded.written]);
            piece = &piece[encoded.read..];
        }
    }
    let written = encoder.finish(&mut out);
    text.extend_from_slice(&out[..written]);
    text
}

/// RFC 4648 §4, for whole inputs: a group of four letters is as good as any other.
fn plain(text: &[u8]) -> Option<Vec<u8>> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut content = Vec::new();
    for group in text.chunks(4) {
        let letters = group.iter().take_while(|letter| **letter != b'=').count();
        let is_padded = group[letters..].iter().all(|letter| *letter == b'=');
        if group.len() < 4 || letters < 2 || !is_padded {
            return None;
        }
        let mut bits = 0_u32;
        for letter in &group[..letters] {
            bits = bits << 6 | u32::from(value(*letter)?);
        }
        let bytes = (bits << (6 * (4 - letters))).to_be_bytes();
        if bytes[letters..].iter().any(|byte| *byte != 0) {
            return None;
        }
        content.extend_from_slice(&bytes[1..letters]);
    }
    Some(content)
}

/// Lines of the input as trailers: one message, of the length that it says.
fn as_trailers(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.split_at(line.len() / 2));
    let mut message = Vec::new();
    write_trailers(lines.clone(), &mut message);
    assert_eq!(message.len(), trailers_bytes(lines));
    let length = u32::try_from(message.len() - 5).expect("inputs are small");
    assert_eq!(message[0], 0x80);
    assert_eq!(message[1..5], length.to_be_bytes());
}
