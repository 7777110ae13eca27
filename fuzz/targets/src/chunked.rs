//! The chunked coding: the same content however the input is cut, and as a plain decoder has it.
//!
//! The first byte is the size of the pieces.

use steppe_http::h1::chunked::Decoder;

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let Some((&piece_bytes, bytes)) = input.split_first() else {
        return;
    };
    let at_once = decode(bytes, bytes.len().max(1));
    let in_pieces = decode(bytes, usize::from(piece_bytes).max(1));
    assert_eq!(at_once, in_pieces);
    if let Some((content, Some(rest))) = at_once {
        let (expected, expected_rest) = plain(bytes).expect("accepted here, so it is well formed");
        assert_eq!(content, expected);
        assert_eq!(rest, expected_rest);
    }
}

/// Content, and where the trailer section begins; `None` for an error.
fn decode(bytes: &[u8], piece_bytes: usize) -> Option<(Vec<u8>, Option<usize>)> {
    let (mut decoder, mut content, mut at) = (Decoder::default(), Vec::new(), 0);
    for piece in bytes.chunks(piece_bytes) {
        let mut piece = piece.to_vec();
        let decoded = decoder.decode(&mut piece).ok()?;
        assert!(decoded.content <= decoded.consumed && decoded.consumed <= piece.len());
        content.extend_from_slice(&piece[..decoded.content]);
        at += decoded.consumed;
        if decoded.is_last {
            return Some((content, Some(at)));
        }
    }
    Some((content, None))
}

/// RFC 9112 §7.1, for whole inputs: lines and counts, nothing clever.
fn plain(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let line_end = at + bytes[at..].windows(2).position(|pair| pair == b"\r\n")?;
        let line = &bytes[at..line_end];
        let digits = line.split(|&byte| byte == b';').next()?;
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        at = line_end + 2;
        if size == 0 {
            return Some((content, at));
        }
        content.extend_from_slice(bytes.get(at..at + size)?);
        at += size;
        if bytes.get(at..at + 2)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
}
