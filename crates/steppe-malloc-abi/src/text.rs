//! Text without allocation: a line in a fixed buffer, and numbers in decimals.
//!
//! Text beyond the buffer is cut; each user's lines are bounded, and tests read them whole.

use core::fmt::Write;

/// Bytes of the longest line, with room for twice the figures that any has.
const LINE_BYTES: usize = 256;

/// A line that is being written.
pub struct Line {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Self {
        Self {
            bytes: [0; LINE_BYTES],
            len: 0,
        }
    }

    /// Appends text.
    pub fn text(mut self, text: &str) -> Self {
        for byte in text.bytes() {
            if let Some(slot) = self.bytes.get_mut(self.len) {
                *slot = byte;
                self.len += 1;
            }
        }
        self
    }

    /// Appends a number, at least `width` columns wide.
    pub fn number(self, number: usize, width: usize) -> Self {
        let mut digits = [b' '; 20];
        let mut rest = number;
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let start = at.min(digits.len().saturating_sub(width));
        let digits = digits.get(start..).unwrap_or_default();
        self.text(core::str::from_utf8(digits).unwrap_or_default())
    }

    /// The text written so far.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A file descriptor to write to; a short write is continued, an error is returned.
pub struct Descriptor(pub i32);

impl Descriptor {
    /// Writes all of `bytes`.
    pub fn write(&self, bytes: &[u8]) -> core::fmt::Result {
        let mut rest = bytes;
        while !rest.is_empty() {
            // SAFETY: the bytes are valid for reads of their length.
            let written = unsafe { libc::write(self.0, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(_) if crate::errno::read() == libc::EINTR => {}
                Err(_) => return Err(core::fmt::Error),
            }
        }
        Ok(())
    }
}

impl Write for Descriptor {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.write(text.as_bytes())
    }
}

/// A C stream to write to.
pub struct Stream(pub *mut libc::FILE);

impl Stream {
    /// Writes all of `bytes`.
    pub fn write(&self, bytes: &[u8]) -> core::fmt::Result {
        // SAFETY: the bytes are valid for reads of their length; `Stream`'s creator promised an
        // open stream.
        let written = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0) };
        if written == bytes.len() {
            Ok(())
        } else {
            Err(core::fmt::Error)
        }
    }
}

impl Write for Stream {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.write(text.as_bytes())
    }
}
