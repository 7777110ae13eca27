//! Escapes a peer's bytes for log lines.
//!
//! Invariant: the output is printable ASCII on one line, at most four characters
//! per byte, so a peer can neither inject a line nor a terminal escape sequence.

use std::fmt::{self, Write};

/// Bytes shown by [`Escaped::new`].
const SHOWN_BYTES_MAX: usize = 128;

/// Displays bytes escaped and truncated.
///
/// ```
/// use steppe_telemetry::Escaped;
///
/// assert_eq!(Escaped::new(b"GET /\r\nforged: 1").to_string(), r"GET /\r\nforged: 1");
/// assert_eq!(Escaped::first(b"abcdef", 3).to_string(), "abc… (6 bytes)");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    shown_bytes_max: usize,
}

impl<'a> Escaped<'a> {
    /// Shows the first 128 bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::first(bytes, SHOWN_BYTES_MAX)
    }

    /// Shows the first `shown_bytes_max` bytes.
    #[must_use]
    pub fn first(bytes: &'a [u8], shown_bytes_max: usize) -> Self {
        Self {
            bytes,
            shown_bytes_max,
        }
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(self.shown_bytes_max)];
        for byte in shown
            .iter()
            .flat_map(|byte| std::ascii::escape_default(*byte))
        {
            f.write_char(char::from(byte))?;
        }
        if shown.len() < self.bytes.len() {
            write!(f, "… ({} bytes)", self.bytes.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_becomes_printable_ascii() {
        let all: Vec<u8> = (0..=255).collect();
        let shown = Escaped::first(&all, 256).to_string();
        assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert!(shown.contains(r"\x1b"));
        assert!(shown.contains(r"\xff"));
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        let shown = Escaped::new(&[b'a'; 1_000]).to_string();
        assert_eq!(shown, format!("{}… (1000 bytes)", "a".repeat(128)));
    }

    #[test]
    fn text_that_fits_is_whole() {
        assert_eq!(Escaped::first(b"abc", 3).to_string(), "abc");
        assert_eq!(Escaped::new(b"").to_string(), "");
    }
}
